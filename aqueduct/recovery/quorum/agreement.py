"""Comparison of the restore plan that an operator read with the plan of the confirmed run. Pure.

Allowed differences: records that brokers wrote between the two plans, and the steps of an interrupted run.
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
    """The error of a confirmed run whose plan differs from the plan that the operator read."""

    id = "quorum-plan-changed"


@dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """The metadata and the losses of a plan, as the file of the plan lists them."""

    cluster: str
    epoch: int  # of the metadata's last record
    end: int  # the offset after it
    losses: tuple[str, ...]
    furthest: Mapping[str, tuple[int, int]]  # by partition: epoch and end of the longest log


def read_plan(plan: QuorumPlan) -> ReadPlan:
    return ReadPlan(
        cluster=plan.metadata.cluster,
        epoch=plan.metadata.end_epoch,
        end=plan.metadata.end,
        losses=tuple(sorted(set(_losses(plan)))),
        furthest={str(partition): far for partition, far in plan.comparison.furthest.items()},
    )


def changes(read: ReadPlan, now: QuorumPlan) -> list[str]:
    """Return a sentence for each change that the read plan does not contain; empty if there is none."""
    reasons, made = [], read_plan(now)
    if made.cluster != read.cluster:
        reasons.append(
            f"The plan that was read belongs to cluster {read.cluster}, but this plan belongs to cluster "
            f"{made.cluster}."
        )
    if (made.epoch, made.end) != (read.epoch, read.end) and not is_seed(now.metadata):
        reasons.append(
            f"The metadata end at offset {made.end:,} of epoch {made.epoch}, but the metadata of the plan "
            f"that was read end at offset {read.end:,} of epoch {read.epoch}."
        )
    reasons += [f"New since the plan was read: {loss}." for loss in made.losses if loss not in read.losses]
    if shorter := sorted(
        partition for partition, far in read.furthest.items() if made.furthest.get(partition, (-1, 0)) < far
    ):
        reasons.append(f"The logs of {some(shorter)} are shorter than when the plan was read.")
    return reasons


def _losses(plan: QuorumPlan) -> Iterator[str]:
    comparison = plan.comparison
    for unknown in comparison.unknown:
        for _, log in unknown.logs:
            partition = f"{log.partition} (topic id {unknown.topic_id or 'none'})"
            yield f"{partition} is not known, because {unknown.why}"
    yield from (f"no broker has a log of {partition}" for partition in comparison.empty)
    yield from (f"{log.folder} on {host} is damaged" for host, log in comparison.damaged)
    yield from (f"the disks of broker {node} are lost" for node in comparison.lost)
    yield from (f"{folder} is lost" for folder in comparison.lost_folders)
    yield from (f"broker {node} was not inspected" for node in comparison.unseen)
