"""The outcome of a prune, or of one that is only told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.errors import LeftOut
from aqueduct.prune.plan import PrunePlan


@dataclass
class Amount:
    """How many objects, and their bytes."""

    count: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.count += 1
        self.bytes += size


@dataclass
class Swept:
    """What became, or would become, of the objects below topics' folders."""

    gone: dict[str, Amount] = field(default_factory=dict)  # by topic: only removed manifests named them
    orphans: Amount = field(default_factory=Amount)  # that no manifest names, and that go
    young: Amount = field(default_factory=Amount)  # the same, but they stay for now
    strange: Amount = field(default_factory=Amount)  # neither segments nor indexes: they stay


@dataclass(frozen=True)
class PruneOutcome:
    plan: PrunePlan
    times: Mapping[int, int]  # when each snapshot was made, in milliseconds since 1970
    manifest_bytes: int  # of snapshots that go
    swept: Swept
    executed: bool
    left_out: LeftOut
    seconds: float
