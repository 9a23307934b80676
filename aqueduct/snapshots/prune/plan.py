"""The plan of a prune: which snapshots stay, and in which order the others go."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aqueduct.snapshots.prune.policy import Dated, KeepPolicy


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What a prune needs to know of a snapshot."""

    number: int
    time: int  # when it was made, in milliseconds since 1970
    base: int  # the full manifest that it is read from, itself if it is one
    doubtful: str = ""  # why its time is in doubt: it stays, and takes no place that a policy gives


@dataclass(frozen=True, kw_only=True)
class PrunePlan:
    """Which snapshots stay, and which go."""

    stay: Mapping[int, str]  # why, by number, ascending
    go: tuple[int, ...]  # ascending
    rounds: tuple[tuple[int, ...], ...]  # what goes, in this order; of one round, in any
    leased: tuple[int, ...]  # of what stays, what only restores keep
    doubtful: tuple[int, ...] = ()  # of what stays, what does so because its time is in doubt


def plan(snapshots: Sequence[Pruned], keep: KeepPolicy, leased: Mapping[int, Collection[str]]) -> PrunePlan:
    """Plan a prune of these snapshots, all whole, in the order of their numbers.

    `leased`: ids of restores that use a snapshot, by its number.
    """
    by_number = {snapshot.number: snapshot for snapshot in snapshots}
    kept = keep.keeps(
        [Dated(snapshot.number, snapshot.time) for snapshot in snapshots if not snapshot.doubtful]
    )
    for snapshot in snapshots:
        if snapshot.doubtful:
            kept[snapshot.number] = [snapshot.doubtful]
    by_policy = _with_chains(by_number, kept)
    used = {
        number: [f"{_reader(restore_id)} read it within 3 hours" for restore_id in sorted(restores)]
        for number, restores in leased.items()
        if number in by_number
    }
    stay = _with_chains(
        by_number, {number: kept.get(number, []) + used.get(number, []) for number in kept | used}
    )
    go = tuple(number for number in by_number if number not in stay)
    return PrunePlan(
        stay={number: stay[number] for number in by_number if number in stay},
        go=go,
        rounds=_rounds(by_number, go),
        leased=tuple(number for number in by_number if number in stay and number not in by_policy),
        doubtful=tuple(snapshot.number for snapshot in snapshots if snapshot.doubtful),
    )


def _reader(lease: str) -> str:
    """Return what sentences call it; whether it has ended, a lease does not tell."""
    return lease.replace("-", " ", 1) if lease.startswith("export-") else f"restore {lease}"


def _with_chains(by_number: Mapping[int, Pruned], reasons: Mapping[int, Iterable[str]]) -> dict[int, str]:
    """Return what stays, and why: what is kept, and what it builds on."""
    stay = {number: ", ".join(whys) for number, whys in reasons.items()}
    for number in sorted(reasons):
        for below in range(by_number[number].base, number):
            stay.setdefault(below, f"{number} builds on it")
    return stay


def _rounds(by_number: Mapping[int, Pruned], go: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Return what goes from the end of each chain on.

    What is there builds on the one before it, down to its base. So the newest of each chain goes first, then
    the one before that: whatever stops this in between, all that is left is whole.
    """
    chains: dict[int, list[int]] = {}
    for number in go:
        chains.setdefault(by_number[number].base, []).append(number)
    longest = max(map(len, chains.values()), default=0)
    return tuple(
        tuple(chain[-1 - depth] for chain in chains.values() if depth < len(chain))
        for depth in range(longest)
    )
