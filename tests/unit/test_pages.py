"""The tables for people stay readable where topics have the longest names that Kafka allows."""

from kit.manifests import INSTANCE, MANIFEST, NAMES, SEGMENTS, TOPICS

from aqueduct.cli import mirror
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import COLUMNS
from aqueduct.kafka.batches.cutting import Window
from aqueduct.mirror.status import Log, MirrorProgress
from aqueduct.snapshots.backup import faults
from aqueduct.snapshots.backup import report as backup
from aqueduct.snapshots.restore import report as restore
from aqueduct.snapshots.restore.outcome import RestoreOutcome
from aqueduct.snapshots.restore.plan import RestoreLane, RestorePlan
from aqueduct.store.manifest import (
    StoredPartition,
)
from aqueduct.store.snapshots import Snapshot


def check(page: str, *endings: str) -> None:
    head, *rows = page.splitlines()[: 1 + len(endings)]
    assert head.startswith("topic ")
    assert all(len(line) <= COLUMNS for line in (head, *rows))
    for row, ending in zip(rows, endings, strict=True):
        assert row.startswith("aaaaaaaaaa")
        assert f"{ending}  " in row


def test_backup() -> None:
    check(backup.text(MANIFEST, 0, (), 1), ".one", ".two")


def test_verify() -> None:
    segments = {StoredPartition(each.topic, 99, 0): [each] for each in SEGMENTS}
    snapshot = Snapshot(
        manifest=MANIFEST, topics=dict(zip(NAMES, TOPICS, strict=True)), segments=segments, gaps={}
    )
    check(faults.text(snapshot, (), 1), ".one", ".two")


def test_restore() -> None:
    for new in ("", ".new"):
        names = [name[len(new) :] + new for name in NAMES]
        topics = {name: (topic, INSTANCE) for name, topic in zip(names, TOPICS, strict=True)}
        lanes = (
            RestoreLane(
                stored_partition=StoredPartition(NAMES[n], 99, 0),
                topic=name,
                stop=10**9,
                segments=(SEGMENTS[n],),
                skipped=(),
            )
            for n, name in enumerate(names)
        )
        plan = RestorePlan(
            snapshot=1, window=Window(), topics=topics, lanes=tuple(lanes), gaps=(), skipped=()
        )
        page = restore.text(RestoreOutcome(restore_id="id", plan=plan, dry_run=True))
        check(page, *(name[-8:] for name in names))
        assert ("aaa.one g99 (PASSIVATE)" in page) == bool(new)


def test_mirror() -> None:
    progress = [
        MirrorProgress(partition=TopicPartition(name, 99_999), next=0, log=Log(0, 10**12), drained=False)
        for name in NAMES
    ]
    check(mirror._table(progress), ".one", ".two")
