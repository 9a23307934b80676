"""The plan of a prune: which snapshots stay, and in which order the others go."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aqueduct.prune.policy import Dated, KeepPolicy


@dataclass(frozen=True)
class Pruned:
    """What a prune needs to know of a snapshot."""

    number: int
    time: int  # when it was made, in milliseconds since 1970
    base: int  # the full manifest that it is read from, itself if it is one
    doubtful: str = ""  # why its time is in doubt: it stays, and takes no place that a policy gives


@dataclass(frozen=True)
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
    there = {each.number: each for each in snapshots}
    kept = keep.keeps([Dated(each.number, each.time) for each in snapshots if not each.doubtful])
    for each in snapshots:
        if each.doubtful:
            kept[each.number] = [each.doubtful]
    by_policy = _with_chains(there, kept)
    used = {
        number: [f"{_reader(each)} read it within 3 hours" for each in sorted(restores)]
        for number, restores in leased.items()
        if number in there
    }
    stay = _with_chains(
        there, {number: kept.get(number, []) + used.get(number, []) for number in kept | used}
    )
    go = tuple(number for number in there if number not in stay)
    return PrunePlan(
        {number: stay[number] for number in there if number in stay},
        go,
        _rounds(there, go),
        tuple(number for number in there if number in stay and number not in by_policy),
        tuple(each.number for each in snapshots if each.doubtful),
    )


def _reader(lease: str) -> str:
    """Return what sentences call it; whether it has ended, a lease does not tell."""
    return lease.replace("-", " ", 1) if lease.startswith("export-") else f"restore {lease}"


def _with_chains(there: Mapping[int, Pruned], why: Mapping[int, Iterable[str]]) -> dict[int, str]:
    """Return what stays, and why: what is kept, and what it builds on."""
    stay = {number: ", ".join(whys) for number, whys in why.items()}
    for number in sorted(why):
        for below in range(there[number].base, number):
            stay.setdefault(below, f"{number} builds on it")
    return stay


def _rounds(there: Mapping[int, Pruned], go: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Return what goes from the end of each chain on.

    What is there builds on the one before it, down to its base. So the newest of each chain goes first, then
    the one before that: whatever stops this in between, all that is left is whole.
    """
    chains: dict[int, list[int]] = {}
    for number in go:
        chains.setdefault(there[number].base, []).append(number)
    longest = max(map(len, chains.values()), default=0)
    return tuple(
        tuple(chain[-1 - at] for chain in chains.values() if at < len(chain)) for at in range(longest)
    )
