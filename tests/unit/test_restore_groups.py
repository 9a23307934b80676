"""Offsets that wait for groups with members, in groups of the restore's own."""

from collections.abc import Iterable
from typing import Any

import pytest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import groups
from aqueduct.kafka.groups import CommittedOffsets
from aqueduct.snapshots.restore import progress
from aqueduct.snapshots.restore.groups import set_waiting
from aqueduct.snapshots.restore.outcome import Move

CLIENT: Any = None
WAITING = progress.waiting_group("r-1", "readers")


def waiting_move(partition: int) -> tuple[int, str]:
    move = Move(group="readers", topic="t", partition=partition, old=9, new=7, metadata="")
    return move.new, progress.dumps(move, "a group")


class Cluster:
    """The committed offsets of a cluster's groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, committed: dict[str, CommittedOffsets]) -> None:
        self.committed = committed
        monkeypatch.setattr(groups, "committed", self._committed)
        monkeypatch.setattr(groups, "commit", self._commit)
        monkeypatch.setattr(groups, "delete", self._delete)

    def _committed(self, _: Any, names: Iterable[str], unanswered: Any) -> dict[str, CommittedOffsets]:
        return {name: self.committed[name] for name in names}

    def _commit(self, _: Any, name: str, offsets: CommittedOffsets) -> None:
        self.committed[name] = {**self.committed.get(name, {}), **offsets}

    def _delete(self, _: Any, names: Iterable[str]) -> None:
        for name in names:
            del self.committed[name]


def test_waiting_offsets_are_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(
        monkeypatch, {WAITING: {TopicPartition("t", each): waiting_move(each) for each in (0, 1)}}
    )
    outcome = set_waiting(CLIENT, "r-1", ["readers"], ran=True)
    assert [(move.topic_partition, move.new) for move in outcome.moves] == [(("t", 0), 7), (("t", 1), 7)]
    assert outcome.waiting == ()
    assert cluster.committed == {"readers": {("t", 0): (7, ""), ("t", 1): (7, "")}}


@pytest.mark.parametrize("metadata", ["", "{}", '{"group":"readers"', "of another release"])
def test_unreadable_waiting_offset_is_listed_and_kept(metadata: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its group wait, too: set in each run, they would move the group back."""
    offsets = {TopicPartition("t", 0): waiting_move(0), TopicPartition("t", 1): (7, metadata)}
    cluster = Cluster(monkeypatch, {WAITING: offsets})
    outcome = set_waiting(CLIENT, "r-1", ["readers"], ran=True)
    assert outcome.moves == ()
    assert [(skipped.id, skipped.what) for skipped in outcome.waiting] == [
        ("waiting-offset-unreadable", "group readers, t-1")
    ]
    assert WAITING in outcome.waiting[0].why
    assert cluster.committed == {WAITING: offsets}
