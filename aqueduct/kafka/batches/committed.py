"""The read-committed view of the batches that a Fetch returned (KIP-98)."""

from collections.abc import Iterable, Iterator

from aqueduct.kafka.batches.batch import Batch
from aqueduct.kafka.batches.plain_records import bodies

_ABORT = 0


def committed(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]]) -> Iterator[Batch]:
    """Leave out control batches and batches of aborted transactions.

    `aborted`: (producer id, first offset) of the transactions that the same Fetch said were aborted. As in
    Java's consumer, such a transaction lasts until the producer's next ABORT marker: a COMMIT marker before
    that belongs to an earlier transaction.
    """
    waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
    aborting: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1][0] <= batch.last_offset:
            aborting.add(waiting.pop()[1])
        if batch.control:
            if batch.producer_id in aborting and _is_abort(batch):
                aborting.remove(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in aborting):
            yield batch


def _is_abort(marker: Batch) -> bool:
    """Return whether a marker ends an aborted transaction.

    Its key is its version and its type, two bytes each, after a length of one byte.
    """
    return any(int.from_bytes(body[3:5]) == _ABORT for _, body in bodies(marker))
