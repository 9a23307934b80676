"""A client of Hive's metastore: its Thrift service, as Hive 3.1 and 4 have it."""

import getpass
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
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
from aqueduct.land.hive_table import EXTERNAL, FoundTable, HiveColumn, HiveTable

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
CHANGE_SECONDS = 300.0  # of many partitions, whose folders the metastore looks at
CASCADE_SECONDS = 900.0  # new columns for each of thousands of partitions, in one transaction
TRIES = 2  # of each address: a connection that was kept may have ended
ANSWER_BYTES = 64 << 20  # at most; what isn't a metastore may announce any number
PARTITIONS = 500  # in one call
ALL = -1  # partitions
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


class _Absent(Failed):
    """The answer that something is not there."""


class _Existing(Failed):
    """The answer that something is there already."""


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
        if (found := self._table(database, name)) is None:
            return None
        storage = found.sd
        return FoundTable(
            found.tableType or "",
            storage.location or "",
            storage.inputFormat or "",
            _columns(storage.cols or ()),
            _columns(found.partitionKeys or ()),
            dict(found.parameters or {}),
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
            sd=_storage(table.location, table.columns),
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
            raise Failed(f"{self} has no table {table.full_name} any more.")
        changed.sd.cols = _fields(columns)
        changed.parameters = {**(changed.parameters or {}), **table.properties}
        how = hive.EnvironmentContext(NO_STATISTICS | ({"CASCADE": "true"} if cascade else {}))
        self._ask(
            lambda client: client.alter_table_with_environment_context(
                table.database, table.name, changed, how
            ),
            CASCADE_SECONDS if cascade else None,
        )

    def add(self, table: HiveTable, partitions: Sequence[str], columns: Sequence[HiveColumn]) -> None:
        """Add partitions, PARTITIONS at most; those that are there already are left as they are."""
        now = int(time.time())
        parts = [
            hive.Partition(
                values=[hive_table.value(name)],
                dbName=table.database,
                tableName=table.name,
                createTime=now,
                sd=_storage(f"{table.location}/{name}", columns),
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

    def _ask(self, call: Callable[[Any], T], seconds: float | None = None) -> T:
        """Ask what may be asked twice; Away if nobody answers, Failed if the answer is no."""
        why = ""
        for _ in range(TRIES * len(self._addresses)):
            try:
                return call(self._client(seconds or ANSWER_SECONDS))
            except (TTransportException, TProtocolException, OSError, EOFError, UnicodeError) as error:
                host, port = self._addresses[0]
                why = f"{host}:{port}: {_said(error)}"
                self._close()
                self._addresses.append(self._addresses.pop(0))
            except hive.NoSuchObjectException as error:
                raise _Absent(f"{self} refuses: {_said(error)}.") from None
            except hive.AlreadyExistsException as error:
                raise _Existing(f"{self} refuses: {_said(error)}.") from None
            except TApplicationException as error:
                self._close()
                raise Failed(f"{self} is none of Hive 3.1 or 4: {_said(error)}.") from None
            except TException as error:
                raise Failed(f"{self} refuses: {_said(error)}.") from None
        raise Away(
            f"{self} does not answer ({why}); see that it runs and takes plain Thrift: "
            "neither Kerberos (SASL) nor TLS is spoken here."
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


def _user() -> str:
    """Return who writes, by the name that Hadoop's clients take, too."""
    with suppress(KeyError, OSError):
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return str(os.getuid())


def _storage(location: str, columns: Iterable[HiveColumn]) -> Any:
    return hive.StorageDescriptor(
        cols=_fields(columns),
        location=location,
        inputFormat=hive_table.INPUT,
        outputFormat=hive_table.OUTPUT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=hive.SerDeInfo(serializationLib=hive_table.SERDE, parameters={"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        skewedInfo=hive.SkewedInfo([], [], {}),
        storedAsSubDirectories=False,
    )


def _fields(columns: Iterable[HiveColumn]) -> list[Any]:
    return [hive.FieldSchema(each.name, each.type, each.comment) for each in columns]


def _columns(fields: Iterable[Any]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(each.name, each.type, each.comment or "") for each in fields)


def _said(error: Exception) -> str:
    if isinstance(error, TTransportException):
        if error.type == TTransportException.END_OF_FILE:
            return "it closed the connection"
        error = error.inner or error
    text = str(getattr(error, "strerror", None) or getattr(error, "message", None) or error)
    return (text.strip() or type(error).__name__).splitlines()[0].rstrip(".")
