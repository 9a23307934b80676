"""Snapshots of a cluster's metadata in a store. Each is one object.

The first line describes the snapshot, and the last line has the digest. Between them are Kafka's own snapshot
and the log after it, as in a node's files.
"""

from contextlib import suppress
from dataclasses import dataclass

from aqueduct.common import timestamps
from aqueduct.common.wording import count
from aqueduct.errors import AqueductError, Failed, Refused, labelled
from aqueduct.kafka.batches.batch import Damaged
from aqueduct.recovery.quorum.metadata import Metadata
from aqueduct.store.numbered_snapshots import (
    CLUSTER_ID,
    LAST_MILLISECOND,
    NumberedSnapshots,
    check_format,
    first_line,
    line,
    natural_number,
    parse_line,
    seal,
    unsealed,
)
from aqueduct.store.objects import Data

FORMAT = 1
HEAD_BYTES = 4096  # of the first line, at most


@dataclass(frozen=True)
class QuorumSnapshot:
    """The stored metadata of a node."""

    number: int
    created: int  # milliseconds since 1970
    metadata: Metadata

    @property
    def cluster(self) -> str:
        return self.metadata.cluster

    @property
    def complete(self) -> bool:
        return True


def snapshot_of(metadata: Metadata) -> QuorumSnapshot:
    """Return a snapshot of a node's copy, without a number."""
    return QuorumSnapshot(0, timestamps.now(), metadata)


def staleness_warning(snapshot: QuorumSnapshot, within: int) -> str:
    """Return a warning if the newest record of a snapshot was already old when it was read; else empty.

    A node that is stopped or cannot reach the quorum keeps its old log. `within`: the greatest accepted age
    in seconds; 0 accepts any age.
    """
    kept, age = snapshot.metadata, snapshot.created - snapshot.metadata.time
    if not within or abs(age) <= within * 1000:
        return ""
    subject = f"newest record of the metadata of node {kept.node}"
    time = timestamps.text(kept.time)
    if age < 0:
        return labelled("time-in-future", f"The {subject} is from {time}, in the future. Check the clocks.")
    return labelled(
        "quorum-metadata-stale",
        f"The {subject} is from {time}. The node does not run, or does not follow the quorum. Start the "
        "node, or back up from another one.",
    )


def encode(snapshot: QuorumSnapshot) -> bytes:
    """Return a snapshot as the content of an object."""
    kept = snapshot.metadata
    about = {
        "format": FORMAT,
        "number": snapshot.number,
        "created": snapshot.created,
        "cluster": kept.cluster,
        "node": kept.node,
        "offset": kept.offset,
        "epoch": kept.epoch,
        "checkpoint": len(kept.checkpoint),
        "log": len(kept.log),
    }
    return seal(bytearray(line(about)) + kept.checkpoint + kept.log + b"\n")


def decode(packed: Data) -> QuorumSnapshot:
    """Parse an object's snapshot. Refused if its format is newer.

    ValueError, KeyError or TypeError if it is not a snapshot as a backup writes it.
    """
    content = unsealed(packed)
    head = parse_line(about := first_line(content), HEAD_BYTES)
    start = len(about)
    check_format(head, FORMAT)
    if not CLUSTER_ID.fullmatch(head["cluster"]):
        raise ValueError("its cluster id is invalid")
    between = start + natural_number(head["checkpoint"])
    end = between + natural_number(head["log"])
    if bytes(content[end:]) != b"\n":
        raise ValueError("its length differs from the length in its first line")
    kept = Metadata(
        cluster=head["cluster"],
        node=natural_number(head["node"]),
        offset=natural_number(head["offset"]),
        epoch=natural_number(head["epoch"]),
        checkpoint=bytes(content[start:between]),
        log=bytes(content[between:end]),
    )
    try:
        kept.image  # noqa: B018
    except Damaged as error:
        raise ValueError(str(error).rstrip(".")) from None
    return QuorumSnapshot(
        natural_number(head["number"]), natural_number(head["created"], LAST_MILLISECOND), kept
    )


class QuorumSnapshots(NumberedSnapshots[QuorumSnapshot]):
    """The snapshots of one cluster's metadata in a store."""

    FORMAT, STORE, FOLDER, SUFFIX, OF = FORMAT, "quorum.json", "metadata", ".zst", "a quorum"

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    @staticmethod
    def check(packed: bytes, snapshot: QuorumSnapshot) -> None:
        if decode(packed) != snapshot:
            raise ValueError("it differs from the written snapshot when it is read again")

    @staticmethod
    def source(snapshot: QuorumSnapshot) -> str:
        return f"The metadata of node {snapshot.metadata.node}"

    def add(self, snapshot: QuorumSnapshot) -> QuorumSnapshot:
        """Store a snapshot. Refused, too, if an earlier one ends later, as after a log truncation."""
        mine = snapshot.metadata
        for number in self.trusted_numbers():
            with suppress(Failed):
                before = self.read(number).metadata
                if before.cluster == mine.cluster and before.epoch_and_end > mine.epoch_and_end:
                    raise Refused(
                        "quorum-metadata-outdated",
                        f"{self.source(snapshot)} end at offset {mine.end:,} of epoch {mine.end_epoch}, "
                        f"before the metadata of snapshot {number} (offset {before.end:,} of epoch "
                        f"{before.end_epoch}). The log of the node was truncated, or the node does not "
                        "follow the quorum. Nothing was kept. Back up from another node. If the quorum is "
                        "new, pass another folder of the store.",
                    )
                break
        return super().add(snapshot)

    def loss_warning(self, snapshot: QuorumSnapshot, number: int) -> str:
        """Return a phrase if the snapshot has less than half of the topics of an earlier one; else empty."""
        with suppress(AqueductError):  # the earlier one is damaged, or was removed
            before, now = (len(stored.metadata.image.topics) for stored in (self.read(number), snapshot))
            if 2 * now < before:
                return f"snapshot {number} has {count(before, 'topic')}, but this snapshot has {now:,}"
        return ""

    def refusal(self, snapshot: QuorumSnapshot, before: str) -> str:
        return (
            f"{self._objects.url} has metadata of cluster {before}, but node {snapshot.metadata.node} "
            f"belongs to cluster {snapshot.cluster}. Nothing was kept. Pass another folder of the store."
        )
