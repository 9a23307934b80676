"""A table's log: commits follow each other, or it is said which does not."""

import re
from dataclasses import replace

import pytest
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.land import log
from aqueduct.land.log import AddedFile, Commit, NeverLanded, State, Step, replay

FILE = AddedFile(path="day=2013-01-01/1.orc", rows=10, bytes=100, sha256="ab", table=None)
BAD = AddedFile(path="1.orc", rows=1, bytes=50, sha256="cd", table="lake.flights_bad")
FIRST = Commit(
    number=1,
    kind="land",
    positions=Step({}, {"t": {"0": 11}}),
    added=(FILE, BAD),
    removed=(),
    bad=1,
    schema=1,
    created="2013-01-01T00:00:00+00:00",
    topic_ids={"t": "id"},
)
SECOND = replace(
    FIRST,
    number=2,
    positions=Step({"t": {"0": 11}}, {"t": {"0": 12}}),
    added=(replace(FILE, path="2.orc"),),
    bad=0,
)


def test_a_commit_is_read_as_it_was_written() -> None:
    assert log.loads(log.dumps(FIRST), 1, "there") == FIRST
    assert log.loads(log.dumps(replace(FIRST, definition=None)), 1, "there").definition is None
    described = replace(
        FIRST,
        definition=log.Definition(
            columns=(log.ColumnDefinition("a", "int", ""),), partition="day of a", bad="x.y", tombstones=False
        ),
    )
    assert log.loads(log.dumps(described), 1, "there") == described


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"null", log.dumps(FIRST)[:-1], log.dumps(FIRST).replace(b"11", b"1.5")]
)
def test_what_is_no_commit_is_named(data: bytes) -> None:
    with raises(Failed, "landing-log-damaged") as damaged:
        log.loads(data, 1, "there")
    assert "there" in str(damaged.value)


def test_a_commit_of_another_name_is_named() -> None:
    with raises(Failed, "landing-log-damaged") as damaged:
        log.loads(log.dumps(FIRST), 2, "there")
    assert "contains the commit 1" in str(damaged.value)


def test_what_commits_come_to() -> None:
    state = replay(State(), [FIRST, SECOND])
    assert state == replay(replay(State(), [FIRST]), [SECOND])
    assert (state.number, state.positions) == (2, {"t": {"0": 12}})
    assert set(state.live) == {"day=2013-01-01/1.orc", "2.orc"}
    assert set(state.bad) == {"1.orc"}
    still = Step(state.positions, state.positions)
    third = replace(SECOND, number=3, positions=still, added=(), removed=("2.orc",))
    assert set(replay(state, [third]).live) == {"day=2013-01-01/1.orc"}


def test_files_of_filtered_offsets_are_listed_separately() -> None:
    out = AddedFile(path="1-filtered.orc", rows=3, bytes=50, sha256="ef", table="lake.flights_filtered")
    state = replay(State(), [replace(FIRST, added=(FILE, out))])
    assert (set(state.live), set(state.bad), set(state.filtered)) == ({FILE.path}, set(), {out.path})
    assert out in state.files
    still = Step(state.positions, state.positions)
    taken = replace(SECOND, positions=still, added=(), removed=(out.path,))
    assert not replay(state, [taken]).filtered


def test_files_of_late_rows_are_apart() -> None:
    late = AddedFile(
        path="day=2013-01-01/1-late.orc", rows=3, bytes=50, sha256="ef", table="lake.flights_late"
    )
    landed = replace(FIRST, added=(FILE, late, replace(BAD, path="1-bad.orc")))
    state = replay(State(), [landed])
    assert (set(state.live), set(state.late), set(state.bad)) == ({FILE.path}, {late.path}, {"1-bad.orc"})
    assert state.files == landed.added
    still = Step(state.positions, state.positions)
    gone = replace(SECOND, positions=still, added=(), removed=(late.path,))
    assert replay(state, [gone]).files == (FILE, replace(BAD, path="1-bad.orc"))


def test_retention_gaps_are_known_until_reset_before_them() -> None:
    def gap(first: int, last: int) -> NeverLanded:
        return NeverLanded(topic="t", partition=0, first=first, last=last)

    state = replay(State(), [replace(FIRST, gaps=(gap(2, 4), gap(8, 9)))])
    state = replay(state, [replace(SECOND, gaps=(gap(10, 11),))])
    assert state.deleted == (gap(2, 4), gap(8, 11))
    back = replace(
        SECOND,
        number=3,
        kind=log.RESET,
        positions=Step(state.positions, {"t": {"0": 9}}),
        added=(),
        topic_ids={},
    )
    assert replay(state, [back]).deleted == (gap(2, 4), gap(8, 8))
    assert replay(state, [replace(back, topic_ids={"t": "another"})]).deleted == ()
    assert log.loads(log.dumps(replace(FIRST, gaps=(gap(2, 4),))), 1, "there").gaps == (gap(2, 4),)
    assert log.loads_checkpoint(log.dumps(state), f"{2:020d}.json", "there") == state


def test_unopened_batches_are_known_until_reset_before_them() -> None:
    def span(first: int, last: int) -> NeverLanded:
        return NeverLanded(topic="t", partition=0, first=first, last=last)

    landed = replace(FIRST, unopened=(span(2, 4),))
    state = replay(State(), [landed, replace(SECOND, unopened=(span(5, 11),))])
    assert state.unopened == (span(2, 11),)
    back = Step(state.positions, {"t": {"0": 9}})
    reset = replace(SECOND, number=3, kind=log.RESET, positions=back, added=(), topic_ids={})
    assert replay(state, [reset]).unopened == (span(2, 8),)
    assert replay(state, [replace(reset, topic_ids={"t": "another"})]).unopened == ()
    assert log.loads(log.dumps(landed), 1, "there") == landed
    assert log.loads_checkpoint(log.dumps(state), f"{2:020d}.json", "there") == state


def test_epochs_are_known_until_reset_moves_positions() -> None:
    state = replay(State(), [replace(FIRST, epochs={"t": {"0": 4}})])
    assert state.epochs == {"t": {"0": 4}}
    state = replay(state, [replace(SECOND, epochs={"t": {"0": 5}})])
    assert state.epochs == {"t": {"0": 5}}
    reset = replace(
        SECOND,
        number=3,
        kind=log.RESET,
        positions=Step(state.positions, state.positions),
        added=(),
        topic_ids={},
    )
    assert replay(state, [reset]).epochs == state.epochs
    moved = replace(reset, positions=Step(state.positions, {"t": {"0": 9}}))
    assert replay(state, [moved]).epochs == {"t": {}}
    assert log.loads_checkpoint(log.dumps(state), f"{2:020d}.json", "there") == state


def test_the_newest_commit_that_took_rows_is_known() -> None:
    state = replay(State(), [FIRST, SECOND])
    assert state.took_rows == 0
    still = Step(state.positions, state.positions)
    joined = replace(SECOND, number=3, kind="compact", positions=still, added=(), removed=("2.orc",))
    assert replay(state, [joined]).took_rows == 0
    for kind in ("reset", "replay"):
        gone = replay(state, [replace(joined, kind=kind)])
        assert gone.took_rows == 3
        assert log.loads_checkpoint(log.dumps(gone), f"{3:020d}.json", "there") == gone
        landed = replace(SECOND, number=4, positions=still, added=(replace(FILE, path="4.orc"),))
        assert replay(gone, [landed]).took_rows == 3


def test_a_field_that_is_absent_is_refused() -> None:
    """There is one format: a commit or checkpoint without a field is damaged."""
    described = replace(
        FIRST, definition=log.Definition(columns=(), partition="", bad="x.y", tombstones=False)
    )
    assert log.loads(log.dumps(described), 1, "there") == described
    state = replay(State(), [described])
    name = f"{1:020d}.json"
    assert log.loads_checkpoint(log.dumps(state), name, "there") == state
    for lacking in (b',"late":""', b',"gaps":[]'):
        with raises(Failed, "landing-log-damaged"):
            log.loads(log.dumps(described).replace(lacking, b""), 1, "there")
    with raises(Failed, "landing-checkpoint-damaged"):
        log.loads_checkpoint(log.dumps(state).replace(b',"took_rows":0', b""), name, "there")


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        (replace(SECOND, number=3), "commit 3 follows the commit 1 "),
        (replace(SECOND, positions=Step({"t": {"0": 10}}, {"t": {"0": 12}})), "commit 2 "),
        (replace(SECOND, added=(FILE,)), FILE.path),
        (replace(SECOND, removed=("3.orc",)), "3.orc"),
    ],
)
def test_what_does_not_follow_is_named(wrong: Commit, fact: str) -> None:
    with raises(Failed, "landing-log-damaged") as damaged:
        replay(State(), [FIRST, wrong])
    assert fact in str(damaged.value)


def test_a_commit_that_is_missing_is_named() -> None:
    names = [f"{number:020d}.json" for number in (1, 2, 4)]
    assert list(log.newer([], 0, "there")) == []
    assert list(log.newer(names[:2], 0, "there")) == [1, 2]
    assert list(log.newer([*names[1:2], "else.json"], 1, "there")) == [2]
    with raises(Failed, "landing-log-damaged") as damaged:
        log.newer(names, 0, "there")
    assert re.findall(r"\d+", str(damaged.value)) == ["3", "4"]
