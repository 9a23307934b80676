"""Exports a snapshot. Each task writes files and then a list of them; the driver finally writes _export.json.

The target folder is the only state: the same order resumes after an interruption, and writes nothing twice.
"""

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from operator import attrgetter

from aqueduct import DISTRIBUTION
from aqueduct.common.wording import count, some
from aqueduct.errors import Failed, Refused
from aqueduct.land import registry
from aqueduct.land.declaration import LandTable
from aqueduct.snapshots.backup.verify import verify_segments
from aqueduct.snapshots.export import files, plan, rows, state
from aqueduct.snapshots.export.order import ExportOrder
from aqueduct.snapshots.export.outcome import ExportOutcome
from aqueduct.snapshots.export.plan import ExportShare
from aqueduct.snapshots.export.state import (
    Counts,
    ExpiredRange,
    ExportDone,
    ExportedFile,
    ExportIdentity,
    MissingRange,
    ShareDone,
)
from aqueduct.snapshots.export.task import BYTES, export_share
from aqueduct.snapshots.restore import report as restore_report
from aqueduct.snapshots.restore.plan import RestorePlan
from aqueduct.snapshots.restore.plan import plan as restore_plan
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.catalog import Catalog, check_not_removed
from aqueduct.store.keyring import Keyring
from aqueduct.store.leases import leased
from aqueduct.store.objects import EditableObjects, Objects
from aqueduct.store.segments import lend
from aqueduct.store.url import parse
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.phases import Phases
from aqueduct.work.progress import note
from aqueduct.work.workers import Workers

AT_ONCE = 16  # small objects that are read or written at the same time


@dataclass(frozen=True, kw_only=True)
class _Job:
    """An order, with the state of store and target when the run began."""

    order: ExportOrder
    source: Objects
    target: EditableObjects
    keys: Keyring
    identity: ExportIdentity
    plan: RestorePlan
    tables: Mapping[str, LandTable]  # by topic
    shares: Sequence[ExportShare]
    made: Set[int]  # numbers of the shares that earlier runs have written
    ended: ExportDone | None  # by an earlier run; None: not complete

    @property
    def todo(self) -> list[ExportShare]:
        return [share for share in self.shares if share.number not in self.made]


def main(order: ExportOrder, workers: Workers) -> ExportOutcome:
    """Run an export. Refused before anything is written; Failed before or in the middle."""
    clock = Phases()
    with clock.phase("plan"):
        job = _prepare(order)
        note(f"Export: {restore_report.summary(job.plan)}")
    ended = job.ended
    if ended:
        with clock.phase("recount"):
            _check_files(job.target, ended.files)
            state.tidy(job.target)
    else:
        name = f"export-{hashlib.sha256(repr(job.identity).encode()).hexdigest()[:16]}"
        with leased(job.source, job.identity.snapshot, name, _say):
            written = _write(job, workers, clock)
        with clock.phase("recount"):
            ended = _add_up(job, written)
            _check_files(job.target, ended.files)
            state.end(job.target, ended)
    return ExportOutcome(
        url=job.target.url,
        plan=job.plan,
        done=ended,
        tables={topic: table.full_name for topic, table in job.tables.items()},
        before=job.ended is not None,
        written=0 if job.ended else len(job.todo),
        shares=len(job.shares),
        seconds=clock.seconds,
    )


def _prepare(order: ExportOrder) -> _Job:
    """Select the snapshot and its records, and read the progress of earlier runs."""
    _check_places(order)
    source, target = open_store(order.store), open_editable(order.to)
    keys = Keyring(source, order.private_keys)
    catalog = Catalog.open(source, order.trust, keys)
    begun, ended = state.begun(target), state.done(target)
    number = order.snapshot or (begun.snapshot if begun else None)
    try:
        snapshot = catalog.snapshot(number, order.at_least)
    except Refused as error:
        if number == order.snapshot:
            raise
        raise Refused(
            error.id,
            f"{error} The export in {target.url} began with this snapshot. Pass another folder with --to.",
        ) from None
    selection = restore_plan(snapshot, order.request)
    plan.check_names(selection.topics)
    tables = plan.by_topic(order.tables, selection.topics)
    for sentence in plan.idle(order.tables, snapshot.topics):
        _say(sentence)
    identity = _identity(order, catalog.id, selection, plan.digest(tables))
    if begun:
        state.check_same(target, begun, identity, ended=ended is not None)
    lend(keys, (segment for lane in selection.lanes for segment in lane.segments), order.store)
    shares = plan.shares(order, selection, tables)
    made = state.shares_done(target) if begun and not ended else set[int]()
    return _Job(
        order=order,
        source=source,
        target=target,
        keys=keys,
        identity=identity,
        plan=selection,
        tables=tables,
        shares=shares,
        made=made,
        ended=ended,
    )


def _write(job: _Job, workers: Workers, clock: Phases) -> list[ShareDone]:
    """Write the shares that no earlier run has written; return the results of all shares."""
    todo = job.todo
    if not job.order.skip_verify:
        with clock.phase("verify"):
            _check_objects(job, workers)
    for of in {table.registry for table in job.tables.values() if table.registry}:
        registry.check(of)
    state.begin(job.target, job.identity)
    with clock.phase("records"):
        work = Work(Verb.EXPORT, sum(share.unpacked_bytes for share in todo), len(todo))
        shares_done = workers.parallel(work)(export_share, todo, BYTES)
        written = {share.number: share_done for share, share_done in zip(todo, shares_done, strict=True)}

        def done(share: ExportShare) -> ShareDone:
            return written.get(share.number) or state.share_done(job.target, share.number)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(done, job.shares))


def _check_places(order: ExportOrder) -> None:
    """Refuse a target folder inside the store, or a store inside the target folder."""
    store, to = parse(order.store), parse(order.to)
    parts = [f"{location.path.strip('/')}/".lstrip("/") for location in (store, to)]
    same = (store.scheme, store.bucket) == (to.scheme, to.bucket)
    if same and (parts[0].startswith(parts[1]) or parts[1].startswith(parts[0])):
        raise Refused(
            "folder-inside-store",
            f"One of --to {to} and --store {store} is inside the other. Pass a folder outside the store with "
            "--to.",
        )


def _identity(order: ExportOrder, store: str, selection: RestorePlan, declarations: str) -> ExportIdentity:
    request = order.request
    return ExportIdentity(
        format=state.FORMAT,
        store=store,
        snapshot=selection.snapshot,
        topics=tuple(sorted(old for old, _ in request.names)),
        instance=request.instance,
        from_time=request.window.first_time,
        to_time=request.window.last_time,
        files=order.format,
        declarations=declarations,
        made_by=f"aqueduct {version(DISTRIBUTION)}, pyarrow {version('pyarrow')}",
        expired=sum(map(selection.expired, selection.topics)),
    )


def _check_objects(job: _Job, workers: Workers) -> None:
    """Check the stored objects that the export reads; Failed if one is damaged."""
    segments = [segment for share in job.todo for part in share.parts for segment in part.segments]
    faults = verify_segments(job.order.store, segments, workers, whole=False)
    if faults:
        check_not_removed(job.source, job.plan.snapshot)
        raise Failed(
            faults[0].id,
            f"{count(len(faults), 'object')} of snapshot {job.plan.snapshot} cannot be used, so nothing was "
            f"exported: {some(map(attrgetter('why'), faults))}",
        )


def _add_up(job: _Job, written: Sequence[ShareDone]) -> ExportDone:
    """Add up the results of all shares; Failed if the sums differ from the snapshot."""
    counts = {lane.target: Counts(*lane.target) for lane in job.plan.lanes}
    made = [file for share in written for file in share.files]
    for part in (part for share in written for part in share.counts):
        counts[part.topic_partition] = counts[part.topic_partition].plus(part)
    sums: Counter[tuple[str, int, bool]] = Counter()
    for file in made:
        sums[file.topic, file.partition, file.bad] += file.records
    wrong = []
    for lane in job.plan.lanes:
        lane_counts = counts[lane.target]
        if lane_counts.all != lane.records:
            wrong.append(f"{lane} ({count(lane_counts.all, 'record')} of {lane.records:,} of the snapshot)")
        of_files = sums[*lane.target, False], sums[*lane.target, True]
        if of_files != (lane_counts.rows, lane_counts.bad):
            wrong.append(f"{lane} ({of_files[0]:,} rows and {of_files[1]:,} rejected records in its files)")
    if wrong:
        raise Failed(
            "export-count-mismatch",
            f"The exported records differ from the snapshot: {some(wrong)}. Export to another folder.",
        )
    return ExportDone(
        export=job.identity,
        files=(*made, *_write_empty(job, {file.topic for file in made if not file.bad})),
        counts=tuple(counts.values()),
        gaps=tuple(
            MissingRange(gap.topic, gap.partition, gap.start, gap.stop)
            for gap in job.plan.gaps
            if gap.expired is None
        ),
        left_out=tuple(unread for share in written for unread in share.left_out),
        expired=tuple(
            ExpiredRange(gap.topic, gap.partition, gap.start, gap.stop, gap.expired)
            for gap in job.plan.gaps
            if gap.expired is not None
        ),
    )


def _write_empty(job: _Job, written: Set[str]) -> list[ExportedFile]:
    """Write a file without rows for each topic without rows, so that readers find its columns."""
    format_ = job.order.format

    def write(topic: str) -> ExportedFile:
        path = state.empty_path(topic, format_)
        name = hashlib.sha256(topic.encode()).digest()
        content = files.empty(format_, rows.schema(job.tables.get(topic)), name)
        job.target.create(path, content)
        return ExportedFile(
            path, topic, 0, -1, -1, 0, len(content), hashlib.sha256(content).hexdigest(), bad=False
        )

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(write, sorted(job.plan.topics.keys() - written)))


def _check_files(target: EditableObjects, written: Iterable[ExportedFile]) -> None:
    """Compare the files in the target folder with those that were written; Failed if they differ."""
    sizes = {file.path: file.bytes for file in written}
    stored_sizes = {stored_file.path: stored_file.size for stored_file in target.list("")}
    wrong = [f"{path} (deleted)" for path in sorted(sizes.keys() - stored_sizes.keys())]
    wrong += [
        f"{path} ({stored_sizes[path]:,} bytes, not {size:,})"
        for path, size in sorted(sizes.items())
        if path in stored_sizes and stored_sizes[path] != size
    ]
    wrong += [
        f"{path} (not part of this export)"
        for path in sorted(stored_sizes.keys() - sizes.keys())
        if not path.startswith(f"{state.FOLDER}/") and path != state.DONE
    ]
    if wrong:
        raise Failed(
            "export-files-changed",
            f"The files in {target.url} differ from those that were exported: {some(wrong)}. Pass another "
            "folder with --to.",
        )


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
