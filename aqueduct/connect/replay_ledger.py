"""The ledger of dead-letter records that were sent back, so that none is twice: what its topic's records say.

The topic is compacted. The key `topic/partition/block` stands for BLOCK offsets of one partition of one
dead-letter topic; the value is `{"topic_id": ..., "replayed": [[first, last], ...], "epoch": ...}`. A record
is written in the same transaction as the letters. Group offsets would not do: letters are chosen one by one,
and a group without members is forgotten after a week (offsets.retention.minutes).

`epoch` is the leader epoch of the partition when the letters were read. A log that was cut since leaves that
epoch below the letters, and has other letters at their offsets (KIP-320).
"""

import json
from collections.abc import Iterable, Mapping

from aqueduct.common import offset_sets
from aqueduct.common.offset_sets import Spans
from aqueduct.errors import Failed

TOPIC = "aqueduct.dlq.replayed"
BLOCK = 10_000  # offsets of one record, which then has at most about 100 KB

CONFIG = {"cleanup.policy": "compact"}

NO_EPOCH = -1  # the leader's epoch is unknown

LedgerBlock = tuple[int, int]  # partition, number


def transactional_id(letters: str) -> str:
    """Return the transactional id of a replay of a dead-letter topic: there is one at a time."""
    return f"aqueduct-dlq-{letters}"


class ReplayLedger:
    """The ledger of one dead-letter topic, as long as it has this id."""

    def __init__(
        self,
        topic: str,
        topic_id: str,
        blocks: Mapping[LedgerBlock, Spans] | None = None,
        epochs: Mapping[LedgerBlock, int] | None = None,
    ) -> None:
        self._topic = topic
        self._topic_id = topic_id
        self._blocks = dict(blocks or {})
        self._epochs = dict(epochs or {})

    @classmethod
    def parse(cls, topic: str, topic_id: str, entries: Mapping[str, str]) -> "ReplayLedger":
        """Parse a ledger. `entries`: the newest value of each key. Failed at what isn't ours."""
        blocks, epochs = {}, {}
        for key, value in entries.items():
            try:
                name, partition, number = key.rsplit("/", 2)
                content = json.loads(value)
                if name == topic and content["topic_id"] == topic_id:
                    pieces = [(int(first), int(last)) for first, last in content["replayed"]]
                    block = int(partition), int(number)
                    blocks[block] = offset_sets.spans_of(pieces)
                    epochs[block] = int(content["epoch"])
            except (KeyError, TypeError, ValueError, RecursionError):
                raise Failed(
                    "dead-letter-ledger-invalid",
                    f"{key!r} is not a ledger entry of dead-letter records. Find out which other client "
                    "writes to this topic.",
                ) from None
        return cls(topic, topic_id, blocks, epochs)

    @property
    def epochs(self) -> dict[int, set[int]]:
        """Return the partitions of which entries have each leader epoch."""
        partitions: dict[int, set[int]] = {}
        for (partition, _), epoch in self._epochs.items():
            if epoch != NO_EPOCH:
                partitions.setdefault(epoch, set()).add(partition)
        return partitions

    def forget_cut(self, ends: Mapping[int, int], epoch_ends: Mapping[tuple[int, int], int]) -> None:
        """Forget letters that the log lost since: those from its end, or from that of their epoch, on.

        `ends`: by partition. `epoch_ends`: by partition and epoch, -1 where the leader does not know it.
        """
        for block, spans in self._blocks.items():
            partition, _ = block
            end = ends.get(partition)
            epoch_end = epoch_ends.get((partition, self._epochs.get(block, NO_EPOCH)), -1)
            limits = [limit for limit in (end, epoch_end) if limit is not None and limit >= 0]
            if spans and limits:
                offset_sets.take(spans, min(limits), spans[-1][1])

    def has(self, partition: int, offset: int) -> bool:
        block = self._blocks.get((partition, offset // BLOCK), [])
        return offset_sets.has(block, offset)

    def spans(self, partition: int) -> Spans:
        """Return all offsets of a partition that were sent back."""
        blocks = [block for (of, _), block in self._blocks.items() if of == partition]
        return offset_sets.spans_of(piece for block in blocks for piece in block)

    def entries(
        self, letters: Iterable[tuple[int, int]], epochs: Mapping[int, int] | None = None
    ) -> dict[str, str]:
        """Note these partitions and offsets; what the topic has to say of them.

        `epochs`: the leader epoch of each partition, not older than that of its letters.
        """
        touched = set()
        for partition, offset in letters:
            block = partition, offset // BLOCK
            offset_sets.add(self._blocks.setdefault(block, []), offset, offset)
            self._epochs[block] = (epochs or {}).get(partition, NO_EPOCH)
            touched.add(block)
        return {
            f"{self._topic}/{partition}/{number}": json.dumps(self._entry((partition, number)))
            for partition, number in sorted(touched)
        }

    def _entry(self, block: LedgerBlock) -> dict[str, object]:
        blocks, epoch = self._blocks[block], self._epochs[block]
        return {"topic_id": self._topic_id, "replayed": blocks, "epoch": epoch}

    def __len__(self) -> int:
        """Count the letters."""
        return sum(map(offset_sets.size, self._blocks.values()))
