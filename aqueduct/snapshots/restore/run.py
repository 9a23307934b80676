"""Restores a snapshot: topics, records, consumer groups, settings; and ACLs and quotas, if requested.

All refusals happen before anything is written. Tasks write records and their progress in the same
transactions, so that the same order resumes an interrupted restore and writes no record twice.
"""

import sys
from collections.abc import Mapping

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import LeftOut
from aqueduct.snapshots.restore import (
    continuation,
    groups,
    links,
    mirrors,
    planning,
    records,
    recount,
    report,
    rights,
    task_rights,
    topics,
)
from aqueduct.snapshots.restore.job import Job, connected
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.outcome import FlowRange, RestoreOutcome, Rights, Warned, Written
from aqueduct.snapshots.restore.progress import TopicState
from aqueduct.store.backends import open_store
from aqueduct.store.leases import leased
from aqueduct.work.phases import Phases
from aqueduct.work.progress import note
from aqueduct.work.workers import Workers


def main(order: RestoreOrder, workers: Workers) -> RestoreOutcome:
    """Run a restore. Refused before anything is written; Failed before or in the middle.

    Failed, too, if the final check finds other records than those that were written.
    """
    clock = Phases()
    with clock.phase("plan"):
        job = planning.look(order)
        note(f"Restore {job.id}: {report.summary(job.plan)}")
        if not job.done:
            planning.check(job)
        mirrors.check_readable(job)
    if order.dry_run:
        return RestoreOutcome(
            restore_id=job.id,
            plan=job.plan,
            written=job.written,
            left_out=_left_out(job),
            dropped=job.dropped,
            seconds=clock.seconds,
            dry_run=True,
            before=job.done,
        )
    with leased(open_store(order.store), job.plan.snapshot, job.id, _say):
        return _restore(job, workers, clock)


def _left_out(job: Job) -> LeftOut:
    """Return the skipped items of the plan, which are known before anything is written."""
    unmatched = job.order.groups.unmatched(job.groups, "the snapshot") if job.order.groups else ()
    return (*job.plan.left_out, *report.dropped(job.dropped), *unmatched)


def _restore(job: Job, workers: Workers, clock: Phases) -> RestoreOutcome:
    order = job.order
    if not (job.done or order.skip_verify):
        with clock.phase("verify"):
            planning.check_objects(job, workers)
    states = dict(job.known)
    warnings: tuple[Warned, ...] = ()
    if job.unsettled or not job.done:
        with clock.phase("topics"):
            states, warnings = prepare(job)
    written = dict(job.written)
    stopped: tuple[str, ...] = ()
    ranges: tuple[FlowRange, ...] = ()
    recounted = None
    with task_rights.granted(job) as rights_left:
        if not job.done:
            with clock.phase("records"):
                written |= records.write(job, workers)
                recount.check(job, states, written, workers)  # before groups refer to these records
        left_out = [*_left_out(job), *records.left_out(written)]
        with clock.phase("groups"):
            moves, more = groups.restore(job, states, written, workers)
            left_out += more
        if order.mirrors:
            with clock.phase("mirrors"):
                more, ranges = mirrors.move(job, written, workers)
            left_out += more
        if order.links:
            with clock.phase("links"):
                stopped, more, of_links = links.move(job, written, workers)
            left_out += more
            ranges += of_links
        if not job.done:  # the last moment before retention and compaction may delete records again
            with clock.phase("recount"):
                recounted = recount.check(job, states, written, workers)
    left_out += rights_left
    with clock.phase("settings"):
        states, granted, more = settle(job, states, written)
        left_out += more
    return RestoreOutcome(
        restore_id=job.id,
        plan=job.plan,
        written=written,
        moves=moves,
        settled=job.unsettled,
        rights=granted,
        recount=recounted,
        held={name: state.held for name, state in states.items() if state.held},
        warnings=warnings + rights.warnings(granted),
        left_out=tuple(left_out),
        ranges=ranges,
        dropped=job.dropped,
        stopped=stopped,
        seconds=clock.seconds,
        before=job.done,
    )


def prepare(job: Job) -> tuple[dict[str, TopicState], tuple[Warned, ...]]:
    """Create the topics, and set them up for the restore; return their states, and warnings."""
    asked = job.order.settings
    with connected(job.order) as client:
        warnings = planning.doubled(job) + topics.create(client, job.plan, job.there, with_settings=asked)
        states = topics.hold_open(
            *(client, job.id, job.request, job.plan),
            continuation.origins(job.snapshot.manifest.store, job.plan),
            with_settings=asked,
            recheck=lambda new_states: planning.check_again(client, job, new_states),
        )
    return states, warnings


def settle(
    job: Job, states: dict[str, TopicState], written: Mapping[TopicPartition, Written]
) -> tuple[dict[str, TopicState], Rights | None, LeftOut]:
    """Set the topics' settings again, and ACLs and quotas, if requested."""
    order = job.order
    with connected(order) as client:
        now = timestamps.now()
        settled_states = topics.let_go(client, states, written, hold=not order.release_retention, now=now)
        if changed := {name: state for name, state in settled_states.items() if state != states[name]}:
            topics.remember(client, job.id, changed)
        if not order.acls:
            return settled_states, None, ()
        return settled_states, *rights.restore(client, order, job.snapshot)


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
