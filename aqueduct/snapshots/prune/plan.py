"""The plan of a prune: which snapshots stay, and in which order the others are removed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aqueduct.snapshots.prune.policy import Dated, KeepPolicy


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A snapshot, as a prune considers it."""

    number: int
    time: int  # when it was created, in milliseconds since 1970
    base: int  # the full manifest that it builds on; its own number, if it is full
    doubtful: str = ""  # why its time is doubtful: it then stays, and does not count for the policy


@dataclass(frozen=True, kw_only=True)
class PrunePlan:
    """The snapshots that stay, and the ones that are removed."""

    stay: Mapping[int, str]  # the reason, by number, ascending
    go: tuple[int, ...]  # to be removed, ascending
    rounds: tuple[tuple[int, ...], ...]  # `go` in the order of removal; within a round, in any order
    leased: tuple[int, ...]  # those that stay only because of a restore or an export
    doubtful: tuple[int, ...] = ()  # those that stay because their time is doubtful


def plan(snapshots: Sequence[Pruned], keep: KeepPolicy, leased: Mapping[int, Collection[str]]) -> PrunePlan:
    """Plan a prune of these undamaged snapshots, in the order of their numbers.

    `leased`: ids of the restores and exports that use a snapshot, by its number.
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
        number: [f"{_reader(restore_id)} read it in the last 3 hours" for restore_id in sorted(restores)]
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
    """Return the name of a lease's owner in sentences. A lease does not show whether the owner has ended."""
    return lease.replace("-", " ", 1) if lease.startswith("export-") else f"restore {lease}"


def _with_chains(by_number: Mapping[int, Pruned], reasons: Mapping[int, Iterable[str]]) -> dict[int, str]:
    """Return the snapshots that stay, with the reason: the kept ones, and those that they build on."""
    stay = {number: ", ".join(whys) for number, whys in reasons.items()}
    for number in sorted(reasons):
        for below in range(by_number[number].base, number):
            stay.setdefault(below, f"snapshot {number} builds on it")
    return stay


def _rounds(by_number: Mapping[int, Pruned], go: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Return the snapshots to be removed, from the end of each chain on.

    Each snapshot builds on the one before it, down to its base. The newest of each chain is removed first,
    then the one before it. If the prune is interrupted, all remaining snapshots are still complete.
    """
    chains: dict[int, list[int]] = {}
    for number in go:
        chains.setdefault(by_number[number].base, []).append(number)
    longest = max(map(len, chains.values()), default=0)
    return tuple(
        tuple(chain[-1 - depth] for chain in chains.values() if depth < len(chain))
        for depth in range(longest)
    )
