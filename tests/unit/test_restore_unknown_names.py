"""Options of a restore that name something which does not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from aqueduct.kafka.acls import Acl
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import METADATA_BYTES
from aqueduct.mirror.binding import Binding, Evidence, RestoredCopy, SourceLog
from aqueduct.restore import mirrors, rights
from aqueduct.restore.order import FollowingMirror, RestoreOrder
from aqueduct.restore.plan import RestoreLane
from aqueduct.restore.request import Request
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
    order = RestoreOrder(END, "file:///s", Request(), mirrors=(FollowingMirror("misspelt", END),))
    job = SimpleNamespace(order=order, id="r")
    [skipped] = mirrors.move(job, {}, None)  # type: ignore[arg-type]
    assert (skipped.id, skipped.what) == ("mirror-unknown", "mirror misspelt")
    assert "mm2-offsets.misspelt.internal" in skipped.why


def test_positions_without_a_topic_id_have_a_note_of_their_own() -> None:
    notes = mirrors.MirrorNotes("t-0: it has read up to 9", "t-1: its position 4 was not bound")
    assert mirrors.MirrorNotes.parse(notes.dumps()) == notes
    assert mirrors.MirrorNotes().dumps() == ""
    assert mirrors.MirrorNotes.parse("") == mirrors.MirrorNotes()
    # What a former version kept.
    assert mirrors.MirrorNotes.parse("t-0: it has") == mirrors.MirrorNotes(ahead="t-0: it has")
    long = mirrors.MirrorNotes("x" * (METADATA_BYTES // 4), "y" * (METADATA_BYTES // 4))
    assert len(long.dumps().encode()) < METADATA_BYTES


def test_a_position_is_reported_as_unbound_and_not_as_ahead() -> None:
    log = SourceLog(topic_id="new", start=0, end=0, stable_end=0, epoch=0)
    lane = RestoreLane(StoredPartition("t", 1, 0), "t", 10, (), ())
    copy = RestoredCopy("old", 10, 10)

    def notes(bound: Binding | None) -> mirrors.MirrorNotes:
        found = mirrors.judged(7, bound, log, Evidence(), "old")
        return mirrors.MirrorNotes.of({lane.target: mirrors.continued(found, lane, 7, None, copy, 0)})

    assert notes(Binding(topic_id="old", next=7)) == mirrors.MirrorNotes()
    unbound = notes(None)
    assert unbound.ahead == ""
    assert "its position 7 was not bound to a topic id" in unbound.unbound


def test_what_may_arrive_twice_is_kept_until_it_is_accepted() -> None:
    """If the position in the topic of the backup is unknown, the mirror reads all restored records."""
    log = SourceLog(topic_id="new", start=0, end=3, stable_end=3, epoch=0)
    lane = RestoreLane(StoredPartition("t", 1, 0), "t", 10, (), ())
    found = mirrors.judged(3, Binding(topic_id="new", next=3), log, Evidence(), "old")
    moved = mirrors.continued(found, lane, None, None, RestoredCopy("old", 10, 13), 0)
    assert (moved.next, moved.binding.doubled) == (3, ((3, 13),))
    assert mirrors.continued(found, lane, None, None, RestoredCopy("old", 10, 3), 0).binding.doubled == ()


def test_principals_without_acls_in_the_snapshot_are_reported() -> None:
    def acl(name: str) -> Acl:
        return Acl(f"User:{name}", "topic", "t", "literal", "read")

    order = RestoreOrder(
        END,
        "file:///s",
        Request(),
        acls_within=frozenset({acl("a")}),
        acls_of=frozenset({"b", "misspelt"}),
    )
    allowed, left_out = rights.allowed(order, frozenset({acl("a"), acl("b"), acl("c")}))
    assert allowed == {acl("a"), acl("b")}
    assert [(each.id, each.what) for each in left_out] == [
        ("acl-not-allowed", "1 ACL of User:c"),
        ("principal-unknown", "ACLs of User:misspelt"),
    ]
