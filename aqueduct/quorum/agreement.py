"""The plan that an operator has read, and what the plan of the confirmed run loses beside it. Pure.

Allowed differences: what brokers wrote between the two plans, and what an interrupted run has already done.
Refused: a loss that is not in the plan that was read, and other metadata.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aqueduct.quorum.plan import QuorumPlan, is_seed
from aqueduct.wording import some


@dataclass(frozen=True)
class ReadPlan:
    """What a plan said will not be as it was; its file has these fields."""

    cluster: str
    epoch: int  # of the metadata's last record
    end: int  # the offset after it
    losses: tuple[str, ...]
    furthest: Mapping[str, tuple[int, int]]  # by partition: epoch and end of the log that goes furthest


def read_plan(found: QuorumPlan) -> ReadPlan:
    return ReadPlan(
        cluster=found.metadata.cluster,
        epoch=found.metadata.end_epoch,
        end=found.metadata.end,
        losses=tuple(sorted(set(_losses(found)))),
        furthest={str(at): far for at, far in found.fit.furthest.items()},
    )


def changes(read: ReadPlan, now: QuorumPlan) -> list[str]:
    """Return why the plan of now is not the one that was read, a sentence each; empty if it loses no more."""
    found, made = [], read_plan(now)
    if made.cluster != read.cluster:
        found.append(
            f"The plan that was read is of the cluster {read.cluster}, and this one of {made.cluster}."
        )
    if (made.epoch, made.end) != (read.epoch, read.end) and not is_seed(now.metadata):
        found.append(
            f"The metadata end at offset {made.end:,} of epoch {made.epoch}; those of the plan that was read "
            f"end at {read.end:,} of {read.epoch}."
        )
    found += [f"New since: {loss}." for loss in made.losses if loss not in read.losses]
    if shorter := sorted(at for at, far in read.furthest.items() if made.furthest.get(at, (-1, 0)) < far):
        found.append(f"The logs of {some(shorter)} end before where they ended when the plan was read.")
    return found


def _losses(found: QuorumPlan) -> Iterator[str]:
    fit = found.fit
    for each in fit.unknown:
        for _, log in each.logs:
            of = f"{log.partition} (id {each.topic_id or 'none'})"
            yield f"{of} is not known, for {each.why} in the metadata"
    yield from (f"no broker has a log of {at}" for at in fit.empty)
    yield from (f"{log.folder} on {host} is damaged" for host, log in fit.damaged)
    yield from (f"the disks of broker {node} are lost" for node in fit.lost)
    yield from (f"{each} is lost" for each in fit.lost_folders)
    yield from (f"nobody looked at broker {node}" for node in fit.unseen)
