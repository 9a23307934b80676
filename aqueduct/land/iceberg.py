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

from aqueduct.common.wording import count, some
from aqueduct.errors import AqueductError, Failed
from aqueduct.land import hive_table, iceberg_codecs, iceberg_table
from aqueduct.land.declaration import LandTable
from aqueduct.land.hive_table import HiveColumn, HiveTable
from aqueduct.land.iceberg_table import CLOCK, COMMIT, POSITIONS, Change, IcebergTable
from aqueduct.land.log import BAD, LATE, AddedFile, State, ending
from aqueduct.land.metastore import METADATA, Metastore, Moved, Unanswered
from aqueduct.store.backends import open_editable
from aqueduct.store.objects import EditableObjects, MissingObject

ATTEMPTS = 3  # beside others who bring the table up
MOST_BYTES = 256 << 20  # of a file of metadata: of half a million data files
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
        return min(
            (_commit(snapshot) for snapshot in self.table.snapshots() if snapshot != newest),
            default=state.number,
        )


class Uncleared(Failed):
    """The failure to remove what nobody needs any more of a table that is as it is to be."""

    id = "iceberg-manifests-left"


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
        for target in iceberg_table.tables(self._at, table, state):
            with _sentences(target):
                for attempt in range(1, ATTEMPTS + 1):
                    try:
                        self._bring(target, state, table.snapshots, tidy=tidy)
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
        for target in iceberg_table.tables(self._at, table, state):
            with _sentences(target):
                loaded = self._known.get(target.full_name)
                if loaded is None or self._old(loaded):
                    loaded = self._load(target, loaded)
            if loaded:
                self._known.setdefault(
                    target.full_name, replace(loaded, read=-math.inf)
                )  # not brought up yet
                newest = max(newest, loaded.commit)
        return newest

    def named(self, table: LandTable, state: State) -> Callable[[int, str], bool]:
        """Return which files snapshots name, by the number of the commit that removed each, and its path.

        As of the last follow().
        """
        least = [
            self._known[target.full_name].least_commit(state)
            for target in iceberg_table.tables(self._at, table, state)
        ]

        def is_named(number: int, path: str) -> bool:
            of = {BAD: 1, LATE: 2}.get(ending(path), 0)
            return of >= len(least) or least[of] < number

        return is_named

    def lacks(self, table: LandTable, state: State) -> str:
        """Return what the catalogue lacks of a table, and nothing if it has all; change nothing."""
        for target in iceberg_table.tables(self._at, table, state):
            with _sentences(target):
                loaded = self._load(target)
            if loaded is None:
                return f"the table {target.full_name} does not exist" if state.number else ""
            if columns := iceberg_table.lacking(target.hive, _columns(loaded.table.schema())):
                return (
                    f"the table {target.full_name} lacks the columns "
                    f"{some(column.name for column in columns)}"
                )
            if loaded.table.properties.get(NAME_MAPPING) != _name_mapping(loaded.table.schema()):
                return (
                    f"the table {target.full_name} lacks the property {NAME_MAPPING}, which readers need "
                    "to find columns"
                )
            change = iceberg_table.change(target, loaded.paths)
            if change.added:
                return f"the table {target.full_name} lacks {count(len(change.added), 'file')}"
            if change.removed:
                return (
                    f"the table {target.full_name} has {count(len(change.removed), 'file')} more than the log"
                )
        return ""

    def check(self, table: LandTable, state: State) -> str | None:
        """Return why the catalogue has another table of one of the names; None if it has none."""
        for target in iceberg_table.tables(self._at, table, state):
            in_metastore = self._metastore().table(target.hive.database, target.hive.name)
            if in_metastore and (reason := _foreign(target, in_metastore)):
                return self._taken(target, reason)
        return None

    def _bring(self, target: IcebergTable, state: State, keep: int, *, tidy: bool) -> None:
        loaded = self._known.pop(target.full_name, None)  # until all is done: after a failure it is read anew
        if loaded is None or tidy or self._old(loaded) or self._lacking(target, loaded):
            # Also what is known is compared with what the metastore says: another one may have changed it.
            loaded = self._load(target, loaded) or self._create(target)
            if loaded.commit <= state.number:
                loaded = self._change(target, loaded, state, keep, tidy=tidy)
        self._known[target.full_name] = loaded

    def _old(self, loaded: KnownIcebergTable) -> bool:
        return loaded.read + self._compare_seconds < time.monotonic()

    def _lacking(self, target: IcebergTable, loaded: KnownIcebergTable) -> bool:
        return bool(
            iceberg_table.change(target, loaded.paths)
            or iceberg_table.lacking(target.hive, _columns(loaded.table.schema()))
        )

    def _load(
        self, target: IcebergTable, loaded: KnownIcebergTable | None = None
    ) -> KnownIcebergTable | None:
        """Read a table, but for what is known of it; None if there is none, Failed if it is another one's."""
        in_metastore = self._metastore().table(target.hive.database, target.hive.name)
        if in_metastore is None:
            return None
        if reason := _foreign(target, in_metastore):
            raise Failed("catalogue-table-exists", self._taken(target, reason))
        location = in_metastore.properties[METADATA]
        if loaded and loaded.table.metadata_location == location:
            return replace(loaded, read=time.monotonic())
        try:
            metadata = FromInputFile.table_metadata(self._io.new_input(location))
        except MissingObject:
            raise Failed(
                "iceberg-table-unreadable",
                f"The metadata file {location} of the Iceberg table {target.full_name} does not exist. "
                "Restore this file from a copy. If no copy exists, rename the table in the metastore, which "
                "keeps the renamed table, and run the command again. The landing re-creates the table from "
                "its log.",
            ) from None
        table = self._table(target, location, metadata)
        if reason := iceberg_table.unfit(target, _columns(table.schema()), _partitions(table)):
            raise Failed("catalogue-table-exists", self._taken(target, reason))
        snapshot = table.current_snapshot()
        if snapshot and not _commit(snapshot):
            raise Failed(
                "iceberg-writer-unknown",
                f"Another program wrote snapshot {snapshot.snapshot_id} of the Iceberg table "
                f"{target.full_name}, so its changes are not in the log. Read the changes in this snapshot, "
                "and copy the rows that you need. Then roll the table back to the last snapshot of the "
                "landing.",
            )
        return KnownIcebergTable(table, frozenset(self._paths(target, table, snapshot)), time.monotonic())

    def _paths(self, target: IcebergTable, table: Table, snapshot: Snapshot | None) -> Iterator[str]:
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            for entry in manifest.fetch_manifest_entry(table.io):
                yield target.path(entry.data_file.file_path)

    def _create(self, target: IcebergTable) -> KnownIcebergTable:
        schema = _schema(target.hive.columns)
        fields = []
        if target.day:
            source = schema.find_field(target.day).field_id
            fields.append(PartitionField(source, FIRST_FIELD, IdentityTransform(), target.day))
        metadata = new_table_metadata(
            schema, PartitionSpec(*fields), UNSORTED_SORT_ORDER, target.hive.location, target.properties
        )
        properties = {**metadata.properties, NAME_MAPPING: _name_mapping(metadata.schema())}
        metadata = metadata.model_copy(update={"properties": properties})
        location = _new_place(metadata, 0)
        ToOutputFile.table_metadata(metadata, self._io.new_output(location))
        self._metastore().create(
            replace(target.hive, properties={**target.hive.properties, METADATA: location})
        )
        if (made := self._load(target)) is None:  # or another one's, who was first
            raise Failed(
                "catalogue-table-missing", f"{self._metastore()} no longer has the table {target.full_name}."
            )
        return made

    def _change(
        self, target: IcebergTable, loaded: KnownIcebergTable, state: State, keep: int, *, tidy: bool
    ) -> KnownIcebergTable:
        """Commit what a table lacks, as one change."""
        change = iceberg_table.change(target, loaded.paths)
        had = {column.name: column for column in _columns(loaded.table.schema())}
        columns = iceberg_table.lacking(target.hive, had.values())
        transaction = _Transaction(loaded.table)
        if columns:
            with UpdateSchema(transaction) as update:
                for column in columns:
                    if column.name in had:
                        update.update_column(column.name, doc=column.comment)
                    else:
                        update.add_column(
                            column.name, _type(column.type, numbers(FIRST_FIELD)), column.comment
                        )
        mapping = _name_mapping(transaction.table_metadata.schema())
        properties = {
            name: value
            for name, value in {**target.properties, NAME_MAPPING: mapping}.items()
            if loaded.table.properties.get(name) != value
        }
        if properties:
            transaction.set_properties(properties)
        if change:
            try:
                self._stage(transaction, target, loaded, state)
            except BaseException:
                for producer in transaction._snapshot_producers:
                    producer._clean_all_uncommitted()
                raise
        gone = self._expire(transaction, keep if tidy else keep * iceberg_table.EXPIRE_LATER, keep)
        if columns or properties or change or gone:
            before = loaded.table.metadata
            self._commit(transaction, target)
            if gone:
                self._known[target.full_name] = replace(loaded, paths=frozenset(target.files))
                self._clear(target, before, loaded.table)
        return replace(loaded, paths=frozenset(target.files))

    def _stage(
        self, transaction: Transaction, target: IcebergTable, loaded: KnownIcebergTable, state: State
    ) -> None:
        """Write the manifests of a snapshot; of two, if files were joined, and others landed."""
        change = iceberg_table.change(target, loaded.paths)
        properties = iceberg_table.snapshot_properties(state)
        added, gone = change.added, self._removed(loaded.table, target, change)
        before = loaded.table.current_snapshot()
        if before and _commit(before) >= state.took_rows:
            joined = change.joined(sum(file.record_count for file in gone))
            if gone and joined:
                added = tuple(file for file in added if file not in joined)
                # Its rows are those of the snapshot before, and so are their positions.
                same = _ReplaceFiles(transaction, self._io, _said(before) if added else properties)
                self._produce(same, target, joined, gone)
                gone = []
        if gone:
            other = _OverwriteFiles(
                Operation.OVERWRITE, transaction, self._io, snapshot_properties=properties
            )
            self._produce(other, target, added, gone)
        elif added:
            more = _MergeAppendFiles(Operation.APPEND, transaction, self._io, snapshot_properties=properties)
            self._produce(more, target, added)
        staged = transaction.table_metadata.current_snapshot()
        has = sum(
            (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
            for manifest in (staged.manifests(self._io) if staged else ())
        )
        if has != len(target.files):
            raise Failed(
                "iceberg-snapshot-inconsistent",
                f"{target.full_name}: a new snapshot would have {count(has, 'file')} instead of "
                f"{len(target.files):,}, so the snapshot was not committed.",
            )

    def _produce(
        self,
        producer: "_SnapshotProducer[Any]",
        target: IcebergTable,
        added: Iterable[AddedFile],
        gone: Iterable[DataFile] = (),
    ) -> None:
        for file in gone:
            producer.delete_data_file(file)
        for added_file in added:
            producer.append_data_file(_data_file(target, added_file))
        producer.commit()

    def _removed(self, table: Table, target: IcebergTable, change: Change) -> list[DataFile]:
        """Return the files that go, as the table has them."""
        snapshot = table.current_snapshot() if change.removed else None
        return [
            entry.data_file
            for manifest in (snapshot.manifests(self._io) if snapshot else ())
            for entry in manifest.fetch_manifest_entry(self._io)
            if target.path(entry.data_file.file_path) in change.removed
        ]

    def _expire(self, transaction: Transaction, at_last: float, keep: float) -> bool:
        """Expire what ended so long ago, if one of it ended `at_last` ago; return whether any did."""
        metadata = transaction.table_metadata
        held = {ref.snapshot_id for ref in metadata.refs.values()}
        now = time.time()
        ordered = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
        stamps = [(snapshot.timestamp_ms / 1000, _number(snapshot, CLOCK) / 1000) for snapshot in ordered]
        ids = (snapshot.snapshot_id for snapshot in ordered)
        begins = list(zip(ids, iceberg_table.began(stamps, now), strict=True))
        if not [
            snapshot_id
            for snapshot_id in iceberg_table.expirable(begins, now, at_last)
            if snapshot_id not in held
        ]:
            return False
        gone = [
            snapshot_id
            for snapshot_id in iceberg_table.expirable(begins, now, keep)
            if snapshot_id not in held
        ]
        transaction._stage(
            (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),)
        )  # PyIceberg's own copies all for each
        return True

    def _commit(self, transaction: Transaction, target: IcebergTable) -> None:
        try:
            transaction.commit_transaction()
        except ValidationException as error:  # by which PyIceberg knows that it may remove what it staged
            if isinstance(error.__cause__, Failed):
                raise error.__cause__ from None
            raise

    def _clear(self, target: IcebergTable, before: TableMetadata, table: Table) -> None:
        """Remove manifests that only expired snapshots had; who is killed here leaves some."""
        try:
            self._remove(before, table)
        except Exception as error:
            raise Uncleared(
                f"The table {target.full_name} is complete, but manifest files of expired snapshots could "
                f"not be removed from {target.properties['write.metadata.path']}: {str(error).rstrip('.')}."
            ) from error

    def _remove(self, before: TableMetadata, table: Table) -> None:
        kept = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        gone = {snapshot.snapshot_id for snapshot in before.snapshots} - kept.keys()
        every = kept | {snapshot.snapshot_id: snapshot for snapshot in before.snapshots}
        parents = {number: snapshot.parent_snapshot_id for number, snapshot in every.items()}
        held = {ref.snapshot_id for ref in table.metadata.refs.values()}
        beside = iceberg_table.beside(parents, gone, held)
        named = {
            manifest.manifest_path for number in beside for manifest in every[number].manifests(table.io)
        }
        for number in gone:
            for manifest in every[number].manifests(table.io):
                if manifest.manifest_path not in named:
                    named.add(manifest.manifest_path)
                    table.io.delete(manifest.manifest_path)
            table.io.delete(every[number].manifest_list)

    @property
    def _io(self) -> FileIO:
        return _StoreIO(self._objects, self._at)

    def _table(self, target: IcebergTable, metadata_location: str, metadata: TableMetadata) -> Table:
        pointer = _Pointer(self._metastore, target.hive)
        return Table((target.hive.database, target.hive.name), metadata, metadata_location, self._io, pointer)

    def _taken(self, target: IcebergTable, reason: str) -> str:
        return hive_table.taken(str(self._metastore()), target.full_name, reason)


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

    def __init__(self, transaction: Transaction, io: FileIO, properties: dict[str, str]) -> None:
        super().__init__(Operation.REPLACE, transaction, io, snapshot_properties=properties)

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        self._operation = Operation.OVERWRITE
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


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
        updates = tuple(_not_before(update, least) for update in updates)
        metadata = update_table_metadata(table.metadata, updates, metadata_location=read)
        metadata = metadata.model_copy(update={"last_updated_ms": max(least, metadata.last_updated_ms)})
        location = _new_place(metadata, _version(read) + 1)
        try:
            ToOutputFile.table_metadata(metadata, table.io.new_output(location))
            # In the order of the schema, where new ones come last: Hive takes no columns that change places.
            hive = replace(self._hive, columns=tuple(_columns(metadata.schema())))
            self._metastore().point(hive, location, read=read)
        except Unanswered:
            raise
        except Failed as error:  # with nothing changed, so what was written for it goes
            with suppress(Failed):
                table.io.delete(location)
            raise ValidationException(str(error)) from error
        return CommitTableResponse(metadata=metadata, **{"metadata-location": location})


def _not_before(update: TableUpdate, least: int) -> TableUpdate:
    """Return an update whose snapshot is no older than the table, which Java refuses; clocks are set back."""
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms >= least:
        return update
    made = update.snapshot
    of = made.summary or Summary(Operation.OVERWRITE)
    summary = Summary(of.operation, **{**of.additional_properties, CLOCK: str(made.timestamp_ms)})
    return AddSnapshotUpdate(snapshot=made.model_copy(update={"timestamp_ms": least, "summary": summary}))


def _new_place(metadata: TableMetadata, version: int) -> str:
    provider = load_location_provider(metadata.location, metadata.properties)
    return provider.new_table_metadata_file_location(version)


def _version(location: str) -> int:
    number = location.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0


iceberg_codecs.use_limits()


class _StoreIO(FileIO):
    """Files below a location of tables, by our own store: durable, and the same for each kind of store."""

    def __init__(self, objects: EditableObjects, root: str) -> None:
        super().__init__()
        self._objects = objects
        self._at = root

    def new_input(self, location: str) -> "_StoredFile":
        return _StoredFile(location, self._objects, self._path(location))

    def new_output(self, location: str) -> "_StoredFile":
        return self.new_input(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        uri = location if isinstance(location, str) else location.location
        self._objects.remove(self._path(uri))

    def _path(self, uri: str) -> str:
        if not uri.startswith(f"{self._at}/"):
            raise Failed(
                "iceberg-table-unreadable", f"{uri} is not below {self._at}, the location of the tables"
            )
        return uri.removeprefix(f"{self._at}/")


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
        return io.BytesIO(self._objects.read(self._path, at_most=MOST_BYTES))

    def to_input_file(self) -> "_StoredFile":
        return self

    def create(self, overwrite: bool = False) -> "_Writing":
        return _Writing(self)

    def write(self, content: bytes) -> None:
        self._objects.create(self._path, content)
        self.written = len(content)


class _Writing(io.BytesIO):
    """A file in memory, which is written whole when it is closed."""

    def __init__(self, file: _StoredFile) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._file.write(content)


@contextmanager
def _sentences(target: IcebergTable) -> Iterator[None]:
    """Say of what table PyIceberg tells: its errors are of many kinds, and some of others."""
    try:
        yield
    except AqueductError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise Failed(
            "iceberg-table-unreadable",
            f"The Iceberg table {target.full_name} cannot be read or changed: {lines[0].rstrip('.')}. The "
            "files and the log of the table are complete. Run the command again. If it fails again, look "
            "for the reason in the log of the Hive metastore.",
        ) from error


def _foreign(target: IcebergTable, in_metastore: hive_table.FoundTable) -> str | None:
    if reason := hive_table.elsewhere(target.hive, in_metastore):
        return reason
    if not hive_table.is_iceberg(in_metastore) or METADATA not in in_metastore.properties:
        return "it is not an Iceberg table"
    return None


def _commit(snapshot: Snapshot) -> int:
    """Return the newest commit of the log in a snapshot; 0 if it is another writer's."""
    return int(_number(snapshot, COMMIT, 0))


def _number(snapshot: Snapshot, name: str, otherwise: float = math.inf) -> float:
    """Return what a snapshot says of itself."""
    text = snapshot.summary.additional_properties.get(name, "") if snapshot.summary else ""
    return int(text) if text.isdecimal() else otherwise


def _said(snapshot: Snapshot) -> dict[str, str]:
    """Return what a snapshot of ours says of the log."""
    every = snapshot.summary.additional_properties if snapshot.summary else {}
    return {name: value for name, value in every.items() if name in (COMMIT, POSITIONS)}


def _data_file(target: IcebergTable, file: AddedFile) -> DataFile:
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=target.place(file.path),
        file_format=FileFormat.ORC,
        partition=Record(iceberg_table.day(file.path)) if target.day else Record(),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
    )
    made.spec_id = 0
    return made


def _schema(columns: tuple[HiveColumn, ...]) -> Schema:
    ids = numbers(len(columns) + 1)
    return Schema(
        *(
            NestedField(
                number, column.name, _type(column.type, ids), required=False, doc=column.comment or None
            )
            for number, column in enumerate(columns, 1)
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
    return [(names(field.source_id) or "", str(field.transform)) for field in table.spec().fields]


def _columns(schema: Schema) -> Collection[HiveColumn]:
    return [HiveColumn(field.name, _hive(field.field_type), field.doc or "") for field in schema.fields]


def _hive(type_: IcebergType) -> str:
    """Return Hive's name of a type; Iceberg's own of one that lands nowhere."""
    if isinstance(type_, ListType):
        return f"array<{_hive(type_.element_type)}>"
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    return next((name for name, scalar in SCALARS.items() if scalar == type_), str(type_))
