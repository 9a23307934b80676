"""The records of topics, partitions, voters and producer ids in the metadata log.

Their schemas are in Kafka's jars: common/metadata/*.json and common/message/VotersRecord.json. Each record
begins with the version of the frame, the type of the record and the version of the type.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from aqueduct.kafka.batches.batch import HEADER, LENGTH_FROM, MAGIC, Batch, seal
from aqueduct.kafka.batches.bodies import body, key_and_value, put_one
from aqueduct.kafka.batches.plain_records import bodies
from aqueduct.recovery.broker_ids.log_comparison import KnownPartition, KnownTopic

FRAME = 1
TOPIC, PARTITION, PARTITION_CHANGE, REMOVE_TOPIC, PRODUCER_IDS = 2, 3, 5, 9, 15
NEWEST: Final = {
    TOPIC: 0,
    PARTITION: 2,
    PARTITION_CHANGE: 2,
    REMOVE_TOPIC: 0,
    PRODUCER_IDS: 0,
}  # of Kafka 4.3
# Of control records, by the second number of their key.
SNAPSHOT_HEADER, SNAPSHOT_FOOTER, VOTERS = 3, 4, 6
SAME_LEADER = -2
MOST_BITS = 32  # of an unsigned number

T = TypeVar("T")


@dataclass(frozen=True)
class Voter:
    """A controller of the quorum (KIP-853)."""

    node_id: int
    directory: str  # the id of its folder, as meta.properties has it
    address: str


@dataclass(frozen=True, kw_only=True)
class PartitionState(KnownPartition):
    version: int  # of its record
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    epoch: int
    directories: tuple[bytes, ...]


class MetadataImage:
    """The state of a cluster after the replay of metadata records."""

    def __init__(self) -> None:
        self.topics: dict[str, KnownTopic[PartitionState]] = {}  # by their ids
        self._partitions: dict[str, dict[int, PartitionState]] = {}  # theirs
        self.voters: tuple[Voter, ...] = ()  # empty: the controllers' settings list them (KIP-595)
        self.next_producer_id = 0

    def replay(self, batch: Batch) -> list[int]:
        """Apply a batch's records; return the types of control records. ValueError if one is unreadable."""
        controls = []
        for _, record in bodies(batch):
            try:
                key, value = key_and_value(record)
                if batch.control:
                    controls.append(self._control(key or b"", value or b""))
                else:
                    self._record(_Reader(value or b""))
            except (IndexError, struct.error, UnicodeDecodeError, KeyError):
                raise ValueError(
                    f"a record of the batch at offset {batch.base_offset} cannot be read"
                ) from None
        return controls

    def _control(self, key: bytes, value: bytes) -> int:
        kind = int.from_bytes(key[2:4])
        if kind == VOTERS:
            reader = _Reader(value)
            reader.number("h")
            self.voters = tuple(reader.array(reader.voter))
        return kind

    def _record(self, reader: "_Reader") -> None:
        frame, kind, version = reader.unsigned(), reader.unsigned(), reader.unsigned()
        if frame != FRAME or version > NEWEST.get(kind, version):
            raise ValueError(
                f"a record of type {kind} has version {version}, which this version of Aqueduct cannot read"
            )
        if kind == TOPIC:
            name, topic_id = reader.string(), reader.uuid()
            self._partitions[topic_id] = {}
            self.topics[topic_id] = KnownTopic(name, topic_id, self._partitions[topic_id])
        elif kind == REMOVE_TOPIC:
            gone = reader.uuid()
            self.topics.pop(gone, None)
            self._partitions.pop(gone, None)
        elif kind == PARTITION:
            number, topic_id = reader.number("i"), reader.uuid()
            self._put(topic_id, number, reader.partition(version))
        elif kind == PARTITION_CHANGE:
            number, topic_id = reader.number("i"), reader.uuid()
            self._put(topic_id, number, _changed(self.topics[topic_id].partitions[number], reader.tags()))
        elif kind == PRODUCER_IDS:
            reader.number("i")
            reader.number("q")
            self.next_producer_id = max(self.next_producer_id, reader.number("q"))

    def _put(self, topic_id: str, number: int, state: PartitionState) -> None:
        self._partitions[topic_id][number] = state


def _changed(state: PartitionState, tags: Mapping[int, bytes]) -> PartitionState:
    """Return a partition after a PartitionChangeRecord (PartitionRegistration.merge)."""

    def nodes(tag: int, before: tuple[int, ...]) -> tuple[int, ...]:
        reader = _Reader(tags.get(tag, b"\0"))  # 0: null, which is no change
        return before if tags.get(tag, b"\0") == b"\0" else tuple(reader.nodes())

    leader = _Reader(tags[1]).number("i") if 1 in tags else SAME_LEADER
    placed = tags.get(8, b"\0")
    reader = _Reader(placed)
    return replace(
        state,
        in_sync=nodes(0, state.in_sync),
        leader=state.leader if leader == SAME_LEADER else leader,
        leader_epoch=state.leader_epoch + (leader != SAME_LEADER),
        replicas=nodes(2, state.replicas),
        removing=nodes(3, state.removing),
        adding=nodes(4, state.adding),
        directories=state.directories if placed == b"\0" else tuple(reader.array(reader.raw_uuid)),
        epoch=state.epoch + 1,
    )


class _Reader:
    """Reads the fields of a message with flexible versions (KIP-482)."""

    def __init__(self, encoded: bytes) -> None:
        self._data, self._at = encoded, 0

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) != size:
            raise IndexError
        self._at += size
        return piece

    def number(self, form: str) -> int:
        return int(struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0])

    def unsigned(self) -> int:
        """Read a number of at most 32 bits. A longer one would need time by the square of its length."""
        number = 0
        for shift in range(0, MOST_BITS, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise IndexError

    def string(self) -> str:
        return self.take(self.unsigned() - 1).decode()

    def raw_uuid(self) -> bytes:
        return self.take(16)

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.raw_uuid()).decode().rstrip("=")

    def array(self, read: Callable[[], T]) -> Iterator[T]:
        return (read() for _ in range(self.unsigned() - 1))

    def nodes(self) -> Iterator[int]:
        return self.array(lambda: self.number("i"))

    def tags(self) -> dict[int, bytes]:
        return {self.unsigned(): self.take(self.unsigned()) for _ in range(self.unsigned())}

    def partition(self, version: int) -> PartitionState:
        replicas, in_sync, removing, adding = (tuple(self.nodes()) for _ in range(4))
        leader, leader_epoch, epoch = (self.number("i") for _ in range(3))
        directories = tuple(self.array(self.raw_uuid)) if version else ()
        return PartitionState(
            replicas=replicas,
            in_sync=in_sync,
            leader=leader,
            leader_epoch=leader_epoch,
            version=version,
            removing=removing,
            adding=adding,
            epoch=epoch,
            directories=directories,
        )

    def voter(self) -> Voter:
        node_id, directory = self.number("i"), self.uuid()
        [*endpoints] = self.array(self._endpoint)
        self.take(4)  # the supported versions of KRaft
        self.tags()
        self.tags()
        return Voter(node_id, directory, endpoints[0] if endpoints else "")

    def _endpoint(self) -> str:
        self.string()  # the listener's name
        endpoint = f"{self.string()}:{self.number('H')}"
        self.tags()
        return endpoint


def partition_record(topic_id: str, number: int, state: PartitionState) -> bytes:
    """Return a record of a partition's whole state. Only replicas in sync are eligible as leader."""
    nodes = (state.replicas, state.in_sync, state.removing, state.adding)
    directories = (
        _unsigned(len(state.directories) + 1) + b"".join(state.directories) if state.version else b""
    )
    return b"".join(
        (
            bytes((FRAME, PARTITION, state.version)),
            struct.pack(">i", number),
            base64.urlsafe_b64decode(topic_id + "=="),
            *(_unsigned(len(ids) + 1) + struct.pack(f">{len(ids)}i", *ids) for ids in nodes),
            struct.pack(">iii", state.leader, state.leader_epoch, state.epoch),
            directories,
            b"\0",
        )
    )


def producer_ids_record(following: int) -> bytes:
    """Return a record after which the controller assigns producer ids from `following` on."""
    return bytes((FRAME, PRODUCER_IDS, 0)) + struct.pack(">iqq", -1, -1, following) + b"\0"


def batch_of(values: list[bytes], offset: int, epoch: int, time: int) -> bytes:
    """Return one batch of the metadata log."""
    packed = bytearray()
    for number, value in enumerate(values):
        record = b"\0" + put_one(0) + put_one(number) + body(None, value)
        packed += put_one(len(record)) + record
    last, size = len(values) - 1, HEADER.size - LENGTH_FROM + len(packed)
    header = HEADER.pack(offset, size, epoch, MAGIC, 0, 0, last, time, time, -1, -1, -1, len(values))
    batch = bytearray(header) + packed
    seal(batch)
    return bytes(batch)


def _unsigned(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
