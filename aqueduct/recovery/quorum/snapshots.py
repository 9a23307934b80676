"""Snapshots of a cluster's metadata in a store: each an object of its own, whole or not there.

Between its first line, which tells what it is, and its last, the digest, are Kafka's own snapshot and the log
that follows it, as a node has them in its files.
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
    loaded,
    opened,
    seal,
    whole,
)
from aqueduct.store.objects import Data

FORMAT = 1
HEAD_BYTES = 4096  # of the first line, at most


@dataclass(frozen=True)
class QuorumSnapshot:
    """What was kept of a node's metadata."""

    number: int
    created: int  # milliseconds since 1970
    metadata: Metadata

    @property
    def cluster(self) -> str:
        return self.metadata.cluster

    @property
    def whole(self) -> bool:
        return True


def of(metadata: Metadata) -> QuorumSnapshot:
    """Return what is kept of a node's copy; it has no number yet."""
    return QuorumSnapshot(0, timestamps.now(), metadata)


def stale(snapshot: QuorumSnapshot, within: int) -> str:
    """Return the warning that the newest record of a snapshot was old when it was read; empty if not.

    A controller or broker that is stopped, or cut off from the quorum, keeps the log that it had. `within`:
    seconds that are not old; 0: any age is accepted.
    """
    kept, age = snapshot.metadata, snapshot.created - snapshot.metadata.time
    if not within or abs(age) <= within * 1000:
        return ""
    subject = f"newest record of the metadata of node {kept.node}"
    time = timestamps.text(kept.time)
    if age < 0:
        return labelled("time-in-future", f"The {subject} is of {time}, in the future. Check the clocks.")
    return labelled(
        "quorum-metadata-stale",
        f"The {subject} is of {time}. The node does not run, or does not follow the quorum. Start the "
        "node, or back up from another one.",
    )


def encode(snapshot: QuorumSnapshot) -> bytes:
    """Return a snapshot as an object has it."""
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
    """Return an object's snapshot; Refused if it is newer.

    ValueError, KeyError or TypeError if it isn't one: nothing is believed that a backup would not write.
    """
    content = opened(packed)
    head = loaded(about := first_line(content), HEAD_BYTES)
    start = len(about)
    check_format(head, FORMAT)
    if not CLUSTER_ID.fullmatch(head["cluster"]):
        raise ValueError("its cluster can't be one")
    between = start + whole(head["checkpoint"])
    end = between + whole(head["log"])
    if bytes(content[end:]) != b"\n":
        raise ValueError("it has other lengths than it tells")
    kept = Metadata(
        cluster=head["cluster"],
        node=whole(head["node"]),
        offset=whole(head["offset"]),
        epoch=whole(head["epoch"]),
        checkpoint=bytes(content[start:between]),
        log=bytes(content[between:end]),
    )
    try:
        kept.image  # noqa: B018
    except Damaged as error:
        raise ValueError(str(error).rstrip(".")) from None
    return QuorumSnapshot(whole(head["number"]), whole(head["created"], LAST_MILLISECOND), kept)


class QuorumSnapshots(NumberedSnapshots[QuorumSnapshot]):
    """The snapshots of one cluster's metadata in a store."""

    FORMAT, STORE, FOLDER, SUFFIX, OF = FORMAT, "quorum.json", "metadata", ".zst", "a quorum"

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    @staticmethod
    def check(packed: bytes, snapshot: QuorumSnapshot) -> None:
        if decode(packed) != snapshot:
            raise ValueError("it reads otherwise than it was written")

    @staticmethod
    def source(snapshot: QuorumSnapshot) -> str:
        return f"The metadata of node {snapshot.metadata.node}"

    def add(self, snapshot: QuorumSnapshot) -> QuorumSnapshot:
        """Keep a snapshot; Refused, too, if one before goes further: the node's log was cut, or is behind."""
        mine = snapshot.metadata
        for number in self.believed():
            with suppress(Failed):
                before = self.read(number).metadata
                if before.cluster == mine.cluster and before.far > mine.far:
                    raise Refused(
                        "quorum-metadata-outdated",
                        f"{self.source(snapshot)} end at offset {mine.end:,} of epoch {mine.end_epoch}, "
                        f"before those of snapshot {number} (offset {before.end:,} of epoch "
                        f"{before.end_epoch}): its log was truncated, or it does not follow. Nothing was "
                        "kept. Take another node, or a folder of its own where the quorum is a new one.",
                    )
                break
        return super().add(snapshot)

    def less(self, snapshot: QuorumSnapshot, number: int) -> str:
        """Say that it has less than half of the topics of an earlier one."""
        with suppress(AqueductError):  # that one is damaged, or gone
            before, now = (len(stored.metadata.image.topics) for stored in (self.read(number), snapshot))
            if 2 * now < before:
                return f"snapshot {number} has {count(before, 'topic')}, and this one {now:,}"
        return ""

    def refusal(self, snapshot: QuorumSnapshot, before: str) -> str:
        return (
            f"{self._objects.url} keeps the metadata of cluster {before}, and those of node "
            f"{snapshot.metadata.node} are of {snapshot.cluster}: nothing was kept. Name a folder of its own."
        )
