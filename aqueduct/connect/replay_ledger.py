"""The ledger of dead-letter records that were sent back, so that none is twice: what its topic's records say.

The topic is compacted. The key `topic/partition/block` stands for BLOCK offsets of one partition of one
dead-letter topic; the value is `{"topic_id": ..., "replayed": [[first, last], ...]}`. A record is written in
the same transaction as the letters. Group offsets would not do: letters are chosen one by one, and a group
without members is forgotten after a week (offsets.retention.minutes).
"""

import json
from collections.abc import Iterable, Mapping

from aqueduct.common import offset_sets
from aqueduct.common.offset_sets import Spans
from aqueduct.errors import Failed

TOPIC = "aqueduct.dlq.replayed"
BLOCK = 10_000  # offsets of one record, which then has at most about 100 KB

CONFIG = {"cleanup.policy": "compact"}

LedgerBlock = tuple[int, int]  # partition, number


def transactional_id(letters: str) -> str:
    """Return the transactional id of a replay of a dead-letter topic: there is one at a time."""
    return f"aqueduct-dlq-{letters}"


class ReplayLedger:
    """The ledger of one dead-letter topic, as long as it has this id."""

    def __init__(self, topic: str, topic_id: str, blocks: Mapping[LedgerBlock, Spans] | None = None) -> None:
        self._topic = topic
        self._topic_id = topic_id
        self._blocks = dict(blocks or {})

    @classmethod
    def parse(cls, topic: str, topic_id: str, entries: Mapping[str, str]) -> "ReplayLedger":
        """Parse a ledger. `entries`: the newest value of each key. Failed at what isn't ours."""
        blocks = {}
        for key, value in entries.items():
            try:
                name, partition, number = key.rsplit("/", 2)
                content = json.loads(value)
                if name == topic and content["topic_id"] == topic_id:
                    pieces = [(int(first), int(last)) for first, last in content["replayed"]]
                    blocks[int(partition), int(number)] = offset_sets.spans_of(pieces)
            except (KeyError, TypeError, ValueError, RecursionError):
                raise Failed(
                    "dead-letter-ledger-invalid",
                    f"{key!r} is not an entry of a ledger of dead-letter records. Find out what else writes "
                    "to its topic.",
                ) from None
        return cls(topic, topic_id, blocks)

    def has(self, partition: int, offset: int) -> bool:
        block = self._blocks.get((partition, offset // BLOCK), [])
        return offset_sets.has(block, offset)

    def spans(self, partition: int) -> Spans:
        """Return all offsets of a partition that were sent back."""
        blocks = [block for (of, _), block in self._blocks.items() if of == partition]
        return offset_sets.spans_of(piece for block in blocks for piece in block)

    def entries(self, letters: Iterable[tuple[int, int]]) -> dict[str, str]:
        """Note these partitions and offsets; what the topic has to say of them."""
        touched = set()
        for partition, offset in letters:
            block = partition, offset // BLOCK
            offset_sets.add(self._blocks.setdefault(block, []), offset, offset)
            touched.add(block)
        return {
            f"{self._topic}/{partition}/{number}": json.dumps(
                {"topic_id": self._topic_id, "replayed": self._blocks[partition, number]}
            )
            for partition, number in sorted(touched)
        }

    def __len__(self) -> int:
        """Count the letters."""
        return sum(map(offset_sets.size, self._blocks.values()))
