"""Metadata of a quorum of two brokers."""

import base64
from dataclasses import replace

from aqueduct.common.topic_names import TopicPartition
from aqueduct.recovery.broker_ids.disk_logs import DiskLog
from aqueduct.recovery.quorum.metadata import Metadata
from aqueduct.recovery.quorum.records import PartitionState, batch_of, partition_record

DIRECTORIES = bytes(16), b"x" * 16
ID, OTHER = (base64.urlsafe_b64encode(bytes([number] * 16)).decode().rstrip("=") for number in (1, 2))
STATE = PartitionState(
    replicas=(1, 2),
    in_sync=(1, 2),
    leader=1,
    leader_epoch=4,
    version=1,
    removing=(),
    adding=(),
    epoch=9,
    directories=DIRECTORIES,
)


def topic_record(name: str, number: int) -> bytes:
    return bytes((1, 2, 0, len(name) + 1)) + name.encode() + bytes([number] * 16) + b"\0"


def metadata(*more: bytes) -> Metadata:
    """Return the records of a cluster with one topic with two partitions, and further records."""
    values = [
        topic_record("flights", 1),
        *(partition_record(ID, number, STATE) for number in range(2)),
        *more,
    ]
    return Metadata(
        cluster="cluster",
        node=101,
        offset=0,
        epoch=0,
        checkpoint=b"",
        log=batch_of(values, 0, 3, 1_700_000_000_000),
    )


def log(number: int = 0, end: int = 10, **other: object) -> DiskLog:
    at = TopicPartition("flights", number)
    found = DiskLog(
        partition=at, folder=str(at), stray=False, topic_id=ID, end=end, epoch=4, bytes=100, committed=end
    )
    return replace(found, **other)  # type: ignore[arg-type]


BOTH = [log(0), log(1)]
