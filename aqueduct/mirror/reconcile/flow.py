"""The two sides of a comparison: ends, topics, and lanes.

A lane is a partition of the target together with the partitions of the sources whose records it holds. A
flow's ends are numbered: 0 is the target, the sources follow.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition, matches, parse_renames, unmatched_parts
from aqueduct.common.wording import some
from aqueduct.errors import LeftOut, Refused, Skipped
from aqueduct.mirror.reconcile.digest import RecordHeader
from aqueduct.mirror.reconcile.stored import ComparedEnd


@dataclass(frozen=True)
class ComparedFlow:
    target: ComparedEnd
    sources: tuple[ComparedEnd, ...]
    header: RecordHeader | None = None  # only records that carry it count, at every end

    @property
    def ends(self) -> tuple[ComparedEnd, ...]:
        return self.target, *self.sources


@dataclass(frozen=True)
class ComparedLane:
    topic: str  # the target's
    partition: int
    ranges: tuple[Range | None, ...]  # by the number of the end; None: it has no such partition

    @property
    def sources(self) -> list[Range]:
        """Return the ranges of the sources that have the partition."""
        return [part for part in self.ranges[1:] if part is not None]

    def __str__(self) -> str:
        return str(TopicPartition(self.topic, self.partition))


@dataclass(frozen=True)
class ComparedTopics:
    """The topics that were asked for: by name at the source and at the target, or by pattern and prefix."""

    names: Mapping[str, str]
    pattern: re.Pattern[str] | None = None  # of names at the source, see names.matches
    prefix: str = ""

    @classmethod
    def parse(cls, names: str | None, pattern: str | None, prefix: str = "") -> "ComparedTopics":
        """Parse `a,b:c` or a regular expression; Refused where it can't be right."""
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise Refused(
                "pattern-invalid", f"The topics pattern {pattern} is not a valid regular expression: {error}."
            ) from None
        return cls({} if names is None else parse_renames(names, prefix), compiled, prefix)

    def choose(self, sources: Iterable[Iterable[str]]) -> dict[str, str]:
        """Return names at the source and at the target; Refused where no source has such a topic."""
        existing = {name for names in sources for name in names}
        absent = sorted(self.names.keys() - existing)
        if absent:
            raise Refused(
                "topic-unknown",
                f"No source has a topic {some(absent)} that its client may describe. Correct --topics, or "
                "grant Describe on the topic.",
            )
        if self.pattern is None:
            return dict(self.names)
        chosen = [name for name in sorted(existing) if matches(self.pattern, name)]
        if not chosen:
            raise Refused(
                "pattern-matches-nothing",
                f"No source has a topic whose whole name matches {self.pattern.pattern}. Correct the "
                "pattern.",
            )
        return {name: self.prefix + name for name in chosen}

    def unmatched(self, chosen: Collection[str]) -> LeftOut:
        """Return the names, and the parts of the pattern, of which nothing was compared.

        `chosen`: the topics of which a partition of a source was compared.
        """
        missing = sorted(self.names.keys() - set(chosen))
        absent = "no partition of it was compared; check that a source has it, and run the command again"
        parts = unmatched_parts(self.pattern.pattern, chosen) if self.pattern else []
        reason = (
            "no source has a topic whose whole name matches this part, and that the other parts of the "
            "pattern do not exclude"
        )
        return (
            *(Skipped(f"topic {name}", absent, "topic-unknown") for name in missing),
            *(Skipped(f"topics {part}", reason, "pattern-matches-nothing") for part in parts),
        )


def topic_partitions(
    names: Mapping[str, str], partitions: Sequence[Mapping[str, int]]
) -> list[list[TopicPartition]]:
    """List the partitions to ask each end for, given how many its topics have."""
    by_end = [list(names.values()), *(list(names) for _ in partitions[1:])]
    return [
        [TopicPartition(topic, partition) for topic in topics for partition in range(counts.get(topic, 0))]
        for topics, counts in zip(by_end, partitions, strict=True)
    ]


def lanes(
    names: Mapping[str, str], answers: Sequence[Mapping[TopicPartition, Range]]
) -> Iterator[ComparedLane]:
    """Yield every partition that any end has; `answers` is what each end answered for its partitions."""
    for source, target in names.items():
        for partition in count():
            ranges = tuple(
                end.get(TopicPartition(source if number else target, partition))
                for number, end in enumerate(answers)
            )
            if not any(part is not None for part in ranges):
                break
            yield ComparedLane(target, partition, ranges)
