"""Translation of a group's offset at the source to the offset of the same record at the target, exactly.

Checkpoints bound where the record is. Between two of them, the batch headers of both ends tell how many
records are before it. Where every offset has its record, arithmetic is enough and nothing is read.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aqueduct.mirror.engine.position import Checkpoint, Position

# Count the committed records between two offsets of the source; None: some are deleted.
CountRecords = Callable[[int, int], int | None]
# Find the flow's record at the target that so many of its records after the first checkpoint precede; None if
# there are not as many between both checkpoints as were mirrored.
FindRecord = Callable[[Checkpoint, Checkpoint, int], int | None]


@dataclass(frozen=True)
class Translated:
    """An offset at the target. If it is not exact, it is before the record: nothing is skipped."""

    offset: int
    exact: bool


def of_topic(position: Position, checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints of the position's source topic in their order, with the position itself."""
    known = {
        checkpoint
        for checkpoint in checkpoints
        if checkpoint.topic_id == position.topic_id and checkpoint[:2] <= position.checkpoint[:2]
    }
    return sorted({*known, position.checkpoint})


def obsolete(checkpoints: Sequence[Checkpoint], topic_id: str, log_start: int) -> int:
    """Return how many of a partition's first checkpoints no offset of the source topic needs any more."""
    count = 0
    while count + 1 < len(checkpoints) and (
        checkpoints[count].topic_id != topic_id or checkpoints[count + 1].source <= log_start
    ):
        count += 1
    return count


def translate(
    checkpoints: Sequence[Checkpoint], offset: int, count_source: CountRecords, find_target: FindRecord
) -> Translated:
    """Translate a source offset. `checkpoints`: as `of_topic` returns them.

    An offset that has not arrived yet becomes the end of what has, an offset before the flow's beginning the
    flow's first record.
    """
    generation = checkpoints[-1].generation
    present = [checkpoint for checkpoint in checkpoints if checkpoint.generation == generation]
    after = bisect_right(present, offset, key=lambda checkpoint: checkpoint.source)
    if not after:
        return _before(checkpoints, offset)
    lower = present[after - 1]
    if after == len(present) or offset == lower.source:
        return Translated(lower.target, exact=True)
    upper = present[after]
    total = upper.records - lower.records
    rank = _rank(lower, upper, offset, total, count_source)
    if rank is None:
        return Translated(lower.target, exact=False)
    if rank == total:
        return Translated(upper.target, exact=True)
    if upper.target - lower.target == total:
        return Translated(lower.target + rank, exact=True)
    there = find_target(lower, upper, rank)
    return Translated(lower.target, exact=False) if there is None else Translated(there, exact=True)


def _before(checkpoints: Sequence[Checkpoint], offset: int) -> Translated:
    """Translate an offset below where the log was cut, or below the flow's beginning."""
    lower = [checkpoint for checkpoint in checkpoints if checkpoint.source <= offset]
    if not lower:
        return Translated(checkpoints[0].target, exact=True)
    # The newest generation that begins at or below the offset: later ones mirrored no record of it again.
    newest = max(checkpoint.generation for checkpoint in lower)
    best = max(checkpoint for checkpoint in lower if checkpoint.generation == newest)
    return Translated(best.target, exact=best.source == offset)


def _rank(
    lower: Checkpoint, upper: Checkpoint, offset: int, total: int, count_source: CountRecords
) -> int | None:
    """Return how many mirrored records are between a checkpoint and an offset; None: it is not known."""
    if upper.source - lower.source == total:
        return offset - lower.source
    before, after = count_source(lower.source, offset), count_source(offset, upper.source)
    if before is None or after is None or before + after != total:
        return None
    return before
