"""Options of a restore that name something which does not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.batches.cutting import Window
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import METADATA_BYTES
from aqueduct.mirror import binding
from aqueduct.mirror.binding import Binding, Evidence, RestoredCopy, RestoreRange, SourceLog
from aqueduct.snapshots.restore import links, mirrors, report, rights
from aqueduct.snapshots.restore.order import FollowingMirror, RestoreOrder
from aqueduct.snapshots.restore.outcome import FlowRange, RestoreOutcome
from aqueduct.snapshots.restore.plan import RestoreLane, RestorePlan
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.manifest import StoredPartition

END = End("cluster", "b:9092")


class EmptyTarget:
    """A cluster that has no topic."""

    end = END

    def topics(self, names: object = None) -> dict[str, object]:
        return {}


def test_a_mirror_without_positions_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connect(*_: object) -> Iterator[EmptyTarget]:
        yield EmptyTarget()

    monkeypatch.setattr(mirrors, "connect", connect)
    order = RestoreOrder(
        end=END, store="file:///s", request=Request(), mirrors=(FollowingMirror("misspelt", END),)
    )
    job = SimpleNamespace(order=order, id="r")
    [skipped], ranges = mirrors.move(job, {}, None)  # type: ignore[arg-type]
    assert ranges == ()
    assert (skipped.id, skipped.what) == ("mirror-unknown", "mirror misspelt")
    assert "mm2-offsets.misspelt.internal" in skipped.why


def test_positions_without_topic_id_have_separate_note() -> None:
    notes = mirrors.MirrorNotes("t-0: it has read up to 9", "t-1: its position 4 was not bound")
    assert mirrors.MirrorNotes.parse(notes.dumps()) == notes
    assert mirrors.MirrorNotes().dumps() == ""
    assert mirrors.MirrorNotes.parse("") == mirrors.MirrorNotes()
    # Metadata that somebody else set.
    assert mirrors.MirrorNotes.parse("t-0: it has") == mirrors.MirrorNotes(ahead="t-0: it has")
    for other in ("[" * 200_000, '{"ahead": 1, "unbound": ""}', '{"ahead": ""}', "\ud800"):
        assert mirrors.MirrorNotes.parse(other) == mirrors.MirrorNotes(ahead=other)
    long = mirrors.MirrorNotes("x" * (METADATA_BYTES // 4), "y" * (METADATA_BYTES // 4))
    assert len(long.dumps().encode()) < METADATA_BYTES


def test_unbound_position_is_not_reported_as_ahead() -> None:
    log = SourceLog(topic_id="new", start=0, end=0, stable_end=0, epoch=0)
    lane = RestoreLane(
        stored_partition=StoredPartition("t", 1, 0), topic="t", stop=10, segments=(), skipped=()
    )
    copy = RestoredCopy("old", 10, 10)

    def notes(bound: Binding | None) -> mirrors.MirrorNotes:
        found = mirrors.judged(7, bound, log, Evidence(), "old")
        moved = mirrors.continued(found, lane, 7, None, copy=copy, syncs=0, restore_id="r")
        return mirrors.MirrorNotes.of({lane.target: moved})

    assert notes(Binding(topic_id="old", next=7)) == mirrors.MirrorNotes()
    unknown = mirrors.judged(7, None, log, Evidence(), "old")
    kept = mirrors.continued(unknown, lane, 7, None, copy=copy, syncs=0, restore_id="r").binding.restored
    assert kept is not None
    assert [(each.kind, each.start, each.stop) for each in kept.ranges] == [("unbound", 7, 7)]
    unbound = notes(None)
    assert unbound.ahead == ""
    assert "its position 7 was not bound to a topic id" in unbound.unbound


def test_possible_duplicates_are_kept_until_accepted() -> None:
    """If the position in the topic of the backup is unknown, the mirror reads all restored records."""
    log = SourceLog(topic_id="new", start=0, end=3, stable_end=3, epoch=0)
    lane = RestoreLane(
        stored_partition=StoredPartition("t", 1, 0), topic="t", stop=10, segments=(), skipped=()
    )
    found = mirrors.judged(3, Binding(topic_id="new", next=3), log, Evidence(), "old")

    def moved(end: int) -> Binding:
        copy = RestoredCopy("old", 10, end)
        return mirrors.continued(found, lane, None, None, copy=copy, syncs=0, restore_id="r").binding

    assert (moved(13).next, moved(13).doubled) == (3, ((3, 13),))
    assert moved(3).doubled == ()


def test_mirror_ahead_of_cut_log_reads_restored_records() -> None:
    log = SourceLog(topic_id="t", start=0, end=20, stable_end=20, epoch=0)
    lane = RestoreLane(
        stored_partition=StoredPartition("t", 1, 0), topic="t", stop=50, segments=(), skipped=()
    )
    found = mirrors.judged(40, Binding(topic_id="t", next=40), log, Evidence(), "t")
    assert (found.began_at, found.in_backup) == (20, 40)
    # The record that the backup has at 40 is at 30 now; from there on the mirror has read none.
    moved = mirrors.continued(found, lane, 30, None, copy=RestoredCopy("t", 50, 40), syncs=0, restore_id="r")
    assert (moved.next, moved.notes) == (30, [])


def test_report_of_any_run_lists_all_mirror_ranges() -> None:
    """The sentence lists five partitions; bindings keep the ranges of all."""
    lanes = [
        RestoreLane(
            stored_partition=StoredPartition("t", 1, each), topic="t", stop=10, segments=(), skipped=()
        )
        for each in range(9)
    ]
    moved = {}
    for lane in lanes:
        log = SourceLog(topic_id="new", start=0, end=3, stable_end=3, epoch=0)
        found = mirrors.judged(12, Binding(topic_id="old", next=12), log, Evidence(), "old")
        copy = RestoredCopy("old", 10, 13)
        moved[lane.target] = mirrors.continued(found, lane, 13, 5, copy=copy, syncs=0, restore_id="r")
    said = mirrors.MirrorNotes.of(moved).ahead
    assert "t-1" in said
    assert "t-8" not in said
    assert "more" in said
    assert "--report" in said

    kept = {binding.key(each): binding.dumps(of.binding) for each, of in moved.items()}
    listed = list(mirrors.ranges_of("m", "r", binding.parse_bindings(kept)))
    plan = RestorePlan(snapshot=1, window=Window(), topics={}, lanes=(), gaps=(), skipped=())
    entries = report.report(RestoreOutcome(restore_id="r", plan=plan, ranges=tuple(listed)))["ranges"]
    assert [
        (each["flow"], each["topic"], each["partition"], each["kind"], each["from"], each["to"], each["log"])
        for each in entries
    ] == [
        ("mirror m", "t", number, *span)
        for number in range(9)
        for span in (("doubled", 5, 13, "topic"), ("ahead", 10, 12, "backup"))
    ]
    assert list(mirrors.ranges_of("m", "another", binding.parse_bindings(kept))) == []


def test_notes_are_cut_between_partitions() -> None:
    """The metadata of a group hold few long names; the rest is counted."""
    lane = RestoreLane(
        stored_partition=StoredPartition("t" * 240, 1, 0), topic="t" * 240, stop=10, segments=(), skipped=()
    )
    log = SourceLog(topic_id="new", start=0, end=0, stable_end=0, epoch=0)
    found = mirrors.judged(12, Binding(topic_id="old", next=12), log, Evidence(), "old")
    copy = RestoredCopy("old", 10, 10)
    moved = mirrors.continued(found, lane, 10, None, copy=copy, syncs=0, restore_id="r")
    partitions = [TopicPartition("t" * 240, number) for number in range(6)]
    notes = mirrors.MirrorNotes.of(dict.fromkeys(partitions, moved))
    assert len(notes.dumps().encode()) < METADATA_BYTES
    assert "more" in notes.ahead
    assert notes.ahead.endswith("(--report lists all of them)")


def test_report_lists_all_ranges_of_link() -> None:
    ranges = [
        FlowRange(
            "link g",
            TopicPartition("t", number),
            RestoreRange(kind="doubled", start=3, stop=10, log="backup", at_most=True),
        )
        for number in range(8)
    ]
    [skipped] = links.skipped("g", ranges)
    assert (skipped.id, "--report" in skipped.why, "t-7" in skipped.why) == (
        "link-records-repeated",
        True,
        False,
    )
    plan = RestorePlan(snapshot=1, window=Window(), topics={}, lanes=(), gaps=(), skipped=())
    entries = report.report(RestoreOutcome(restore_id="r", plan=plan, ranges=tuple(ranges)))["ranges"]
    assert [each["partition"] for each in entries] == list(range(8))


def test_principals_without_acls_in_the_snapshot_are_reported() -> None:
    def acl(name: str) -> Acl:
        return Acl(principal=f"User:{name}", resource="topic", name="t", pattern="literal", operation="read")

    order = RestoreOrder(
        end=END,
        store="file:///s",
        request=Request(),
        acls_within=frozenset({acl("a")}),
        acls_of=frozenset({"b", "misspelt"}),
    )
    allowed, left_out = rights.allowed(order, frozenset({acl("a"), acl("b"), acl("c")}))
    assert allowed == {acl("a"), acl("b")}
    assert [(each.id, each.what) for each in left_out] == [
        ("acl-not-allowed", "1 ACL of User:c"),
        ("principal-unknown", "ACLs of User:misspelt"),
    ]
