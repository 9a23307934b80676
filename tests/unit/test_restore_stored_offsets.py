"""Group offsets of a snapshot in a cluster that still has its records, without a cluster."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kit.identifiers import raises
from kit.restore_snapshot import SNAPSHOT, TOPIC

from aqueduct.errors import ExitCode, Refused
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.selection import GroupSelection
from aqueduct.snapshots.restore import groups_only
from aqueduct.snapshots.restore.groups_only import GroupsRestored
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.manifest import GroupOffset, StoredGroup

READERS = StoredGroup("readers", "consumer", (GroupOffset("t", 0, 5, ""),))
IDLE = StoredGroup("idle", "consumer", ())
OTHER = replace(TOPIC, name="other", topic_id="id2")

Restore = Callable[..., GroupsRestored]


class Target:
    """A cluster that has the snapshot's topics, and no group."""

    def topics(self, names: set[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(id=topic.topic_id) for name, topic in TOPICS.items() if name in names}


TOPICS = {"t": TOPIC, "other": OTHER}


@pytest.fixture
def restore(monkeypatch: pytest.MonkeyPatch) -> Restore:
    """Return a function that restores the offsets of a snapshot with these groups."""

    @contextmanager
    def connected(_: object) -> Iterator[Target]:
        yield Target()

    def run(*topics: str, pattern: str | None = None, groups: tuple[StoredGroup, ...]) -> GroupsRestored:
        snapshot = SimpleNamespace(manifest=replace(SNAPSHOT.manifest, groups=groups), topics=TOPICS)
        catalog = SimpleNamespace(snapshot=lambda *_: snapshot)
        monkeypatch.setattr(groups_only, "Catalog", SimpleNamespace(open=lambda *_: catalog))
        return groups_only.main(
            RestoreOrder(
                end=End("target", "b:9092"),
                store="file:///s",
                request=Request(names=tuple((name, name) for name in topics)),
                groups=GroupSelection(re.compile(pattern) if pattern else None),
            )
        )

    for name, stand_in in (
        ("open_store", lambda _: None),
        ("Keyring", lambda *_: None),
        ("connected", connected),
        ("positions", lambda *_: {}),
        ("set_positions", lambda *_: None),
        (
            "offsets",
            SimpleNamespace(
                log_starts=lambda _, partitions, __: dict.fromkeys(partitions, 0),
                ends=lambda _, partitions, unanswered: dict.fromkeys(partitions, 9),
            ),
        ),
    ):
        monkeypatch.setattr(groups_only, name, stand_in)
    return run


@pytest.mark.parametrize("topics", [(), ("t",)])
def test_groups_only_sets_missing_offsets(topics: tuple[str, ...], restore: Restore) -> None:
    outcome = restore(*topics, groups=(READERS, IDLE))
    assert [(move.group, move.topic_partition, move.new) for move in outcome.moves] == [
        ("readers", ("t", 0), 5)
    ]
    assert outcome.left_out == ()
    assert groups_only.exit_code(outcome) == ExitCode.DONE


@pytest.mark.parametrize("topics", [("ordres",), ("t", "ordres")])
def test_groups_only_refuses_topic_unknown_to_snapshot(topics: tuple[str, ...], restore: Restore) -> None:
    with raises(Refused, "snapshot-topic-unknown", "ordres"):
        restore(*topics, groups=(READERS,))


@pytest.mark.parametrize(
    ("topics", "pattern", "groups", "what"),
    [
        (("t", "other"), None, (READERS,), "group offsets of other"),
        (("other",), None, (READERS,), "group offsets of other"),
        (("t",), "idle", (READERS, IDLE), "group offsets of t"),
        ((), "idle", (READERS, IDLE), "group offsets"),
        ((), None, (), "group offsets"),
        (("t",), None, (), "group offsets of t"),
    ],
)
def test_groups_only_lists_topics_without_stored_offsets(
    topics: tuple[str, ...],
    pattern: str | None,
    groups: tuple[StoredGroup, ...],
    what: str,
    restore: Restore,
) -> None:
    outcome = restore(*topics, pattern=pattern, groups=groups)
    assert [(skipped.id, skipped.what) for skipped in outcome.left_out] == [
        ("snapshot-offsets-missing", what)
    ]
    assert groups_only.exit_code(outcome) == ExitCode.INCOMPLETE
