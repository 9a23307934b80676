"""The outcome of a prune, or of one that is only told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.errors import LeftOut
from aqueduct.snapshots.backup.faults import Fault
from aqueduct.snapshots.prune.plan import PrunePlan


@dataclass
class Amount:
    """How many objects, and their bytes."""

    count: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.count += 1
        self.bytes += size


@dataclass(frozen=True)
class Shrunk:
    """A topic that has far fewer bytes in the newest snapshot than would be removed."""

    topic: str
    goes: int  # bytes that would go, of the generation that has most of them
    newest: int  # bytes that the newest snapshot has


@dataclass(kw_only=True)
class Swept:
    """What became, or would become, of the objects below topics' folders."""

    gone: dict[str, Amount] = field(default_factory=dict)  # by topic: only removed manifests named them
    orphans: Amount = field(default_factory=Amount)  # that no manifest names, and that go
    young: Amount = field(default_factory=Amount)  # the same, but they stay for now
    strange: Amount = field(default_factory=Amount)  # neither segments nor indexes: they stay
    newest: dict[str, Amount] = field(default_factory=dict)  # by topic: what the newest snapshot names
    stated: Mapping[str, int] = field(default_factory=dict)  # the same in bytes, as its manifests state them
    # By topic and generation: the part of what goes.
    parts: dict[tuple[str, str], Amount] = field(default_factory=dict)

    def shrunk(self) -> tuple[Shrunk, ...]:
        """Return topics that have less than half as many bytes in the newest snapshot as would be removed.

        Only the largest generation counts, because each generation is a whole copy of its topic. The newest
        snapshot has no more than its manifests state: by that size, segments are chosen that are opened.
        """
        most: dict[str, int] = {}
        for (topic, _), amount in self.parts.items():
            most[topic] = max(most.get(topic, 0), amount.bytes)
        held = {
            topic: min(self.newest.get(topic, Amount()).bytes, self.stated.get(topic, 0)) for topic in most
        }
        shrunk = [Shrunk(topic, goes, held[topic]) for topic, goes in most.items() if 2 * held[topic] < goes]
        return tuple(sorted(shrunk, key=lambda of_topic: of_topic.topic))


@dataclass(frozen=True, kw_only=True)
class OpenedSample:
    """The result of opening segments of snapshots that stay."""

    segments: int = 0
    bytes: int = 0
    digests_only: int = 0  # of these segments: encrypted, and no key here opens them
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PruneOutcome:
    plan: PrunePlan
    times: Mapping[int, int]  # when each snapshot was made, in milliseconds since 1970
    manifest_bytes: int  # of snapshots that go
    swept: Swept
    executed: bool
    left_out: LeftOut
    seconds: float
    opened: OpenedSample
    refused: tuple[Shrunk, ...] = ()  # why nothing was removed, though it was asked for
    damaged: tuple[Fault, ...] = ()  # the same: objects of what stays
