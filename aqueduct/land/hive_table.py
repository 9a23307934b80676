"""How tables that landed look in Hive's catalogue, and what it lacks of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from aqueduct.common.wording import some
from aqueduct.errors import Refused
from aqueduct.land import log, rows, types
from aqueduct.land.declaration import Column, LandTable
from aqueduct.land.log import State
from aqueduct.land.table_log import folder
from aqueduct.store import url

EXTERNAL = "EXTERNAL_TABLE"
TABLE_TYPE, ICEBERG = "table_type", "ICEBERG"  # a property by which Iceberg's readers know a table
LOG = "aqueduct.log"  # the property that says where a table's log is
# The type of a partition's column. As `date`, Hive 3.1 filters no partitions, and Spark's query fails at the
# default one, which is no date.
DAY = "string"
# Hadoop's names of stores that have others. Its URL of Azure's holds an account, which ours does not.
HADOOP = {"s3": "s3a"}
NOT_IN_HADOOP = ("az",)
COMMENT = 256  # letters of a column's, at most, in the metastore's database
OWN_COMMENTS = {
    "k_topic": "topic in Kafka",
    "k_partition": "partition in Kafka",
    "k_offset": "offset in Kafka",
    "k_timestamp": "Kafka's timestamp of the record, in UTC",
    "k_tombstone": "whether the record is a tombstone",
}
BAD_COMMENTS = {
    **OWN_COMMENTS,
    "error": "reason why the record is not a row",
    "value": "value of the record, unchanged",
    "key": "key of the record, unchanged",
}


@dataclass(frozen=True)
class Reading:
    """The classes of Hive that read and write a table's files."""

    serde: str
    input: str
    output: str


ORC = Reading(
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
)


@dataclass(frozen=True)
class HiveColumn:
    name: str
    type: str
    comment: str


@dataclass(frozen=True, kw_only=True)
class HiveTable:
    """An external table, as it is to be in the catalogue."""

    database: str
    name: str
    location: str
    columns: tuple[HiveColumn, ...]
    partition: HiveColumn | None
    properties: Mapping[str, str]
    reading: Reading = ORC

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, kw_only=True)
class FoundTable:
    """A table as the catalogue has it."""

    kind: str  # EXTERNAL or another one
    location: str
    input: str  # the class that reads its files
    columns: tuple[HiveColumn, ...]
    partitions: tuple[HiveColumn, ...]  # the columns of folders
    properties: Mapping[str, str] = field(default_factory=dict)


def location(text: str) -> str:
    """Return a location as Hadoop calls it; Refused if that can't be known."""
    of = url.parse(text)
    if of.scheme in NOT_IN_HADOOP:
        raise Refused(
            "landing-location-unsupported",
            f"--metastore: the Hadoop URL of {text} must contain the storage account, but a URL with "
            f"{of.scheme}:// does not contain it. Pass --no-metastore, and create the tables manually.",
        )
    return str(of).replace(of.scheme, HADOOP.get(of.scheme, of.scheme), 1).rstrip("/")


def tables(root: str, table: LandTable, state: State) -> tuple[HiveTable, ...]:
    """Return a table, its bad table, and that of its late rows if it has one, as they were committed.

    `root`: of location().
    """
    defined = state.definition or log.definition(table)
    by_name = {column.name: column for column in table.columns}
    own = [*rows.OWN, rows.TOMBSTONE] if defined.tombstones else rows.OWN
    name, _, of = defined.partition.partition(" of ")
    main_table = HiveTable(
        database=table.database,
        name=table.name,
        location=f"{root}/{folder(table.full_name)}",
        columns=(
            *_columns(own, OWN_COMMENTS),
            *(
                HiveColumn(column.name, column.type, _comment(by_name.get(column.name)))
                for column in defined.columns
            ),
        ),
        partition=HiveColumn(name, DAY, f"day of {of}") if name else None,
        properties=_properties(root, table, f"Records of {some(table.topics)}, landed by aqueduct"),
    )
    bad_database, bad_name = _split(defined.bad)
    return (
        main_table,
        HiveTable(
            database=bad_database,
            name=bad_name,
            location=f"{root}/{folder(defined.bad)}",
            columns=_columns(rows.BAD, BAD_COMMENTS),
            partition=None,
            properties=_properties(
                root, table, f"Records that do not match the declaration of {table.full_name}"
            ),
        ),
        *([_late(root, table, main_table, defined.late)] if defined.late else []),
    )


def _late(root: str, table: LandTable, of: HiveTable, full_name: str) -> HiveTable:
    database, name = _split(full_name)
    properties = _properties(root, table, f"Rows of {table.full_name} that arrived late")
    return replace(
        of, database=database, name=name, location=f"{root}/{folder(full_name)}", properties=properties
    )


def _columns(fields: Iterable[pa.Field], comments: Mapping[str, str]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(column.name, types.hive(column.type), comments[column.name]) for column in fields)


def _split(full_name: str) -> tuple[str, str]:
    database, _, name = full_name.partition(".")
    return database, name


def _properties(root: str, table: LandTable, comment: str) -> dict[str, str]:
    return {"comment": comment, LOG: f"{root}/{folder(table.full_name)}/{log.FOLDER}"}


def _comment(column: Column | None) -> str:
    if column is None:
        return ""
    origin = f"from {column.origin}"
    timed = types.scalar_of(column.type) == types.TIMESTAMP
    return (f"in UTC, {origin}" if timed else origin)[:COMMENT]


def partitions(state: State) -> tuple[frozenset[str], ...]:
    """Return the folders of live files, which are the names of partitions, of each of tables()."""
    return tuple(
        frozenset(path.rpartition("/")[0] for path in files) - {""}
        for files in (state.live, state.bad, state.late)
    )


def value(partition: str) -> str:
    """Return the value of a partition's column by the partition's name."""
    return partition.partition("=")[2]


def foreign(target: HiveTable, stored: FoundTable) -> str | None:
    """Return why a table of that name in the catalogue isn't the one that landed; None if it is."""
    if reason := elsewhere(target, stored):
        return reason
    if is_iceberg(stored):
        return "it is an Iceberg table"
    if stored.input != target.reading.input:
        return f"its input format is {stored.input}, not ORC"
    has = [(column.name, column.type) for column in stored.partitions]
    wants = [(column.name, column.type) for column in ([target.partition] if target.partition else [])]
    if has != wants:
        return f"it is partitioned by {_said(has)}, not by {_said(wants)}"
    types_ = {column.name: column.type for column in stored.columns}
    for column in target.columns:
        if types_.get(column.name, column.type) != column.type:
            return f"its column {column.name} is of type {types_[column.name]}, not {column.type}"
    return None


def elsewhere(target: HiveTable, stored: FoundTable) -> str | None:
    """Return why a table of that name is none of our files, whatever reads them; None if it is."""
    if stored.kind != EXTERNAL:
        return f"it is a {stored.kind.lower().replace('_', ' ')}, not an external table"
    if _plain(stored.location) != _plain(target.location):
        return f"its location is {stored.location}, not {target.location}"
    return None


def taken(metastore: str, name: str, reason: str) -> str:
    """Return the sentence about a table of others."""
    return (
        f"{metastore} already has another table {name}: {reason}. Declare another table name, or rename "
        "the table in the metastore."
    )


def is_iceberg(stored: FoundTable) -> bool:
    return stored.properties.get(TABLE_TYPE, "").upper() == ICEBERG


def _said(columns: Sequence[tuple[str, str]]) -> str:
    return some(" ".join(column) for column in columns) or "nothing"


def _plain(uri: str) -> str:
    """Return a location without what Hadoop may write in two ways: file:/a and file:///a/."""
    scheme, _, path = uri.partition(":")
    return f"{scheme}:{path.replace('///', '/', 1) if path.startswith('///') else path}".rstrip("/")


def lacking(target: HiveTable, stored: FoundTable) -> str:
    """Name the columns that a table has not; their comments change nothing for readers."""
    had = {column.name for column in stored.columns}
    return some(column.name for column in target.columns if column.name not in had)


def differs(target: HiveTable, stored: FoundTable) -> bool:
    """Return whether a table lacks columns, comments or properties."""
    whole = {*target.columns} <= {*stored.columns}
    return not (whole and target.properties.items() <= stored.properties.items())


def merged(target: HiveTable, stored: FoundTable) -> tuple[HiveColumn, ...]:
    """Return the columns that the catalogue is to have: those that it has, in their order, then new ones.

    Readers go by names, and a metastore may refuse columns that change their places.
    """
    by_name = {column.name: column for column in target.columns}
    kept = [by_name.pop(column.name, column) for column in stored.columns]
    return (*kept, *by_name.values())
