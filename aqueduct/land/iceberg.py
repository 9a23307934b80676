"""Brings Iceberg tables in Hive's catalogue up to what tables' logs say, as catalogue.py does Hive's tables.

A table's new metadata is a file; that it is the table's now is said by the metastore, under a lock, and only
if it is of what the table was. So of two who bring it up at once one begins again, and finds what the other
did. A snapshot has the number of the newest commit of the log in it; who knows an older log changes nothing.
"""

import io
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count as numbers
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.snapshot import (
    _MergeAppendFiles,
    _OverwriteFiles,
    _SnapshotProducer,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import EMPTY_DICT, Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from aqueduct.errors import AqueductError, Failed
from aqueduct.land import hive_table, iceberg_codecs, iceberg_table
from aqueduct.land.declaration import LandTable
from aqueduct.land.hive_table import HiveColumn, HiveTable
from aqueduct.land.iceberg_table import CLOCK, COMMIT, POSITIONS, Change, IcebergTable
from aqueduct.land.log import BAD, LATE, AddedFile, State, ending
from aqueduct.land.metastore import METADATA, Metastore, Moved, Unanswered
from aqueduct.store.backends import open_editable
from aqueduct.store.objects import EditableObjects, MissingObject
from aqueduct.wording import count, some

ATTEMPTS = 3  # beside others who bring the table up
FIRST_FIELD = 1000  # of a partition, by Iceberg's specification
NAME_MAPPING = "schema.name-mapping.default"  # by which files without field ids are read
SCALARS: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}
# What went wrong is told here, in sentences.
logging.getLogger("pyiceberg").addHandler(logging.NullHandler())
logging.getLogger("pyiceberg").propagate = False


@dataclass(frozen=True)
class KnownIcebergTable:
    """A table as the catalogue has it."""

    table: Table
    paths: frozenset[str]  # of its newest snapshot's files
    read: float  # when the metastore was asked, by the monotonic clock

    @property
    def commit(self) -> int:
        """The newest commit of the log in it."""
        snapshot = self.table.current_snapshot()
        return _commit(snapshot) if snapshot else 0

    def least_commit(self, state: State) -> int:
        """Return the least commit that is in each snapshot, if the newest one has what the state has."""
        newest = self.table.current_snapshot()
        return min((_commit(each) for each in self.table.snapshots() if each != newest), default=state.number)


class Uncleared(Failed):
    """The failure to remove what nobody needs any more of a table that is as it is to be."""


class IcebergTables:
    """Iceberg tables in Hive's catalogue, read as a whole seldom, and else only changed."""

    def __init__(
        self, metastore: Callable[[], Metastore], location: str, compare_seconds: float = math.inf
    ) -> None:
        """Ask nothing yet; Refused if Hadoop has no such location.

        `compare_seconds`: after which the metastore is asked again where nothing is new.
        """
        self._metastore = metastore
        self._compare_seconds = compare_seconds
        self._at = hive_table.location(location)
        self._objects = open_editable(location)
        self._known: dict[str, KnownIcebergTable] = {}  # by full name

    def follow(self, table: LandTable, state: State, *, tidy: bool = False) -> None:
        """Bring the tables of a log up to it.

        `tidy`: expire each snapshot that may go, and not only if some may.
        """
        uncleared: list[Uncleared] = []
        for wanted in iceberg_table.tables(self._at, table, state):
            with _sentences(wanted):
                for attempt in range(1, ATTEMPTS + 1):
                    try:
                        self._bring(wanted, state, table.snapshots, tidy=tidy)
                    except Moved:
                        if attempt == ATTEMPTS:
                            raise
                    except Uncleared as error:
                        uncleared.append(error)
                        break
                    else:
                        break
        if uncleared:
            raise uncleared[0]

    def newest(self, table: LandTable, state: State) -> int:
        """Return the newest commit of the log that is in the tables of one."""
        newest = 0
        for wanted in iceberg_table.tables(self._at, table, state):
            with _sentences(wanted):
                known = self._known.get(wanted.full_name)
                if known is None or self._old(known):
                    known = self._load(wanted, known)
            if known:
                self._known.setdefault(wanted.full_name, replace(known, read=-math.inf))  # not brought up yet
                newest = max(newest, known.commit)
        return newest

    def named(self, table: LandTable, state: State) -> Callable[[int, str], bool]:
        """Return which files snapshots name, by the number of the commit that removed each, and its path.

        As of the last follow().
        """
        least = [
            self._known[wanted.full_name].least_commit(state)
            for wanted in iceberg_table.tables(self._at, table, state)
        ]

        def is_named(number: int, path: str) -> bool:
            of = {BAD: 1, LATE: 2}.get(ending(path), 0)
            return of >= len(least) or least[of] < number

        return is_named

    def lacks(self, table: LandTable, state: State) -> str:
        """Return what the catalogue lacks of a table, and nothing if it has all; change nothing."""
        for wanted in iceberg_table.tables(self._at, table, state):
            with _sentences(wanted):
                known = self._load(wanted)
            if known is None:
                return f"it has no {wanted.full_name}" if state.number else ""
            if columns := iceberg_table.lacking(wanted.hive, _columns(known.table.schema())):
                return f"{wanted.full_name} has not the columns {some(each.name for each in columns)}"
            if known.table.properties.get(NAME_MAPPING) != _name_mapping(known.table.schema()):
                return f"{wanted.full_name} lacks our {NAME_MAPPING}, by which readers find columns"
            change = iceberg_table.change(wanted, known.paths)
            if change.added:
                return f"it lacks {count(len(change.added), 'file')} of {wanted.full_name}"
            if change.removed:
                return f"it has {count(len(change.removed), 'file')} of {wanted.full_name} more than the log"
        return ""

    def check(self, table: LandTable, state: State) -> str | None:
        """Return why the catalogue has another table of one of the names; None if it has none."""
        for wanted in iceberg_table.tables(self._at, table, state):
            found = self._metastore().table(wanted.hive.database, wanted.hive.name)
            if found and (why := _foreign(wanted, found)):
                return self._taken(wanted, why)
        return None

    def _bring(self, wanted: IcebergTable, state: State, keep: int, *, tidy: bool) -> None:
        known = self._known.pop(wanted.full_name, None)  # until all is done: after a failure it is read anew
        if known is None or tidy or self._old(known) or self._lacking(wanted, known):
            # Also what is known is compared with what the metastore says: another one may have changed it.
            known = self._load(wanted, known) or self._create(wanted)
            if known.commit <= state.number:
                known = self._change(wanted, known, state, keep, tidy=tidy)
        self._known[wanted.full_name] = known

    def _old(self, known: KnownIcebergTable) -> bool:
        return known.read + self._compare_seconds < time.monotonic()

    def _lacking(self, wanted: IcebergTable, known: KnownIcebergTable) -> bool:
        return bool(
            iceberg_table.change(wanted, known.paths)
            or iceberg_table.lacking(wanted.hive, _columns(known.table.schema()))
        )

    def _load(self, wanted: IcebergTable, known: KnownIcebergTable | None = None) -> KnownIcebergTable | None:
        """Read a table, but for what is known of it; None if there is none, Failed if it is another one's."""
        found = self._metastore().table(wanted.hive.database, wanted.hive.name)
        if found is None:
            return None
        if why := _foreign(wanted, found):
            raise Failed(self._taken(wanted, why))
        place = found.properties[METADATA]
        if known and known.table.metadata_location == place:
            return replace(known, read=time.monotonic())
        try:
            metadata = FromInputFile.table_metadata(self._io.new_input(place))
        except MissingObject:
            raise Failed(
                f"{wanted.full_name}: its metadata {place} is gone. Drop the table; it is made anew."
            ) from None
        table = self._table(wanted, place, metadata)
        if why := iceberg_table.unfit(wanted, _columns(table.schema()), _partitions(table)):
            raise Failed(self._taken(wanted, why))
        snapshot = table.current_snapshot()
        if snapshot and not _commit(snapshot):
            raise Failed(
                f"{wanted.full_name}: its snapshot {snapshot.snapshot_id} is another writer's, and what it "
                "changed is not in the log. Roll back to one before, or drop the table, which is made anew."
            )
        return KnownIcebergTable(table, frozenset(self._paths(wanted, table, snapshot)), time.monotonic())

    def _paths(self, wanted: IcebergTable, table: Table, snapshot: Snapshot | None) -> Iterator[str]:
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            for entry in manifest.fetch_manifest_entry(table.io):
                yield wanted.path(entry.data_file.file_path)

    def _create(self, wanted: IcebergTable) -> KnownIcebergTable:
        schema = _schema(wanted.hive.columns)
        fields = []
        if wanted.day:
            source = schema.find_field(wanted.day).field_id
            fields.append(PartitionField(source, FIRST_FIELD, IdentityTransform(), wanted.day))
        metadata = new_table_metadata(
            schema, PartitionSpec(*fields), UNSORTED_SORT_ORDER, wanted.hive.location, wanted.properties
        )
        properties = {**metadata.properties, NAME_MAPPING: _name_mapping(metadata.schema())}
        metadata = metadata.model_copy(update={"properties": properties})
        place = _new_place(metadata, 0)
        ToOutputFile.table_metadata(metadata, self._io.new_output(place))
        self._metastore().create(replace(wanted.hive, properties={**wanted.hive.properties, METADATA: place}))
        if (made := self._load(wanted)) is None:  # or another one's, who was first
            raise Failed(f"{self._metastore()} has no table {wanted.full_name} any more.")
        return made

    def _change(
        self, wanted: IcebergTable, known: KnownIcebergTable, state: State, keep: int, *, tidy: bool
    ) -> KnownIcebergTable:
        """Commit what a table lacks, as one change."""
        change = iceberg_table.change(wanted, known.paths)
        had = {each.name: each for each in _columns(known.table.schema())}
        columns = iceberg_table.lacking(wanted.hive, had.values())
        transaction = _Transaction(known.table)
        if columns:
            with UpdateSchema(transaction) as update:
                for each in columns:
                    if each.name in had:
                        update.update_column(each.name, doc=each.comment)
                    else:
                        update.add_column(each.name, _type(each.type, numbers(FIRST_FIELD)), each.comment)
        mapping = _name_mapping(transaction.table_metadata.schema())
        properties = {
            name: value
            for name, value in {**wanted.properties, NAME_MAPPING: mapping}.items()
            if known.table.properties.get(name) != value
        }
        if properties:
            transaction.set_properties(properties)
        if change:
            try:
                self._stage(transaction, wanted, known, state)
            except BaseException:
                for producer in transaction._snapshot_producers:
                    producer._clean_all_uncommitted()
                raise
        gone = self._expire(transaction, keep if tidy else keep * iceberg_table.EXPIRE_LATER, keep)
        if columns or properties or change or gone:
            before = known.table.metadata
            self._commit(transaction, wanted)
            if gone:
                self._known[wanted.full_name] = replace(known, paths=frozenset(wanted.files))
                self._clear(wanted, before, known.table)
        return replace(known, paths=frozenset(wanted.files))

    def _stage(
        self, transaction: Transaction, wanted: IcebergTable, known: KnownIcebergTable, state: State
    ) -> None:
        """Write the manifests of a snapshot; of two, if files were joined, and others landed."""
        change = iceberg_table.change(wanted, known.paths)
        said = iceberg_table.snapshot_properties(state)
        added, gone = change.added, self._removed(known.table, wanted, change)
        before = known.table.current_snapshot()
        if before and _commit(before) >= state.took_rows:
            joined = change.joined(sum(file.record_count for file in gone))
            if gone and joined:
                added = tuple(file for file in added if file not in joined)
                # Its rows are those of the snapshot before, and so are their positions.
                same = _ReplaceFiles(transaction, self._io, _said(before) if added else said)
                self._produce(same, wanted, joined, gone)
                gone = []
        if gone:
            other = _OverwriteFiles(Operation.OVERWRITE, transaction, self._io, snapshot_properties=said)
            self._produce(other, wanted, added, gone)
        elif added:
            more = _MergeAppendFiles(Operation.APPEND, transaction, self._io, snapshot_properties=said)
            self._produce(more, wanted, added)
        staged = transaction.table_metadata.current_snapshot()
        has = sum(
            (each.added_files_count or 0) + (each.existing_files_count or 0)
            for each in (staged.manifests(self._io) if staged else ())
        )
        if has != len(wanted.files):
            raise Failed(
                f"{wanted.full_name}: a snapshot would have {count(has, 'file')} instead of "
                f"{len(wanted.files):,}, so it was not committed."
            )

    def _produce(
        self,
        producer: "_SnapshotProducer[Any]",
        wanted: IcebergTable,
        added: Iterable[AddedFile],
        gone: Iterable[DataFile] = (),
    ) -> None:
        for file in gone:
            producer.delete_data_file(file)
        for each in added:
            producer.append_data_file(_data_file(wanted, each))
        producer.commit()

    def _removed(self, table: Table, wanted: IcebergTable, change: Change) -> list[DataFile]:
        """Return the files that go, as the table has them."""
        snapshot = table.current_snapshot() if change.removed else None
        return [
            entry.data_file
            for manifest in (snapshot.manifests(self._io) if snapshot else ())
            for entry in manifest.fetch_manifest_entry(self._io)
            if wanted.path(entry.data_file.file_path) in change.removed
        ]

    def _expire(self, transaction: Transaction, at_last: float, keep: float) -> bool:
        """Expire what ended so long ago, if one of it ended `at_last` ago; return whether any did."""
        metadata = transaction.table_metadata
        held = {each.snapshot_id for each in metadata.refs.values()}
        now = time.time()
        ordered = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
        told = [(each.timestamp_ms / 1000, _number(each, CLOCK) / 1000) for each in ordered]
        ids = (each.snapshot_id for each in ordered)
        begins = list(zip(ids, iceberg_table.began(told, now), strict=True))
        if not [each for each in iceberg_table.expirable(begins, now, at_last) if each not in held]:
            return False
        gone = [each for each in iceberg_table.expirable(begins, now, keep) if each not in held]
        transaction._stage(
            (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),)
        )  # PyIceberg's own copies all for each
        return True

    def _commit(self, transaction: Transaction, wanted: IcebergTable) -> None:
        try:
            transaction.commit_transaction()
        except ValidationException as error:  # by which PyIceberg knows that it may remove what it staged
            if isinstance(error.__cause__, Failed):
                raise error.__cause__ from None
            raise

    def _clear(self, wanted: IcebergTable, before: TableMetadata, table: Table) -> None:
        """Remove manifests that only expired snapshots had; who is killed here leaves some."""
        try:
            self._remove(before, table)
        except Exception as error:
            raise Uncleared(
                f"{wanted.full_name} is as its log is, but manifests of snapshots that expired stay in "
                f"{wanted.properties['write.metadata.path']}: {str(error).rstrip('.')}."
            ) from error

    def _remove(self, before: TableMetadata, table: Table) -> None:
        kept = {each.snapshot_id: each for each in table.snapshots()}
        gone = {each.snapshot_id for each in before.snapshots} - kept.keys()
        every = kept | {each.snapshot_id: each for each in before.snapshots}
        parents = {number: each.parent_snapshot_id for number, each in every.items()}
        held = {each.snapshot_id for each in table.metadata.refs.values()}
        beside = iceberg_table.beside(parents, gone, held)
        named = {each.manifest_path for number in beside for each in every[number].manifests(table.io)}
        for number in gone:
            for manifest in every[number].manifests(table.io):
                if manifest.manifest_path not in named:
                    named.add(manifest.manifest_path)
                    table.io.delete(manifest.manifest_path)
            table.io.delete(every[number].manifest_list)

    @property
    def _io(self) -> FileIO:
        return _StoreIO(self._objects, self._at)

    def _table(self, wanted: IcebergTable, place: str, metadata: TableMetadata) -> Table:
        pointer = _Pointer(self._metastore, wanted.hive)
        return Table((wanted.hive.database, wanted.hive.name), metadata, place, self._io, pointer)

    def _taken(self, wanted: IcebergTable, why: str) -> str:
        return hive_table.taken(str(self._metastore()), wanted.full_name, why)


class _Transaction(Transaction):
    """A transaction that says what its updates come to without a copy of all metadata each time."""

    _come_to: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if self._come_to is None or self._come_to[0] is not self._updates:
            self._come_to = self._updates, super().table_metadata
        return self._come_to[1]


class _ReplaceFiles(_OverwriteFiles):
    """Replaces files by others with the same rows, which PyIceberg can't say: who follows rows reads on."""

    def __init__(self, transaction: Transaction, io: FileIO, said: dict[str, str]) -> None:
        super().__init__(Operation.REPLACE, transaction, io, snapshot_properties=said)

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        self._operation = Operation.OVERWRITE
        said = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **said.additional_properties)


class _Pointer(NoopCatalog):
    """Hive's catalogue, as far as a transaction of PyIceberg asks it."""

    def __init__(self, metastore: Callable[[], Metastore], hive: HiveTable) -> None:
        super().__init__("hive")
        self._metastore = metastore
        self._hive = hive

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Give the table new metadata, if it is what it was; nothing is tried again on top of another's."""
        read = table.metadata_location
        for requirement in requirements:
            requirement.validate(table.metadata)
        least = table.metadata.last_updated_ms
        updates = tuple(_not_before(each, least) for each in updates)
        metadata = update_table_metadata(table.metadata, updates, metadata_location=read)
        metadata = metadata.model_copy(update={"last_updated_ms": max(least, metadata.last_updated_ms)})
        place = _new_place(metadata, _version(read) + 1)
        try:
            ToOutputFile.table_metadata(metadata, table.io.new_output(place))
            # In the order of the schema, where new ones come last: Hive takes no columns that change places.
            hive = replace(self._hive, columns=tuple(_columns(metadata.schema())))
            self._metastore().point(hive, place, read=read)
        except Unanswered:
            raise
        except Failed as error:  # with nothing changed, so what was written for it goes
            with suppress(Failed):
                table.io.delete(place)
            raise ValidationException(str(error)) from error
        return CommitTableResponse(metadata=metadata, **{"metadata-location": place})


def _not_before(update: TableUpdate, least: int) -> TableUpdate:
    """Return an update whose snapshot is no older than the table, which Java refuses; clocks are set back."""
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms >= least:
        return update
    made = update.snapshot
    of = made.summary or Summary(Operation.OVERWRITE)
    told = Summary(of.operation, **{**of.additional_properties, CLOCK: str(made.timestamp_ms)})
    return AddSnapshotUpdate(snapshot=made.model_copy(update={"timestamp_ms": least, "summary": told}))


def _new_place(metadata: TableMetadata, version: int) -> str:
    provider = load_location_provider(metadata.location, metadata.properties)
    return provider.new_table_metadata_file_location(version)


def _version(place: str) -> int:
    number = place.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0


iceberg_codecs.use_limits()


class _StoreIO(FileIO):
    """Files below a location of tables, by our own store: durable, and the same for each kind of store."""

    def __init__(self, objects: EditableObjects, at: str) -> None:
        super().__init__()
        self._objects = objects
        self._at = at

    def new_input(self, location: str) -> "_StoredFile":
        return _StoredFile(location, self._objects, self._path(location))

    def new_output(self, location: str) -> "_StoredFile":
        return self.new_input(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = location if isinstance(location, str) else location.location
        self._objects.remove(self._path(place))

    def _path(self, place: str) -> str:
        if not place.startswith(f"{self._at}/"):
            raise Failed(f"{place} is not below {self._at}, where the tables are")
        return place.removeprefix(f"{self._at}/")


class _StoredFile(InputFile, OutputFile):
    def __init__(self, location: str, objects: EditableObjects, path: str) -> None:
        super().__init__(location)
        self._objects = objects
        self._path = path
        self.written: int | None = None  # bytes

    def __len__(self) -> int:
        size = self._objects.head(self._path) if self.written is None else self.written
        return size or 0

    def exists(self) -> bool:
        return self._objects.head(self._path) is not None

    def open(self, seekable: bool = True) -> io.BytesIO:
        return io.BytesIO(self._objects.read(self._path))

    def to_input_file(self) -> "_StoredFile":
        return self

    def create(self, overwrite: bool = False) -> "_Writing":
        return _Writing(self)

    def write(self, data: bytes) -> None:
        self._objects.create(self._path, data)
        self.written = len(data)


class _Writing(io.BytesIO):
    """A file in memory, which is written whole when it is closed."""

    def __init__(self, file: _StoredFile) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._file.write(data)


@contextmanager
def _sentences(wanted: IcebergTable) -> Iterator[None]:
    """Say of what table PyIceberg tells: its errors are of many kinds, and some of others."""
    try:
        yield
    except AqueductError:
        raise
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise Failed(
            f"The Iceberg table {wanted.full_name} can't be read or changed: {said[0].rstrip('.')}. "
            "Its files and its log are whole; if it stays so, drop the table: it is made anew."
        ) from error


def _foreign(wanted: IcebergTable, found: hive_table.FoundTable) -> str | None:
    if why := hive_table.elsewhere(wanted.hive, found):
        return why
    if not hive_table.is_iceberg(found) or METADATA not in found.properties:
        return "it is not an Iceberg table"
    return None


def _commit(snapshot: Snapshot) -> int:
    """Return the newest commit of the log in a snapshot; 0 if it is another writer's."""
    return int(_number(snapshot, COMMIT, 0))


def _number(snapshot: Snapshot, name: str, otherwise: float = math.inf) -> float:
    """Return what a snapshot says of itself."""
    found = snapshot.summary.additional_properties.get(name, "") if snapshot.summary else ""
    return int(found) if found.isdecimal() else otherwise


def _said(snapshot: Snapshot) -> dict[str, str]:
    """Return what a snapshot of ours says of the log."""
    every = snapshot.summary.additional_properties if snapshot.summary else {}
    return {name: value for name, value in every.items() if name in (COMMIT, POSITIONS)}


def _data_file(wanted: IcebergTable, file: AddedFile) -> DataFile:
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=wanted.place(file.path),
        file_format=FileFormat.ORC,
        partition=Record(iceberg_table.day(file.path)) if wanted.day else Record(),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
    )
    made.spec_id = 0
    return made


def _schema(columns: tuple[HiveColumn, ...]) -> Schema:
    ids = numbers(len(columns) + 1)
    return Schema(
        *(
            NestedField(number, each.name, _type(each.type, ids), required=False, doc=each.comment or None)
            for number, each in enumerate(columns, 1)
        )
    )


def _type(hive: str, ids: Iterator[int]) -> IcebergType:
    """Return Iceberg's type by Hive's name of it."""
    if hive.startswith("array<"):
        return ListType(element_id=next(ids), element=_type(hive[6:-1], ids), element_required=False)
    if hive.startswith("decimal("):
        precision, scale = hive[8:-1].split(",")
        return DecimalType(int(precision), int(scale))
    return SCALARS[hive]


def _name_mapping(schema: Schema) -> str:
    return create_mapping_from_schema(schema).model_dump_json()


def _partitions(table: Table) -> list[tuple[str, str]]:
    """Return by which columns the table is partitioned, and how."""
    names = table.schema().find_column_name
    return [(names(each.source_id) or "", str(each.transform)) for each in table.spec().fields]


def _columns(schema: Schema) -> Collection[HiveColumn]:
    return [HiveColumn(each.name, _hive(each.field_type), each.doc or "") for each in schema.fields]


def _hive(type_: IcebergType) -> str:
    """Return Hive's name of a type; Iceberg's own of one that lands nowhere."""
    if isinstance(type_, ListType):
        return f"array<{_hive(type_.element_type)}>"
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    return next((name for name, each in SCALARS.items() if each == type_), str(type_))
