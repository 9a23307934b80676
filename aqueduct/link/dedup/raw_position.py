"""Dedup's position in a raw partition, checked against the topic and its log.

A raw topic that was re-created, or that lost the end of its log, has other records at the same offsets. What
is read again costs time only: the ledger decides which records are new.
"""

from dataclasses import dataclass
from uuid import UUID

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import labelled
from aqueduct.link.dedup.share import Counted


@dataclass(frozen=True, kw_only=True)
class RawLog:
    """A partition of a raw topic as it is now."""

    topic_id: UUID | None
    start: int
    end: int  # its high watermark
    # Where the log leaves the leader epoch of the position, -1: it never came to it; None: it was not asked.
    epoch_end: int | None = None


def outdated(position: int, counted: Counted | None, log: RawLog) -> int | None:
    """Return where to continue if a position is of an earlier topic or log; None: it is of this one.

    `counted`: what was committed with it. A position that somebody set has none.
    """
    if counted and counted.topic_id != str(log.topic_id):
        return log.start
    if log.epoch_end is not None and log.epoch_end < position:
        return max(log.start, min(log.epoch_end, log.end))
    return log.start if position > log.end else None


def sentence(partition: TopicPartition, position: int, start: int) -> str:
    return labelled(
        "raw-position-outdated",
        f"{partition} was re-created or its log was truncated. Dedup had read up to offset {position}, and "
        f"continues at {start}. The ledger prevents duplicates of records that arrived before. If the log "
        "lost unread frames, the ledger lists their offsets as missing after the next announcement of the "
        "sender. Then send the missing offsets again with aqueduct diode resend.",
    )
