"""How tables that landed look in Hive's catalogue, and what it lacks of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from aqueduct.errors import Refused
from aqueduct.land import log, rows, types
from aqueduct.land.declaration import Column, LandTable
from aqueduct.land.log import State
from aqueduct.land.table_log import folder
from aqueduct.store import url
from aqueduct.wording import some

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
    "k_timestamp": "Kafka's own time of the record, in UTC",
    "k_tombstone": "whether the record is a tombstone",
}
BAD_COMMENTS = {
    **OWN_COMMENTS,
    "error": "why the record is no row",
    "value": "the record's value, as it is",
    "key": "the record's key, as it is",
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
            f"--metastore: Hadoop's name of {text} has the account in it, which {of.scheme}:// has not: "
            "take --no-metastore, and create the tables by hand."
        )
    return str(of).replace(of.scheme, HADOOP.get(of.scheme, of.scheme), 1).rstrip("/")


def tables(at: str, table: LandTable, state: State) -> tuple[HiveTable, ...]:
    """Return a table, its bad table, and that of its late rows if it has one, as they were committed.

    `at`: of location().
    """
    defined = state.definition or log.definition(table)
    by_name = {column.name: column for column in table.columns}
    own = [*rows.OWN, rows.TOMBSTONE] if defined.tombstones else rows.OWN
    name, _, of = defined.partition.partition(" of ")
    wanted = HiveTable(
        table.database,
        table.name,
        f"{at}/{folder(table.full_name)}",
        (
            *_columns(own, OWN_COMMENTS),
            *(HiveColumn(each.name, each.type, _comment(by_name.get(each.name))) for each in defined.columns),
        ),
        HiveColumn(name, DAY, f"day of {of}") if name else None,
        _properties(at, table, f"Records of {some(table.topics)}, landed by aqueduct"),
    )
    return (
        wanted,
        HiveTable(
            *_split(defined.bad),
            f"{at}/{folder(defined.bad)}",
            _columns(rows.BAD, BAD_COMMENTS),
            None,
            _properties(at, table, f"Records that are no rows of {table.full_name}"),
        ),
        *([_late(at, table, wanted, defined.late)] if defined.late else []),
    )


def _late(at: str, table: LandTable, of: HiveTable, full_name: str) -> HiveTable:
    database, name = _split(full_name)
    properties = _properties(at, table, f"Rows of {table.full_name} that came late")
    return replace(
        of, database=database, name=name, location=f"{at}/{folder(full_name)}", properties=properties
    )


def _columns(fields: Iterable[pa.Field], comments: Mapping[str, str]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(each.name, types.hive(each.type), comments[each.name]) for each in fields)


def _split(full_name: str) -> tuple[str, str]:
    database, _, name = full_name.partition(".")
    return database, name


def _properties(at: str, table: LandTable, comment: str) -> dict[str, str]:
    return {"comment": comment, LOG: f"{at}/{folder(table.full_name)}/{log.FOLDER}"}


def _comment(column: Column | None) -> str:
    if column is None:
        return ""
    said = f"from {column.origin}"
    timed = types.scalar_of(column.type) == types.TIMESTAMP
    return (f"in UTC, {said}" if timed else said)[:COMMENT]


def partitions(state: State) -> tuple[frozenset[str], ...]:
    """Return the folders of live files, which are the names of partitions, of each of tables()."""
    return tuple(
        frozenset(path.rpartition("/")[0] for path in files) - {""}
        for files in (state.live, state.bad, state.late)
    )


def value(partition: str) -> str:
    """Return the value of a partition's column by the partition's name."""
    return partition.partition("=")[2]


def foreign(wanted: HiveTable, found: FoundTable) -> str | None:
    """Return why a table of that name in the catalogue isn't the one that landed; None if it is."""
    if why := elsewhere(wanted, found):
        return why
    if is_iceberg(found):
        return "it is an Iceberg table"
    if found.input != wanted.reading.input:
        return f"its files are read by {found.input}, not as ORC"
    has = [(each.name, each.type) for each in found.partitions]
    wants = [(each.name, each.type) for each in ([wanted.partition] if wanted.partition else [])]
    if has != wants:
        return f"it is partitioned by {_said(has)}, not by {_said(wants)}"
    types_ = {each.name: each.type for each in found.columns}
    for each in wanted.columns:
        if types_.get(each.name, each.type) != each.type:
            return f"its column {each.name} is of type {types_[each.name]}, not {each.type}"
    return None


def elsewhere(wanted: HiveTable, found: FoundTable) -> str | None:
    """Return why a table of that name is none of our files, whatever reads them; None if it is."""
    if found.kind != EXTERNAL:
        return f"it is a {found.kind.lower().replace('_', ' ')}, not an external one"
    if _plain(found.location) != _plain(wanted.location):
        return f"its location is {found.location}, not {wanted.location}"
    return None


def taken(metastore: str, name: str, why: str) -> str:
    """Return the sentence about a table of others."""
    return f"{metastore} has another table {name}: {why}. Declare another name, or drop or rename that one."


def is_iceberg(found: FoundTable) -> bool:
    return found.properties.get(TABLE_TYPE, "").upper() == ICEBERG


def _said(columns: Sequence[tuple[str, str]]) -> str:
    return some(" ".join(each) for each in columns) or "nothing"


def _plain(place: str) -> str:
    """Return a location without what Hadoop may write in two ways: file:/a and file:///a/."""
    scheme, _, path = place.partition(":")
    return f"{scheme}:{path.replace('///', '/', 1) if path.startswith('///') else path}".rstrip("/")


def lacking(wanted: HiveTable, found: FoundTable) -> str:
    """Name the columns that a table has not; their comments change nothing for readers."""
    had = {each.name for each in found.columns}
    return some(each.name for each in wanted.columns if each.name not in had)


def differs(wanted: HiveTable, found: FoundTable) -> bool:
    """Return whether a table lacks columns, comments or properties."""
    whole = {*wanted.columns} <= {*found.columns}
    return not (whole and wanted.properties.items() <= found.properties.items())


def merged(wanted: HiveTable, found: FoundTable) -> tuple[HiveColumn, ...]:
    """Return the columns that the catalogue is to have: those that it has, in their order, then new ones.

    Readers go by names, and a metastore may refuse columns that change their places.
    """
    by_name = {each.name: each for each in wanted.columns}
    kept = [by_name.pop(each.name, each) for each in found.columns]
    return (*kept, *by_name.values())
