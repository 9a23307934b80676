"""Exports a snapshot: each task writes files and then what they are; the driver says last that it is whole.

The target is the only state: the same order goes on where a run was killed, and nothing is written twice.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from operator import attrgetter

from aqueduct.backup.verify import lend, verify_segments
from aqueduct.errors import Failed, Refused
from aqueduct.export import files, plan, rows, state
from aqueduct.export.order import ExportOrder
from aqueduct.export.outcome import ExportOutcome
from aqueduct.export.plan import ExportShare
from aqueduct.export.state import Counts, ExportDone, ExportedFile, ExportIdentity, MissingRange, ShareDone
from aqueduct.export.task import BYTES, export_share
from aqueduct.land import registry
from aqueduct.land.declaration import LandTable
from aqueduct.restore import report as restore_report
from aqueduct.restore.plan import RestorePlan
from aqueduct.restore.plan import plan as restore_plan
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.keyring import Keyring
from aqueduct.store.leases import leased
from aqueduct.store.objects import EditableObjects
from aqueduct.store.url import parse
from aqueduct.wording import count, some
from aqueduct.work.phases import Phases
from aqueduct.work.workers import Workers


def main(order: ExportOrder, workers: Workers) -> ExportOutcome:
    """Export, to the end. Refused or Failed before anything is written, or Failed in the middle."""
    clock = Phases()
    with clock.phase("plan"):
        _check_places(order)
        source, target = open_store(order.store), open_editable(order.to)
        keys = Keyring(source, order.private_keys)
        catalog = Catalog.open(source, order.trust, keys)
        there, ended = state.begun(target), state.done(target)
        number = order.snapshot or (there.snapshot if there else None)
        try:
            snapshot = catalog.snapshot(number, order.at_least)
        except Refused as error:
            if there is None or number == order.snapshot:
                raise
            raise Refused(
                f"{error} The export in {target.url} began with it: name another folder in --to."
            ) from None
        wanted = restore_plan(snapshot, order.request)
        plan.check_names(wanted.topics)
        tables = plan.by_topic(order.tables, wanted.topics)
        identity = _identity(order, catalog.id, snapshot.manifest.number)
        if there:
            state.check_same(target, there, identity, ended=ended is not None)
        shares = plan.shares(order, wanted, tables)
        _say(f"Export: {restore_report.summary(wanted)}")
    if ended:
        _check_files(target, ended.files)
        state.tidy(target)
        return _outcome(target.url, wanted, ended, tables, 0, shares, clock)
    made = state.shares_done(target) if there else set[int]()
    todo = [share for share in shares if share.number not in made]
    lend(keys, (segment for lane in wanted.lanes for segment in lane.segments), order.store)
    name = f"export-{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}"
    with leased(source, snapshot.manifest.number, name, _say):
        if not order.skip_verify:
            with clock.phase("verify"):
                _check_objects(order, wanted, todo, workers)
        for of in {table.registry for table in tables.values() if table.registry}:
            registry.check(of)
        state.begin(target, identity)
        with clock.phase("records"):
            work = sum(part.records for share in todo for part in share.parts)
            written = workers.parallel(work)(export_share, todo, BYTES)
        by_number = {share.number: each for share, each in zip(todo, written, strict=True)}
        whole = [
            by_number[share.number] if share.number in by_number else state.share_done(target, share.number)
            for share in shares
        ]
    with clock.phase("recount"):
        done = _joined(identity, wanted, whole)
        empty = _write_empty(target, order, wanted, tables, done)
        done = ExportDone(identity, (*done.files, *empty), done.counts, done.gaps, done.left_out)
        _check_files(target, done.files)
        state.end(target, done)
    return _outcome(target.url, wanted, done, tables, len(todo), shares, clock)


def _check_places(order: ExportOrder) -> None:
    """Refuse a target in the store, or around it."""
    store, to = parse(order.store), parse(order.to)
    parts = [f"{place.path.rstrip('/')}/" for place in (store, to)]
    same = (store.scheme, store.bucket) == (to.scheme, to.bucket)
    if same and (parts[0].startswith(parts[1]) or parts[1].startswith(parts[0])):
        raise Refused(
            f"--to {to} and --store {store} are in each other: name a folder for the export that is outside "
            "of the store."
        )


def _identity(order: ExportOrder, store: str, snapshot: int) -> ExportIdentity:
    request = order.request
    return ExportIdentity(
        state.FORMAT,
        store,
        snapshot,
        tuple(sorted(old for old, _ in request.names)),
        request.instance,
        request.window.first_time,
        request.window.last_time,
        order.format,
        plan.digest(order.tables),
        f"aqueduct {version('aqueduct')}, pyarrow {version('pyarrow')}",
    )


def _check_objects(
    order: ExportOrder, wanted: RestorePlan, todo: Iterable[ExportShare], workers: Workers
) -> None:
    """Check the objects that will be used; Failed if one isn't what was written."""
    segments = [segment for share in todo for part in share.parts for segment in part.segments]
    faults = verify_segments(order.store, segments, workers, whole=False)
    if faults:
        raise Failed(
            f"{count(len(faults), 'object')} of snapshot {wanted.snapshot} can't be used, so nothing was "
            f"exported: {some(map(attrgetter('why'), faults))}"
        )


def _joined(identity: ExportIdentity, wanted: RestorePlan, written: Iterable[ShareDone]) -> ExportDone:
    """Add up what was written; Failed where that is not what the snapshot says that there is."""
    counts = {lane.target: Counts(*lane.target) for lane in wanted.lanes}
    every = list(written)
    for share in every:
        for part in share.counts:
            counts[part.topic_partition] = counts[part.topic_partition].plus(part)
    wrong = [
        f"{lane} ({count(counts[lane.target].all, 'record')} of {lane.records:,} of the snapshot)"
        for lane in wanted.lanes
        if counts[lane.target].all != lane.records
    ]
    made = [file for share in every for file in share.files]
    sums: dict[tuple[str, int, bool], int] = {}
    for file in made:
        key = file.topic, file.partition, file.bad
        sums[key] = sums.get(key, 0) + file.records
    for lane in wanted.lanes:
        found = counts[lane.target]
        of_files = sums.get((*lane.target, False), 0), sums.get((*lane.target, True), 0)
        if of_files != (found.rows, found.bad):
            wrong.append(f"{lane} (its files have {of_files[0]:,} and {of_files[1]:,} bad of {found.rows:,})")
    if wrong:
        raise Failed(f"What was written is not what the snapshot has: {some(wrong)}.")
    return ExportDone(
        identity,
        tuple(made),
        tuple(counts.values()),
        tuple(MissingRange(each.topic, each.partition, each.start, each.stop) for each in wanted.gaps),
        tuple(each for share in every for each in share.left_out),
    )


def _write_empty(
    target: EditableObjects,
    order: ExportOrder,
    wanted: RestorePlan,
    tables: Mapping[str, LandTable],
    done: ExportDone,
) -> Iterator[ExportedFile]:
    """Write a file for each topic without rows, so that a reader finds its columns, and no record."""
    for topic in wanted.topics.keys() - {file.topic for file in done.files if not file.bad}:
        path = state.empty_path(topic, order.format)
        data = files.empty(
            order.format, rows.schema(tables.get(topic)), hashlib.sha256(topic.encode()).digest()
        )
        target.create(path, data)
        yield ExportedFile(path, topic, 0, -1, -1, 0, len(data), hashlib.sha256(data).hexdigest(), bad=False)


def _check_files(target: EditableObjects, written: Iterable[ExportedFile]) -> None:
    """Look again at what is there; Failed if it isn't what was written."""
    sizes = {file.path: file.bytes for file in written}
    there = {each.path: each.size for each in target.list("")}
    wrong = [f"{path} (is gone)" for path in sorted(sizes.keys() - there.keys())]
    wrong += [
        f"{path} ({there[path]:,} bytes, not {size:,})"
        for path, size in sorted(sizes.items())
        if path in there and there[path] != size
    ]
    wrong += [
        f"{path} (is none of this export's)"
        for path in sorted(there.keys() - sizes.keys())
        if not path.startswith(f"{state.FOLDER}/") and path != state.DONE
    ]
    if wrong:
        raise Failed(
            f"What is in {target.url} is not what was exported: {some(wrong)}. Remove the folder and run "
            "this again."
        )


def _outcome(
    url: str,
    wanted: RestorePlan,
    done: ExportDone,
    tables: Mapping[str, LandTable],
    written: int,
    shares: list[ExportShare],
    clock: Phases,
) -> ExportOutcome:
    before = not written and "records" not in clock.seconds
    names = {topic: table.full_name for topic, table in tables.items()}
    return ExportOutcome(url, wanted, done, names, before, written, len(shares), clock.seconds)


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
