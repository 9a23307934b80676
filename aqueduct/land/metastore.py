"""A client of Hive's metastore: its Thrift service, as Hive 3.1 and 4 have it."""

import getpass
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pymetastore.hive_metastore import ThriftHiveMetastore
from pymetastore.hive_metastore import ttypes as hive
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from aqueduct.errors import Failed
from aqueduct.land import hive_table
from aqueduct.land.hive_table import EXTERNAL, FoundTable, HiveColumn, HiveTable, Reading

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
CHANGE_SECONDS = 300.0  # of many partitions, whose folders the metastore looks at
CASCADE_SECONDS = 900.0  # new columns for each of thousands of partitions, in one transaction
TRIES = 2  # of each address: a connection that was kept may have ended
ANSWER_BYTES = 64 << 20  # at most; what isn't a metastore may announce any number
PARTITIONS = 500  # in one call
ALL = -1  # partitions
METADATA, BEFORE = "metadata_location", "previous_metadata_location"  # properties of an Iceberg table
AGENT = "aqueduct land"  # who locks
LOCK_SECONDS = 20.0  # of waiting for another program's lock
LOCK_PAUSE = 0.2
DEAD_SECONDS = 60  # after which a lock of ours, which is kept for a moment, is a dead run's
OUR_LOCK_SECONDS = DEAD_SECONDS + LOCK_SECONDS  # of waiting for a lock of ours: a dead run's ends meanwhile
# The metastore would count files and bytes now, and readers plan their joins by them for ever. Of a table it
# leaves that if it is told so; of a partition, if all are there: -1 is unknown. Hive 4 has the third, too.
NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
UNKNOWN = dict.fromkeys(("numFiles", "totalSize", "numFilesErasureCoded"), "-1")
# Errors of sockets are told here, in sentences.
logging.getLogger("thrift").addHandler(logging.NullHandler())
logging.getLogger("thrift").propagate = False

T = TypeVar("T")


class Away(Failed):
    """The failure of a metastore that does not answer."""

    id = "metastore-unreachable"


class Unanswered(Away):
    """The failure of a metastore that does not tell whether it changed a table, and may change it yet."""


class Moved(Failed):
    """The end of a change to an Iceberg table that another one changed since it was read."""

    id = "catalogue-table-changed"


class _Absent(Failed):
    """The answer that something is not there."""

    id = "metastore-request-refused"


class _Existing(Failed):
    """The answer that something is there already."""

    id = "metastore-request-refused"


@dataclass(frozen=True)
class _Connection:
    socket: TSocket
    transport: TBufferedTransport
    client: Any


class Metastore:
    """A metastore, at one or more addresses."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Connect to nothing yet."""
        self._name = ",".join(f"thrift://{host}:{port}" for host, port in addresses)
        self._addresses = list(addresses)  # the one that answered first
        self._connection: _Connection | None = None

    def __str__(self) -> str:
        return f"The metastore {self._name}"

    def table(self, database: str, name: str) -> FoundTable | None:
        """Return a table; None if there is none of that name."""
        if (thrift_table := self._table(database, name)) is None:
            return None
        storage = thrift_table.sd
        return FoundTable(
            kind=thrift_table.tableType or "",
            location=storage.location or "",
            input=storage.inputFormat or "",
            columns=_columns(storage.cols or ()),
            partitions=_columns(thrift_table.partitionKeys or ()),
            properties=dict(thrift_table.parameters or {}),
        )

    def partitions(self, table: HiveTable) -> frozenset[str]:
        """Return the names of all partitions of a table."""
        return frozenset(
            self._ask(lambda client: client.get_partition_names(table.database, table.name, ALL))
        )

    def create(self, table: HiveTable) -> None:
        """Create a table, and its database; one that is there by now is left as it is."""
        # Without a location of its own, for with the database Hive deletes all that is in there.
        database = hive.Database(name=table.database, description="Tables that aqueduct lands")
        made = hive.Table(
            dbName=table.database,
            tableName=table.name,
            owner=_user(),
            createTime=int(time.time()),
            tableType=EXTERNAL,
            sd=_storage(table.location, table.columns, table.reading),
            partitionKeys=_fields([table.partition] if table.partition else []),
            parameters={**table.properties, "EXTERNAL": "TRUE", **NO_STATISTICS},
        )
        try:
            self._ask(lambda client: client.get_database(table.database))
        except _Absent:
            with suppress(_Existing):
                self._ask(lambda client: client.create_database(database))
        with suppress(_Existing):
            self._ask(lambda client: client.create_table(made))

    def change(self, table: HiveTable, columns: Iterable[HiveColumn], *, cascade: bool) -> None:
        """Give a table these columns, and our properties; with `cascade` each of its partitions, too."""
        if (changed := self._table(table.database, table.name)) is None:
            raise Failed("catalogue-table-missing", f"{self} no longer has the table {table.full_name}.")
        changed.sd.cols = _fields(columns)
        changed.parameters = {**(changed.parameters or {}), **table.properties}
        how = hive.EnvironmentContext(NO_STATISTICS | ({"CASCADE": "true"} if cascade else {}))
        self._ask(
            lambda client: client.alter_table_with_environment_context(
                table.database, table.name, changed, how
            ),
            CASCADE_SECONDS if cascade else None,
        )

    def point(self, table: HiveTable, metadata: str, *, read: str) -> None:
        """Let an Iceberg table have that file of metadata; Moved if it has another one by now than was read.

        Under Hive's lock, as Iceberg's own writers do it; Hive 4 compares by itself, too. Unanswered if
        nobody tells whether it has it; after any other failure it has not.
        """
        with self._locked(table) as lock:
            changed = self._table(table.database, table.name)
            if changed is None or (changed.parameters or {}).get(METADATA) != read:
                raise Moved(f"Another run changed the table {table.full_name} in {self} first.")
            changed.sd.cols = _fields(table.columns)
            changed.parameters = {**changed.parameters, **table.properties, METADATA: metadata, BEFORE: read}
            how = {**NO_STATISTICS, "expected_parameter_key": METADATA, "expected_parameter_value": read}
            try:  # whoever was away for too long has lost it
                self._ask(lambda client: client.heartbeat(hive.HeartbeatRequest(lockid=lock)))
            except _Absent:
                raise Moved(f"This run lost the lock of {table.full_name} in {self}.") from None
            try:  # not twice: by then Hive 4 finds the table changed, by us
                self._ask(
                    lambda client: client.alter_table_with_environment_context(
                        table.database, table.name, changed, hive.EnvironmentContext(how)
                    ),
                    once=True,
                )
            except Failed as error:
                self._see(table, metadata, error)

    def _see(self, table: HiveTable, metadata: str, error: Failed) -> None:
        """See whether a change that failed was made for all that."""
        try:
            thrift_table = self._table(table.database, table.name)
        except Failed as silent:
            raise Unanswered(str(silent)) from None
        if thrift_table and (thrift_table.parameters or {}).get(METADATA) == metadata:
            return
        raise Unanswered(str(error)) if isinstance(error, Away) else error

    @contextmanager
    def _locked(self, table: HiveTable) -> Iterator[int]:
        """Hold a table's lock; Failed if another one keeps it.

        It stays after a change that may come yet, on Hive 3 on top of anything: as a dead run's it keeps
        others off for DEAD_SECONDS.
        """
        component = hive.LockComponent(
            type=hive.LockType.EXCLUSIVE,
            level=hive.LockLevel.TABLE,
            dbname=table.database,
            tablename=table.name,
            isTransactional=True,
        )
        asked = hive.LockRequest([component], user=_user(), hostname=os.uname().nodename, agentInfo=AGENT)
        # Not twice: a lock whose answer was lost would be waited for.
        answer = self._ask(lambda client: client.lock(asked), once=True)
        lock = answer.lockid
        began = time.monotonic()
        try:
            while answer.state == hive.LockState.WAITING:
                holder, is_foreign = self._holder(table, lock)
                if time.monotonic() - began > (LOCK_SECONDS if is_foreign else OUR_LOCK_SECONDS):
                    raise Failed(
                        "catalogue-table-locked",
                        f"{self} has locked the table {table.full_name} for {holder or 'another program'}.",
                    )
                time.sleep(LOCK_PAUSE)
                answer = self._ask(lambda client: client.check_lock(hive.CheckLockRequest(lockid=lock)))
            if answer.state != hive.LockState.ACQUIRED:
                raise Failed("catalogue-table-locked", f"{self} did not grant a lock of {table.full_name}.")
            yield lock
        except Unanswered:
            raise
        except BaseException:
            self._give_back(lock)
            raise
        self._give_back(lock)

    def _give_back(self, lock: int) -> None:
        with suppress(Failed):
            self._unlock(lock)

    def _holder(self, table: HiveTable, mine: int) -> tuple[str, bool]:
        """Return the holder of a table's lock ("": unknown), and whether it is another program.

        Remove the locks of our runs that died: without Hive's compactor, a metastore ends no lock.
        """
        asked = hive.ShowLocksRequest(dbname=table.database, tablename=table.name)
        locks = self._ask(lambda client: client.show_locks(asked)).locks or []
        now = max((_seen(lock) for lock in locks if lock.lockid == mine), default=0)  # by its clock
        for lock in locks:
            if lock.lockid == mine:
                continue
            # One that only waits holds others up, too; ours asks, and so is seen, while it waits.
            if lock.agentInfo == AGENT and now - _seen(lock) > DEAD_SECONDS * 1000:
                self._unlock(lock.lockid)
            elif lock.state == hive.LockState.ACQUIRED:
                return f"{lock.user}@{lock.hostname}", lock.agentInfo != AGENT
        return "", False

    def _unlock(self, lock: int) -> None:
        with suppress(_Absent):
            self._ask(lambda client: client.unlock(hive.UnlockRequest(lockid=lock)))

    def add(self, table: HiveTable, partitions: Sequence[str], columns: Sequence[HiveColumn]) -> None:
        """Add partitions, PARTITIONS at most; those that are there already are left as they are."""
        now = int(time.time())
        parts = [
            hive.Partition(
                values=[hive_table.value(name)],
                dbName=table.database,
                tableName=table.name,
                createTime=now,
                sd=_storage(f"{table.location}/{name}", columns, table.reading),
                parameters=dict(UNKNOWN),
            )
            for name in partitions
        ]
        asked = hive.AddPartitionsRequest(
            dbName=table.database, tblName=table.name, parts=parts, ifNotExists=True, needResult=False
        )
        self._ask(lambda client: client.add_partitions_req(asked), CHANGE_SECONDS)

    def drop(self, table: HiveTable, partitions: Sequence[str]) -> None:
        """Drop partitions, PARTITIONS at most, and no file; those that are not there are none."""
        asked = hive.DropPartitionsRequest(
            dbName=table.database,
            tblName=table.name,
            parts=hive.RequestPartsSpec(names=list(partitions)),
            deleteData=False,
            ifExists=True,
            needResult=False,
        )
        self._ask(lambda client: client.drop_partitions_req(asked), CHANGE_SECONDS)

    def _table(self, database: str, name: str) -> Any:
        """Return a table as Hive has it, or None. Hive 4 has no get_table any more; 3.1 has this, too."""
        asked = hive.GetTableRequest(
            dbName=database,
            tblName=name,
            # Else a table of transactions is an error.
            capabilities=hive.ClientCapabilities([hive.ClientCapability.INSERT_ONLY_TABLES]),
        )
        try:
            return self._ask(lambda client: client.get_table_req(asked)).table
        except _Absent:
            return None

    def _ask(self, call: Callable[[Any], T], seconds: float | None = None, *, once: bool = False) -> T:
        """Ask who answers; Away if nobody does, Failed if the answer is no.

        `once`: what may have been asked is not asked again, of another address neither.
        """
        reason, asked = "", False
        for _ in range(TRIES * len(self._addresses)):
            try:
                client = self._client(seconds or ANSWER_SECONDS)
                asked = True
                return call(client)
            except (TTransportException, TProtocolException, OSError, EOFError, UnicodeError) as error:
                host, port = self._addresses[0]
                reason = f"{host}:{port}: {_said(error)}"
                self._close()
                self._addresses.append(self._addresses.pop(0))
                if once and asked:
                    break
            except (hive.NoSuchObjectException, hive.NoSuchLockException) as error:
                raise _Absent(f"{self} rejected the request: {_said(error)}.") from None
            except hive.AlreadyExistsException as error:
                raise _Existing(f"{self} rejected the request: {_said(error)}.") from None
            except TApplicationException as error:
                self._close()
                raise Failed(
                    "metastore-unsupported", f"{self} is not a metastore of Hive 3.1 or 4: {_said(error)}."
                ) from None
            except TException as error:
                raise Failed(
                    "metastore-request-refused", f"{self} rejected the request: {_said(error)}."
                ) from None
        raise Away(
            f"{self} does not answer ({reason}). Check that the metastore runs, and that it accepts Thrift "
            "connections without Kerberos (SASL) and without TLS."
        )

    def _client(self, seconds: float) -> Any:
        if self._connection is None:
            socket = TSocket(*self._addresses[0])
            socket.setTimeout(CONNECT_SECONDS * 1000)
            transport = TBufferedTransport(socket)
            transport.open()
            limits = {"string_length_limit": ANSWER_BYTES, "container_length_limit": ANSWER_BYTES}
            protocol = TBinaryProtocolAccelerated(transport, **limits)
            self._connection = _Connection(socket, transport, ThriftHiveMetastore.Client(protocol))
        self._connection.socket.setTimeout(seconds * 1000)
        return self._connection.client

    def _close(self) -> None:
        if self._connection:
            self._connection.transport.close()
        self._connection = None


def _seen(lock: Any) -> int:
    """Return when its holder was heard of last, in milliseconds by the database's clock."""
    return max(lock.lastheartbeat or 0, lock.acquiredat or 0)


def _user() -> str:
    """Return who writes, by the name that Hadoop's clients take, too."""
    with suppress(KeyError, OSError):
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return str(os.getuid())


def _storage(location: str, columns: Iterable[HiveColumn], reading: Reading) -> Any:
    return hive.StorageDescriptor(
        cols=_fields(columns),
        location=location,
        inputFormat=reading.input,
        outputFormat=reading.output,
        compressed=False,
        numBuckets=-1,
        serdeInfo=hive.SerDeInfo(serializationLib=reading.serde, parameters={"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        skewedInfo=hive.SkewedInfo([], [], {}),
        storedAsSubDirectories=False,
    )


def _fields(columns: Iterable[HiveColumn]) -> list[Any]:
    return [hive.FieldSchema(column.name, column.type, column.comment) for column in columns]


def _columns(fields: Iterable[Any]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(field.name, field.type, field.comment or "") for field in fields)


def _said(error: Exception) -> str:
    if isinstance(error, TTransportException):
        if error.type == TTransportException.END_OF_FILE:
            return "the metastore closed the connection"
        error = error.inner or error
    text = str(getattr(error, "strerror", None) or getattr(error, "message", None) or error)
    return (text.strip() or type(error).__name__).splitlines()[0].rstrip(".")
