"""Comparison of the repair plan that an operator read with the plan of the confirmed run. Pure.

Allowed differences: fewer partitions to repair, as after an interrupted run, and longer logs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Refused
from aqueduct.recovery.broker_ids.disk_logs import Folder
from aqueduct.recovery.broker_ids.plan import RepairPlan


class RepairPlanUnreadable(Refused):
    """The error of a stored plan that cannot be read."""

    id = "repair-plan-unreadable"


class RepairPlanChanged(Refused):
    """The error of a confirmed run whose plan differs from the plan that the operator read."""

    id = "repair-plan-changed"


@dataclass(frozen=True, kw_only=True)
class ReadRepair:
    """The repairs and losses of a plan, as the file of the plan lists them."""

    cluster: str
    changed: tuple[str, ...]
    partitions: tuple[str, ...]  # all listed ones: an interrupted run can change the reason
    empty: tuple[str, ...]
    damaged: tuple[str, ...]
    lost_folders: tuple[str, ...]
    furthest: Mapping[str, tuple[int, int]]  # by partition: epoch and end of the longest log


def read_repair(cluster_id: str, repair: RepairPlan, hosts: Mapping[str, Sequence[Folder]]) -> ReadRepair:
    listed = {*repair.move, *repair.lead, *repair.stopped, *repair.unseen, *repair.empty}
    listed |= {log.partition for _, log in repair.damaged}
    furthest: dict[TopicPartition, tuple[int, int]] = {}
    for log in (log for folders in hosts.values() for folder in folders for log in folder.logs):
        if log.partition in listed:
            furthest[log.partition] = max(log.epoch_and_end, furthest.get(log.partition, log.epoch_and_end))
    return ReadRepair(
        cluster=cluster_id,
        changed=tuple(
            f"{moved.host} was broker {moved.before} and is {moved.now}" for moved in repair.changed
        ),
        partitions=_names(listed),
        empty=_names(repair.empty),
        damaged=tuple(sorted({f"{log.partition} on broker {node}" for node, log in repair.damaged})),
        lost_folders=repair.lost_folders,
        furthest={str(partition): far for partition, far in sorted(furthest.items())},
    )


def changes(read: ReadRepair, now: ReadRepair, lead: Sequence[TopicPartition]) -> list[str]:
    """Return a sentence for each change that the read plan does not contain; empty if there is none.

    `lead`: the partitions for which the current plan elects leaders.
    """
    if now.cluster != read.cluster:
        return [
            (
                f"The plan that was read belongs to cluster {read.cluster}, but this plan belongs to cluster "
                f"{now.cluster}."
            )
        ]
    kinds = {
        "A changed broker id": (read.changed, now.changed),
        "A partition to repair": (read.partitions, now.partitions),
        "A partition without a log": (read.empty, now.empty),
        "A damaged log": (read.damaged, now.damaged),
        "A lost folder": (read.lost_folders, now.lost_folders),
    }
    reasons = [
        f"{kind} is new since the plan was read: {some(new)}."
        for kind, (before, after) in kinds.items()
        if (new := sorted(set(after) - set(before)))
    ]
    shorter = [
        name
        for name in _names(lead)
        if name in read.furthest and now.furthest.get(name, (-1, 0)) < read.furthest[name]
    ]
    if shorter:
        reasons.append(f"The logs of {some(shorter)} are shorter than when the plan was read.")
    return reasons


def _names(partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    return tuple(map(str, sorted(partitions)))
