"""The plan that an operator has read, and what the plan of the confirmed run loses beside it. Pure.

Allowed differences: what brokers wrote between the two plans, and what an interrupted run has already done.
Refused: a loss that is not in the plan that was read, and other metadata.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aqueduct.common.wording import some
from aqueduct.errors import Refused
from aqueduct.recovery.quorum.plan import QuorumPlan, is_seed


class QuorumPlanUnreadable(Refused):
    """The error of a stored plan that cannot be read."""

    id = "quorum-plan-unreadable"


class QuorumPlanChanged(Refused):
    """The error of a confirmed run whose plan is not the one that was read."""

    id = "quorum-plan-changed"


@dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """What a plan said will not be as it was; its file has these fields."""

    cluster: str
    epoch: int  # of the metadata's last record
    end: int  # the offset after it
    losses: tuple[str, ...]
    furthest: Mapping[str, tuple[int, int]]  # by partition: epoch and end of the log that goes furthest


def read_plan(plan: QuorumPlan) -> ReadPlan:
    return ReadPlan(
        cluster=plan.metadata.cluster,
        epoch=plan.metadata.end_epoch,
        end=plan.metadata.end,
        losses=tuple(sorted(set(_losses(plan)))),
        furthest={str(partition): far for partition, far in plan.fit.furthest.items()},
    )


def changes(read: ReadPlan, now: QuorumPlan) -> list[str]:
    """Return why the plan of now is not the one that was read, a sentence each; empty if it loses no more."""
    reasons, made = [], read_plan(now)
    if made.cluster != read.cluster:
        reasons.append(
            f"The plan that was read is of the cluster {read.cluster}, and this one of {made.cluster}."
        )
    if (made.epoch, made.end) != (read.epoch, read.end) and not is_seed(now.metadata):
        reasons.append(
            f"The metadata end at offset {made.end:,} of epoch {made.epoch}; those of the plan that was read "
            f"end at {read.end:,} of {read.epoch}."
        )
    reasons += [f"New since: {loss}." for loss in made.losses if loss not in read.losses]
    if shorter := sorted(
        partition for partition, far in read.furthest.items() if made.furthest.get(partition, (-1, 0)) < far
    ):
        reasons.append(f"The logs of {some(shorter)} end before where they ended when the plan was read.")
    return reasons


def _losses(plan: QuorumPlan) -> Iterator[str]:
    fit = plan.fit
    for unknown in fit.unknown:
        for _, log in unknown.logs:
            of = f"{log.partition} (id {unknown.topic_id or 'none'})"
            yield f"{of} is not known, for {unknown.why} in the metadata"
    yield from (f"no broker has a log of {partition}" for partition in fit.empty)
    yield from (f"{log.folder} on {host} is damaged" for host, log in fit.damaged)
    yield from (f"the disks of broker {node} are lost" for node in fit.lost)
    yield from (f"{folder} is lost" for folder in fit.lost_folders)
    yield from (f"nobody looked at broker {node}" for node in fit.unseen)
