"""The outcome of a prune, or of its preview."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.errors import LeftOut
from aqueduct.snapshots.backup.faults import Fault
from aqueduct.snapshots.prune.plan import PrunePlan


@dataclass
class Amount:
    """A number of objects, and the sum of their bytes."""

    count: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.count += 1
        self.bytes += size


@dataclass(frozen=True)
class Shrunk:
    """A topic that has far fewer bytes in the newest snapshot than in the data to be removed."""

    topic: str
    goes: int  # bytes to be removed, of the generation that has most of them
    newest: int  # bytes in the newest snapshot


@dataclass(kw_only=True)
class Swept:
    """The objects below the folders of topics, by what is removed and what stays."""

    gone: dict[str, Amount] = field(default_factory=dict)  # by topic: only removed snapshots used them
    orphans: Amount = field(default_factory=Amount)  # that no snapshot uses, old enough to be removed
    young: Amount = field(default_factory=Amount)  # the same, but too new to be removed
    strange: Amount = field(default_factory=Amount)  # neither segments nor indexes: they stay
    newest: dict[str, Amount] = field(default_factory=dict)  # by topic: objects of the newest snapshot
    stated: Mapping[str, int] = field(default_factory=dict)  # their bytes, as the manifests state them
    # Removed objects, by topic and generation.
    parts: dict[tuple[str, str], Amount] = field(default_factory=dict)

    def shrunk(self) -> tuple[Shrunk, ...]:
        """Return topics whose data in the newest snapshot is less than half of the data to be removed.

        Only the largest generation counts, because each generation is a whole copy of its topic. Of the
        newest snapshot, no more counts than its manifests state: the sample is chosen by that size.
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
    """The result of checking a sample of the remaining snapshots."""

    segments: int = 0
    bytes: int = 0
    digests_only: int = 0  # of these segments: encrypted, and no private key opens them
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PruneOutcome:
    plan: PrunePlan
    times: Mapping[int, int]  # when each snapshot was created, in milliseconds since 1970
    manifest_bytes: int  # of the snapshots to be removed
    swept: Swept
    executed: bool
    left_out: LeftOut
    seconds: float
    opened: OpenedSample
    refused: tuple[Shrunk, ...] = ()  # topics because of which nothing was removed
    damaged: tuple[Fault, ...] = ()  # damaged objects because of which nothing was removed
