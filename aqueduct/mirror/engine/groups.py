"""Synchronises consumer groups: at the target, a group continues with its next record at the source."""

import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition, unmatched_parts
from aqueduct.errors import LeftOut, Skipped
from aqueduct.kafka import fetch, groups
from aqueduct.kafka.batches.batch import Damaged
from aqueduct.kafka.batches.offsets import Index, Inside
from aqueduct.kafka.client import Client
from aqueduct.mirror.engine.position import Checkpoint, Position
from aqueduct.mirror.engine.state import FlowState
from aqueduct.mirror.engine.translation import Translated, of_topic, translate

SAMPLES = 1_000  # recent positions of a partition, which are as good as checkpoints
CACHED = 100_000  # translations
VISIBLE_SECONDS = 10
POLL_SECONDS = 0.05
HAS_MEMBERS = (
    "the group has members at the target, so its offsets are not synchronised; stop these members to "
    "synchronise the group"
)


@dataclass(frozen=True)
class MirroredGroups:
    """The flow's choice of consumer groups by a pattern for whole names."""

    pattern: re.Pattern[str]

    def among(self, listed: Iterable[groups.ConsumerGroup]) -> list[str]:
        return sorted(
            group.name
            for group in listed
            if group.protocol in groups.COMMITTING_TYPES and self.pattern.fullmatch(group.name)
        )

    def unmatched(self, names: Collection[str]) -> list[Skipped]:
        """Return the parts of the pattern that match none of the flow's groups. `.*` asks for no group."""
        reason = (
            "no consumer group of the source matches this pattern; correct the pattern, or start the group "
            "so that it commits offsets"
        )
        parts = unmatched_parts(self.pattern.pattern, names)
        return [
            Skipped(f"groups {part}", reason, "pattern-matches-nothing") for part in parts if part != ".*"
        ]


@dataclass(frozen=True, kw_only=True)
class GroupsSynchronised:
    """The result of one round."""

    groups: int = 0  # with offsets of mirrored partitions
    offsets: int = 0  # that were set
    inexact: LeftOut = ()
    skipped: LeftOut = ()
    unmatched: LeftOut = ()  # the parts of the pattern that match no group of the source


class GroupSynchroniser:
    """The groups of one flow."""

    def __init__(self, source: Client, target: Client, state: FlowState) -> None:
        self._source = source
        self._target = target
        self._state = state
        self._samples: dict[TopicPartition, deque[Checkpoint]] = {}
        self._cache: OrderedDict[tuple[TopicPartition, int, int], Translated] = OrderedDict()

    def sample(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Remember where partitions are now: each committed position is a pair of offsets."""
        for partition, position in positions.items():
            samples = self._samples.setdefault(partition, deque(maxlen=SAMPLES))
            checkpoint = position.checkpoint
            if not samples or samples[-1].source != checkpoint.source:
                samples.append(checkpoint)

    def synchronise(
        self,
        chosen: MirroredGroups,
        targets: Mapping[TopicPartition, TopicPartition],
        is_over: Callable[[], bool] = lambda: False,
    ) -> GroupsSynchronised:
        """Set the offsets of the chosen groups that have no members at the target. None is moved back.

        Nothing is set once it `is_over`: another process may synchronise the groups then.
        """
        listing = groups.list_groups(self._source, patient=False)  # the next round asks again
        names = chosen.among(listing.by_name.values())
        unlisted = _unlisted(listing)
        unmatched = () if unlisted else tuple(chosen.unmatched(names))
        committed = groups.committed(self._source, names)
        wanted = {
            name: {partition: of for partition, of in offsets.items() if partition in targets}
            for name, offsets in committed.items()
        }
        wanted = {name: offsets for name, offsets in wanted.items() if offsets}
        if not wanted:
            return GroupsSynchronised(unmatched=unmatched, skipped=unlisted)
        self._refresh()
        existing = groups.list_groups(self._target, patient=False).by_name.values()
        live = {group.name for group in existing if group.live}
        there = groups.committed(self._target, wanted.keys() - live)
        result = GroupsSynchronised(groups=len(wanted), unmatched=unmatched, skipped=unlisted)
        for name, offsets in sorted(wanted.items()):
            if is_over():
                break
            if name in live:
                result = _skipping(result, name)
                continue
            result = self._set(name, offsets, there.get(name, {}), targets, result, is_over)
        return result

    def _refresh(self) -> None:
        """Read the state until it has the sampled positions: a commit is visible a moment later."""
        deadline = time.monotonic() + VISIBLE_SECONDS
        while True:
            self._state.refresh()
            positions = self._state.positions
            is_visible = all(
                partition in positions and positions[partition].checkpoint >= samples[-1]
                for partition, samples in list(self._samples.items())  # another thread samples
            )
            if is_visible or time.monotonic() > deadline:
                return
            self._target.sleep(POLL_SECONDS)

    def _set(
        self,
        name: str,
        offsets: groups.CommittedOffsets,
        there: groups.CommittedOffsets,
        targets: Mapping[TopicPartition, TopicPartition],
        result: GroupsSynchronised,
        is_over: Callable[[], bool],
    ) -> GroupsSynchronised:
        translations: dict[TopicPartition, tuple[int, str]] = {}
        inexact: list[Skipped] = []
        for partition, (offset, metadata) in sorted(offsets.items()):
            try:
                translated = self._translate(partition, targets[partition], offset)
            except Damaged as error:  # others are synchronised
                skipped = Skipped.because_of(f"group {name}, {partition}", error)
                result = replace(result, skipped=(*result.skipped, skipped))
                continue
            if translated is None:
                continue
            if not translated.exact:
                reason = (
                    "records were compacted, or another engine mirrored them, so the group reads some "
                    f"records again: from offset {translated.offset}, or from its later committed offset at "
                    "the target"
                )
                inexact.append(Skipped(f"group {name}, {partition}", reason, "group-offset-inexact"))
            translations[targets[partition]] = translated.offset, metadata
        moves = advances(translations, there)
        if moves:  # translations can take long: another process may have moved the group meanwhile
            moves = advances(moves, groups.committed(self._target, [name]).get(name, {}))
        if is_over():
            return result
        try:
            groups.commit(self._target, name, moves)
        except groups.LiveGroup:
            return _skipping(result, name)
        return replace(result, offsets=result.offsets + len(moves), inexact=(*result.inexact, *inexact))

    def _translate(self, partition: TopicPartition, target: TopicPartition, offset: int) -> Translated | None:
        """Return where a group continues; None if nothing of the partition is known to be mirrored."""
        position = self._state.positions.get(partition)
        if position is None:
            return None
        key = partition, position.generation, offset
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        samples = tuple(self._samples.get(partition, ()))  # another thread appends to them
        every = chain(self._state.checkpoints.get(partition, ()), samples)
        translated = translate(
            of_topic(position, every),
            offset,
            lambda start, stop: self._count(partition, start, stop),
            lambda lower, upper, rank: self._find(target, lower, upper, rank),
        )
        if translated.exact and offset < position.next:
            self._cache[key] = translated
            if len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return translated

    def _count(self, partition: TopicPartition, start: int, stop: int) -> int | None:
        count = 0
        for piece in fetch.read(self._source, Range(*partition, start, stop)):
            if piece.lost:
                return None
            count += sum(batch.count for batch in piece.batches)
        return count

    def _find(self, partition: TopicPartition, lower: Checkpoint, upper: Checkpoint, rank: int) -> int | None:
        """Find a record of the flow by its producers' ids, which others that write there do not have."""
        producers = {*lower.producers, *upper.producers}
        batches = [
            batch
            for piece in fetch.read(self._target, Range(*partition, lower.target, upper.target))
            for batch in piece.batches
            if batch.producer_id in producers
        ]
        index = Index.of(batches)
        if index.records != upper.records - lower.records:  # the target was compacted
            return None
        found = index.offset(rank)
        return None if isinstance(found, Inside) else found


def advances(
    translations: groups.CommittedOffsets, committed: groups.CommittedOffsets
) -> groups.CommittedOffsets:
    """Return the translated offsets that are after those that the group has committed at the target."""
    return {
        partition: (offset, metadata)
        for partition, (offset, metadata) in translations.items()
        if partition not in committed or committed[partition][0] < offset
    }


def _unlisted(listing: groups.ListedGroups) -> LeftOut:
    return tuple(
        Skipped(f"groups of {partition}", f"{why}, so no broker lists its groups", "groups-unlisted")
        for partition, why in listing.unlisted.items()
    )


def _skipping(result: GroupsSynchronised, name: str) -> GroupsSynchronised:
    skipped = Skipped(f"group {name}", HAS_MEMBERS, "group-has-members")
    return replace(result, skipped=(*result.skipped, skipped))
