"""What a user declares of a table, as it stands in `land_tables`."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from aqueduct.common import durations
from aqueduct.common.topic_names import LEGAL_NAME, matches
from aqueduct.errors import Refused
from aqueduct.kafka import client_config
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.land import avro_schema, text_conversion, times, types

INVALID = "landing-declaration-invalid"
MISPLACED = "landing-option-misplaced"
NAME = re.compile(r"[a-z_][a-z0-9_]{0,127}")
STEP = re.compile(r"(?:[^.\\]|\\.?)+")  # of a path; a dot or a backslash behind a backslash is of the name
ESCAPE = re.compile(r"\\([.\\])")
REGISTRY = re.compile(r"https?://[^/@?#\s]+(/[^@?#\s]*)?")
SIGNS = {chr(code) for code in range(0x20, 0x7F)} | {"\t", "\x01"}  # Hive's own delimiter is \x01
OWN = ("k_topic", "k_partition", "k_offset", "k_timestamp", "k_tombstone")
KEY, VALUE, TIMESTAMP, HEADER = "$key", "$value", "$timestamp", "$headers."
LATE_EXAMPLE = "database.name"
TEXT_OR_BYTES = (pa.string(), pa.binary())  # what is taken of a record as it is, but for its timestamp


LEAST_SNAPSHOTS = 3600
SNAPSHOTS = 86_400  # seconds, for which an Iceberg table can be read as it was


class TableKind(StrEnum):
    """How readers find a table's files."""

    HIVE = "hive"  # in folders, and as an external table of ORC files in Hive's catalogue
    ICEBERG = "iceberg"  # as an Iceberg table of ORC files in Hive's catalogue


class Format(StrEnum):
    """A format of records' values."""

    JSON = "json"
    DELIMITED = "delimited"
    RAW = "raw"
    AVRO = "avro"
    AVRO_REGISTRY = "avro_registry"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column, and where in the record it comes from."""

    name: str
    type: pa.DataType
    path: tuple[str, ...]  # of a field; or one of KEY, VALUE, TIMESTAMP, HEADER + name
    zone: ZoneInfo
    unit: str | None  # of an epoch; None: text
    expression: str | None = None  # of SQL over the other columns, from which it comes instead
    cuts_nanoseconds: bool = False  # of a timestamp; else a value with some is a rejected record

    @property
    def of_value(self) -> bool:
        return not self.path[0].startswith("$")

    @property
    def origin(self) -> str:
        """Say where it comes from."""
        return self.expression or written_path(self.path)


@dataclass(frozen=True)
class PartitionedBy:
    """A partition of the table: a day of a column's time."""

    name: str
    of: Column


@dataclass(frozen=True)
class Delimited:
    """Rows of delimited text."""

    fields: tuple[str, ...]  # their names, in their order
    delimiter: str
    quote: str


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry of schemas, by Confluent's REST API."""

    url: str
    config: ClientConfig  # its CA, certificate and key for https; its login for basic authentication


@dataclass(frozen=True)
class LateTable:
    """The table of rows that come late."""

    table: str  # database.table
    after: int  # seconds after the end of its day that a row is late, by Kafka's time of the record


@dataclass(frozen=True)
class FilteredTable:
    """The table of offsets whose rows are left out."""

    table: str  # database.table
    where: str  # a condition of SQL, which rows that land fulfil


@dataclass(frozen=True, kw_only=True)
class LandTable:
    """A table, and the topics that land in it."""

    database: str
    name: str
    topics: tuple[str, ...]
    format: Format
    columns: tuple[Column, ...]
    partitioned_by: PartitionedBy | None
    bad: str  # database.table, of records that can't be rows
    keeps_tombstones: bool
    every: int | None = None  # seconds between rounds of a landing that runs on; None: as its command says
    late: LateTable | None = None  # None: what comes late goes into its own day
    delimited: Delimited | None = None
    avro: str | None = None  # the schema, as JSON
    registry: SchemaRegistry | None = None
    kind: TableKind = TableKind.HIVE
    snapshots: int = SNAPSHOTS  # seconds that those of an Iceberg table are kept after their end
    filtered: FilteredTable | None = None  # None: every row lands
    strips: tuple[str, ...] = ()  # of texts.STRIPPED, which values have around them

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def beside(self) -> tuple[str, ...]:
        """The tables that share its log."""
        others = (extra.table for extra in (self.late, self.filtered) if extra)
        return (self.bad, *others)

    @property
    def by_sql(self) -> bool:
        """Whether Spark's SQL has a part in its rows."""
        return self.filtered is not None or any(column.expression for column in self.columns)

    def takes(self, topic: str) -> bool:
        """Return whether a topic lands here: it is named, or a pattern matches it."""
        return any(
            topic == pattern if LEGAL_NAME.fullmatch(pattern) else matches(re.compile(pattern), topic)
            for pattern in self.topics
        )

    def unmatched(self, topics: Collection[str]) -> tuple[str, ...]:
        """Return the patterns that match none of these topics."""
        patterns = (pattern for pattern in self.topics if not LEGAL_NAME.fullmatch(pattern))
        return tuple(
            pattern for pattern in patterns if not any(matches(re.compile(pattern), name) for name in topics)
        )

    @property
    def named_topics(self) -> tuple[str, ...]:
        return tuple(topic for topic in self.topics if LEGAL_NAME.fullmatch(topic))


def read_path(text: str) -> tuple[str, ...]:
    """Return the steps of a path; an empty one where two dots stand together, or one at an end."""
    steps, end = [], -1
    for match in STEP.finditer(text):
        steps += [""] * (match.start() - end - 1)
        steps.append(ESCAPE.sub(r"\1", match[0]))
        end = match.end()
    return (*steps, *([""] * (len(text) - end)))


def written_path(path: Sequence[str]) -> str:
    """Return a path as it is declared."""
    if path[0].startswith("$"):
        return ".".join(path)
    return ".".join(step.replace("\\", "\\\\").replace(".", "\\.") for step in path)


def parse(content: Any, file: str) -> tuple[LandTable, ...]:
    """Return the declared tables of parsed YAML; Refused with all that is wrong, a sentence a line."""
    tables, wrong = _parsed(content, file)
    if wrong:
        ids = {error.id for error in wrong}
        raise Refused(ids.pop() if len(ids) == 1 else INVALID, "\n".join(map(str, wrong)))
    return tuple(tables)


def faults(content: Any, file: str) -> list[Refused]:
    """Return all that is wrong with the declared tables of parsed YAML."""
    return _parsed(content, file)[1]


def _parsed(content: Any, file: str) -> tuple[list[LandTable], list[Refused]]:
    if isinstance(content, Mapping) and list(content) == ["land_tables"]:
        content = content["land_tables"]
    if not isinstance(content, list) or not content:
        sentence = (
            f"{file}: the file has no list of tables; write `- table: database.name` with its "
            "topics and columns."
        )
        return [], [Refused(INVALID, sentence)]
    tables, wrong = [], list[Refused]()
    for number, declaration in enumerate(content):
        where = f"{file}: {declaration.get('table', number) if isinstance(declaration, Mapping) else number}"
        try:
            tables.append(_table(declaration, where, Path(file).parent))
        except Refused as error:
            wrong.append(error)
    seen: set[str] = set()
    for name in (name for table in tables for name in (table.full_name, *table.beside)):
        if name in seen:
            wrong.append(
                Refused(
                    INVALID,
                    f"{file}: the table {name} is declared twice; use different table names for each table, "
                    "its bad table and its table of late rows.",
                )
            )
        seen.add(name)
    return tables, wrong


TABLE_KEYS = (
    *("table", "topics", "format", "columns", "partition_by", "poison", "tombstones", "late", "every"),
    *("kind", "snapshots", "sql", "strip"),
)
SQL_KEYS = ("columns", "where")
SQL_COLUMN_KEYS = ("name", "type", "expression", "zone")
SQL = "$sql"  # where its columns come from
DELIMITED_KEYS = ("header", "delimiter", "quote")
AVRO_KEYS = ("schema",)
REGISTRY_KEYS = ("registry", "registry_config")
COLUMN_KEYS = ("name", "type", "from", "zone", "unit", "nanoseconds")


def _table(content: Any, where: str, folder: Path) -> LandTable:
    given = _mapping(content, (*TABLE_KEYS, *DELIMITED_KEYS, *AVRO_KEYS, *REGISTRY_KEYS), where)
    format_ = _choice(Format, given.get("format", Format.JSON), f"{where}.format")
    database, name = _table_name(_text(given, "table", where), f"{where}.table")
    kind = _choice(TableKind, given.get("kind", TableKind.HIVE), f"{where}.kind")
    sql = _sql(given, kind, where)
    columns = (
        *(
            _column(column, format_, f"{where}.columns[{index}]")
            for index, column in enumerate(_list(given, "columns", where))
        ),
        *(
            _sql_column(column, f"{where}.sql.columns[{index}]")
            for index, column in enumerate(_list(sql, "columns", f"{where}.sql") if "columns" in sql else ())
        ),
    )
    _check_names(columns, where)
    bad = str(given.get("poison", f"{database}.{name}_bad"))
    _table_name(bad, f"{where}.poison")
    partitioned_by = _partitioned(given.get("partition_by"), columns, f"{where}.partition_by")
    return LandTable(
        database=database,
        name=name,
        topics=tuple(_names(given, "topics", where)),
        format=format_,
        columns=columns,
        partitioned_by=partitioned_by,
        bad=bad,
        keeps_tombstones=_choice(("drop", "keep"), given.get("tombstones", "drop"), f"{where}.tombstones")
        == "keep",
        every=_every(given, where),
        late=_late(given.get("late", "add"), partitioned_by, f"{where}.late"),
        delimited=_delimited(given, format_, columns, where),
        avro=_avro(given, format_, columns, where, folder),
        registry=_registry(given, format_, where, folder),
        kind=kind,
        snapshots=_snapshots(given, kind, where),
        filtered=_filtered(sql, f"{database}.{name}_filtered", where),
        strips=_strips(given, format_, where),
    )


def _strips(given: Mapping[str, Any], format_: Format, where: str) -> tuple[str, ...]:
    if "strip" not in given:
        return ()
    if format_ not in (Format.JSON, Format.DELIMITED):
        raise Refused(
            MISPLACED,
            f"{where}.strip: only the formats json and delimited have this option. Remove it.",
        )
    return tuple(
        _choice(text_conversion.STRIPPED, stripped, f"{where}.strip")
        for stripped in _list(given, "strip", where)
    )


def _sql(given: Mapping[str, Any], kind: TableKind, where: str) -> Mapping[str, Any]:
    """Return what is declared of SQL; Refused if the table can't have it."""
    if "sql" not in given:
        return {}
    sql = _mapping(given["sql"], SQL_KEYS, f"{where}.sql")
    if not sql:
        raise Refused(INVALID, f"{where}.sql: write columns, where, or both.")
    if kind is TableKind.ICEBERG:
        raise Refused(
            MISPLACED,
            f"{where}.sql: a table of the kind {TableKind.ICEBERG} does not support sql. Remove it.",
        )
    return sql


def _filtered(sql: Mapping[str, Any], table: str, where: str) -> FilteredTable | None:
    return FilteredTable(table, _text(sql, "where", f"{where}.sql")) if "where" in sql else None


def _every(given: Mapping[str, Any], where: str) -> int | None:
    if "every" not in given:
        return None
    if not (seconds := _seconds(given["every"], f"{where}.every")):
        raise Refused(INVALID, f"{where}.every: the time between rounds is too short; write 1s or more.")
    return seconds


def _snapshots(given: Mapping[str, Any], kind: TableKind, where: str) -> int:
    if "snapshots" not in given:
        return SNAPSHOTS
    if kind is not TableKind.ICEBERG:
        raise Refused(
            MISPLACED,
            f"{where}.snapshots: only tables of the kind {TableKind.ICEBERG} have this option. Remove it.",
        )
    if (seconds := _seconds(given["snapshots"], f"{where}.snapshots")) < LEAST_SNAPSHOTS:
        raise Refused(
            INVALID,
            f"{where}.snapshots: running queries read older snapshots; write 1h or more, at least "
            "as long as queries take.",
        )
    return seconds


def _seconds(text: Any, where: str) -> int:
    try:
        return durations.parse(str(text))
    except ValueError as error:
        raise Refused(INVALID, f"{where}: {text} is not a duration; write {error}.") from None


def _late(content: Any, by: PartitionedBy | None, where: str) -> LateTable | None:
    if content == "add":
        return None
    if not isinstance(content, Mapping):
        raise Refused(
            INVALID,
            f"{where}: {content} is not allowed; write add, or {{table: {LATE_EXAMPLE}, after: 7d}}.",
        )
    given = _mapping(content, ("table", "after"), where)
    table = _text(given, "table", where)
    _table_name(table, f"{where}.table")
    after = _seconds(given.get("after"), f"{where}.after")
    if by is None:
        raise Refused(
            INVALID,
            f"{where}: only a table with partitions by day has late rows; declare partition_by, or "
            "remove late.",
        )
    if by.of.path == (TIMESTAMP,):
        raise Refused(
            INVALID,
            f"{where}: the partitions use Kafka's timestamp, so no record is late; remove late.",
        )
    return LateTable(table, after)


def _avro(
    given: Mapping[str, Any], format_: Format, columns: Sequence[Column], where: str, folder: Path
) -> str | None:
    """Return the declared schema; Refused if it is none, or if a column does not fit it."""
    if format_ is not Format.AVRO:
        _without(given, AVRO_KEYS, Format.AVRO, where)
        return None
    text = given.get("schema")
    if isinstance(text, str) and not text.lstrip().startswith("{"):
        text = _content(folder / text, f"{where}.schema")
    elif isinstance(text, Mapping):
        text = json.dumps(text, default=str)
    if not isinstance(text, str):
        raise Refused(
            INVALID,
            f"{where}.schema: the format avro needs a schema; write it as JSON, or as the name of a file.",
        )
    try:
        schema = avro_schema.parse(text)
        for column in columns:
            if not column.of_value:
                continue
            field_schema = avro_schema.at(schema, column.path)
            if field_schema is None:
                field_names = tuple(avro_schema.names(schema, column.path))
                field = column.origin
                raise Refused(
                    INVALID,
                    f"{where}.schema: the schema has no field {field}{_meant(column.path[-1], field_names)}.",
                )
            if reason := avro_schema.unfit(field_schema, column.type, column.unit):
                raise Refused(INVALID, f"{where}.columns: cannot read {column.name}: {reason}.")
    except avro_schema.WrongSchema as error:
        raise Refused(INVALID, f"{where}.schema: {error}.") from None
    return text


def _registry(given: Mapping[str, Any], format_: Format, where: str, folder: Path) -> SchemaRegistry | None:
    if format_ is not Format.AVRO_REGISTRY:
        _without(given, REGISTRY_KEYS, Format.AVRO_REGISTRY, where)
        return None
    url = _text(given, "registry", where)
    if not REGISTRY.fullmatch(url):
        raise Refused(
            INVALID,
            f"{where}.registry: this is not the URL of a registry; write "
            "https://registry.example.com:8081, and set its user in the file of registry_config.",
        )
    config = given.get("registry_config")
    if config is not None and not isinstance(config, str):
        raise Refused(INVALID, f"{where}.registry_config: this must be the name of a file.")
    own = client_config.load(folder / config if config else None, for_tasks=True)
    return SchemaRegistry(url.rstrip("/"), own)


def _without(given: Mapping[str, Any], keys: Iterable[str], format_: Format, where: str) -> None:
    for key in keys:
        if key in given:
            raise Refused(MISPLACED, f"{where}.{key}: only the format {format_} has this option. Remove it.")


def _content(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused("landing-schema-unreadable", f"{where}: cannot read {path}: {reason}.") from None


def _delimited(
    given: Mapping[str, Any], format_: Format, columns: Sequence[Column], where: str
) -> Delimited | None:
    """Return how rows are read; Refused if the columns are not among their fields."""
    if format_ is not Format.DELIMITED:
        _without(given, DELIMITED_KEYS, Format.DELIMITED, where)
        return None
    taken = [column for column in columns if column.of_value]
    fields = (
        tuple(_list(given, "header", where)) if "header" in given else tuple(column.name for column in taken)
    )
    for field in fields:
        if not isinstance(field, str) or fields.count(field) > 1:
            raise Refused(
                INVALID,
                f"{where}.header: {field} is not the name of exactly one field; write a different "
                "text for each field.",
            )
    for column in taken:
        if "header" not in given and column.path != (column.name,):
            raise Refused(
                INVALID, f"{where}: without a header, fields belong to columns by their order; remove `from`."
            )
        if column.path[0] not in fields:
            raise Refused(
                INVALID,
                f"{where}.header: the header has no {column.path[0]}{_meant(column.path[0], fields)}.",
            )
        if pa.types.is_list(column.type):
            raise Refused(INVALID, f"{where}: {column.name} is an array, but delimited text has no arrays.")
        for other in taken:
            if other.path == column.path and other.type in TEXT_OR_BYTES and column.type not in TEXT_OR_BYTES:
                raise Refused(
                    INVALID,
                    f"{where}.columns: {other.name} and {column.name} read the same field, but an "
                    "empty field is an empty text for the first and NULL for the second; remove "
                    "one of them.",
                )
    delimited = Delimited(fields, str(given.get("delimiter", ",")), str(given.get("quote", '"')))
    for key, sign in (("delimiter", delimited.delimiter), ("quote", delimited.quote)):
        if len(sign) != 1 or sign not in SIGNS or delimited.delimiter == delimited.quote:
            raise Refused(
                INVALID,
                f"{where}.{key}: {sign!r} is not allowed; write one ASCII character that differs "
                "from the other one.",
            )
    return delimited


def _column(content: Any, format_: Format, where: str) -> Column:
    given = _mapping(content, COLUMN_KEYS, where)
    name = _named(given, where)
    type_ = types.parse(_text(given, "type", where), f"{where}.type")
    origin = _text(given, "from", where) if "from" in given else name
    own = origin.startswith("$")
    path = (origin,) if own or format_ is Format.DELIMITED else read_path(origin)
    if own and origin not in (KEY, VALUE, TIMESTAMP) and not origin.startswith(HEADER):
        every = "$key, $value, $timestamp and $headers.NAME"
        raise Refused(INVALID, f"{where}.from: {origin} does not exist; use one of {every}.")
    if format_ is Format.RAW and not own:
        raise Refused(INVALID, f"{where}.from: raw records have no field {origin}; use $key, $value, ...")
    if not all(path):
        raise Refused(
            INVALID,
            f"{where}.from: {origin} is not a path; write names separated by dots, and a backslash "
            "before a dot in a name.",
        )
    kinds = (types.TIMESTAMP,) if origin == TIMESTAMP else TEXT_OR_BYTES
    if own and type_ not in kinds:
        kind_names = " or ".join(map(types.hive, kinds))
        raise Refused(INVALID, f"{where}.type: {origin} has the type {kind_names}, not {types.hive(type_)}.")
    timed = types.scalar_of(type_) == types.TIMESTAMP
    for key in ("zone", "unit", "nanoseconds"):
        if key in given and not timed:
            raise Refused(MISPLACED, f"{where}.{key}: only timestamps have this option. Remove it.")
    unit = given.get("unit")
    if unit is not None:
        _choice(tuple(times.UNITS), unit, f"{where}.unit")
    zone = times.zone(str(given.get("zone", "UTC")), f"{where}.zone")
    nanos = _choice(("reject", "cut"), given.get("nanoseconds", "reject"), f"{where}.nanoseconds")
    return Column(name=name, type=type_, path=path, zone=zone, unit=unit, cuts_nanoseconds=nanos == "cut")


def _named(given: Mapping[str, Any], where: str) -> str:
    """Return a column's name."""
    name = _text(given, "name", where)
    if not NAME.fullmatch(name):
        raise Refused(
            INVALID, f"{where}.name: {name} is not a valid column name; use lower-case letters, digits and _."
        )
    if name in OWN:
        raise Refused(INVALID, f"{where}.name: {name} is a column of every table; use another name.")
    return name


def _sql_column(content: Any, where: str) -> Column:
    given = _mapping(content, SQL_COLUMN_KEYS, where)
    name, type_ = _named(given, where), types.parse(_text(given, "type", where), f"{where}.type")
    if "zone" in given and type_ != types.TIMESTAMP:
        raise Refused(MISPLACED, f"{where}.zone: only timestamps have this option. Remove it.")
    zone = times.zone(str(given.get("zone", "UTC")), f"{where}.zone")
    return Column(
        name=name,
        type=type_,
        path=(SQL, name),
        zone=zone,
        unit=None,
        expression=_text(given, "expression", where),
    )


def _partitioned(content: Any, columns: Sequence[Column], where: str) -> PartitionedBy | None:
    if content is None:
        return None
    if not isinstance(content, list) or len(content) != 1:
        raise Refused(
            INVALID, f"{where}: write a list of one partition: [{{name: day, of: departed, every: day}}]."
        )
    given = _mapping(content[0], ("name", "of", "every"), where)
    name, of = _text(given, "name", where), _text(given, "of", where)
    _choice(("day",), given.get("every", "day"), f"{where}.every")
    by_name = {column.name: column for column in columns}
    if of not in by_name:
        raise Refused(INVALID, f"{where}.of: column {of} does not exist{_meant(of, by_name)}.")
    if by_name[of].type != types.TIMESTAMP:
        raise Refused(
            INVALID,
            f"{where}.of: {of} has the type {types.hive(by_name[of].type)}, but days need a timestamp.",
        )
    if name in by_name or name in OWN or not NAME.fullmatch(name):
        raise Refused(
            INVALID,
            f"{where}.name: {name} is not a valid partition name; use lower-case letters, digits "
            "and _, and not the name of a column.",
        )
    return PartitionedBy(name, by_name[of])


def _check_names(columns: Iterable[Column], where: str) -> None:
    """Refuse two columns of one name, and a path that would be read in two ways."""
    seen: set[str] = set()
    paths: dict[tuple[str, ...], Column] = {}
    for column in columns:
        if column.name in seen:
            raise Refused(INVALID, f"{where}.columns: {column.name} is declared twice.")
        seen.add(column.name)
        other = paths.setdefault(column.path, column)
        if column.of_value and types.of_json(column.type, column.unit) != types.of_json(
            other.type, other.unit
        ):
            raise Refused(
                INVALID,
                f"{where}.columns: {other.name} and {column.name} read {column.origin} as "
                "different kinds of values; use the same kind in both.",
            )
    for path in paths:
        for length in range(1, len(path)):
            if path[:length] in paths:
                raise Refused(
                    INVALID,
                    f"{where}.columns: {written_path(path[:length])} is read as a value and, in "
                    f"{written_path(path)}, as an object; remove one of them.",
                )


def _mapping(content: Any, keys: Sequence[str], where: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise Refused(INVALID, f"{where}: this must be a mapping with {', '.join(keys)}.")
    for key in content:
        if key not in keys:
            raise Refused(
                INVALID,
                f"{where}: key {key} does not exist{_meant(str(key), keys)}; the keys are {', '.join(keys)}.",
            )
    return content


def _text(given: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(value := given.get(key), str) or not value:
        raise Refused(INVALID, f"{where}: {key} must be set, as text.")
    return value


def _list(given: Mapping[str, Any], key: str, where: str) -> list[Any]:
    if not isinstance(value := given.get(key), list) or not value:
        raise Refused(INVALID, f"{where}: {key} must be a list with at least one element.")
    return value


def _names(given: Mapping[str, Any], key: str, where: str) -> list[str]:
    patterns = [given[key]] if isinstance(given.get(key), str) else _list(given, key, where)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise Refused(INVALID, f"{where}.{key}: this must be a list of names or patterns.")
        try:
            re.compile(pattern)
        except re.error as error:
            raise Refused(
                INVALID, f"{where}.{key}: {pattern} is neither a topic name nor a pattern: {error}."
            ) from None
    return patterns


def _choice(choices: Any, value: Any, where: str) -> Any:
    every = [str(choice) for choice in choices]
    if value not in every:
        raise Refused(
            INVALID,
            f"{where}: {value} is not allowed{_meant(str(value), every)}; the values are {', '.join(every)}.",
        )
    return choices(value) if isinstance(choices, type) else value


def _table_name(name: str, where: str) -> tuple[str, str]:
    database, dot, table = name.partition(".")
    if not dot or not NAME.fullmatch(database) or not NAME.fullmatch(table):
        raise Refused(
            INVALID,
            f"{where}: {name} is not a valid table name; write database.table in lower-case "
            "letters, digits and _.",
        )
    return database, table


def _meant(name: str, candidates: Iterable[str]) -> str:
    close = get_close_matches(name, list(candidates), 1)
    return f"; did you mean {close[0]}?" if close else ""
