"""The judgement of a mirror's position after its topic was re-created, cut, or grew past it."""

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror import binding, positions
from aqueduct.mirror.binding import (
    Binding,
    EarlierPosition,
    Evidence,
    PositionFit,
    RestoredCopy,
    SourceLog,
    dumps,
    judge,
    key,
    parse_bindings,
    renewed,
)
from aqueduct.mirror.positions import OffsetSync

PARTITION = TopicPartition('fl"ights-of.day', 3)
BOUND = Binding(topic_id="a", next=50, epoch=4, syncs=7)


def log(end: int, *, topic: str = "a", start: int = 0, bound_epoch_end: int | None = None) -> SourceLog:
    return SourceLog(
        topic_id=topic, start=start, end=end, stable_end=end, epoch=5, bound_epoch_end=bound_epoch_end
    )


bindings = st.builds(
    Binding,
    topic_id=st.uuids().map(str),
    next=st.integers(0, 1 << 62),
    epoch=st.integers(-1, 1 << 30),
    syncs=st.integers(0, 1 << 62),
    earlier=st.lists(st.builds(EarlierPosition, st.uuids().map(str), st.integers(0, 9))).map(tuple),
    doubled=st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19))).map(tuple),
    copy=st.none() | st.builds(RestoredCopy, st.uuids().map(str), st.integers(0, 9), st.integers(0, 9)),
)


@given(bindings)
def test_a_binding_is_read_as_it_was_written(bound: Binding) -> None:
    others = {b'["MirrorSourceConnector",{"partition":3,"topic":"x"}]': b'{"offset":1}'}
    records = others | {binding.key(PARTITION): binding.dumps(bound)}
    assert binding.parse_bindings(records) == {PARTITION: bound}


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xff",
        b"3",
        b"{}",
        b"[" * 100_000,
        b'["a"]',
        b'["MirrorSourceConnector",7]',
        b'["MirrorSourceConnector",{"topic":"x"}]',
        b'["MirrorSourceConnector",{"topic":[],"partition":3}]',
        b'["MirrorSourceConnector",{"topic":"x","partition":"3"}]',
    ],
)
def test_malformed_position_keys_are_ignored(key: bytes) -> None:
    """Whoever may write to the topic of positions would stop each start of the mirror."""
    assert binding.parse_key(key) is None
    records = {key: b"anything", binding.key(PARTITION): binding.dumps(BOUND)}
    assert binding.parse_bindings(records) == {PARTITION: BOUND}


@pytest.mark.parametrize("value", [b"", b"\xff", b"null", b"[]", b"{}", b"[" * 100_000, b'{"next":"x"}'])
def test_a_value_that_is_no_binding_is_named(value: bytes) -> None:
    with pytest.raises(binding.UnreadableBinding) as refused:
        binding.parse_bindings({binding.key(PARTITION): value})
    assert refused.value.partition == PARTITION


@pytest.mark.parametrize("key", [b"\0", b"\0\1", b"\xff\xff\0\0\0\0", b"\0\1\xff\0\0\0\0", b"\0\1a\0\0\0"])
def test_malformed_offset_syncs_are_ignored(key: bytes) -> None:
    assert positions.parse_sync(key, bytes(16)) is None
    assert positions.parse_sync(b"\0\1a\0\0\0\3", bytes(8)) is None
    offsets = bytes(7) + b"\5" + bytes(7) + b"\7"
    assert positions.parse_sync(b"\0\1a\0\0\0\3", offsets) == (TopicPartition("a", 3), OffsetSync(5, 7))


@pytest.mark.parametrize(
    ("sync", "follows"),
    [
        ((49, 149), True),  # the last record before the check, whose sync came after it
        ((49, 150), False),  # mirrored again, after the records up to 49
        ((0, 150), False),
        ((0, 100), False),
    ],
)
def test_sync_of_mirrored_records_is_no_new_begin(sync: tuple[int, int], follows: bool) -> None:
    assert OffsetSync(*sync).follows(OffsetSync(0, 100)) is follows
    assert not OffsetSync(*sync).follows(None)


@pytest.mark.parametrize(
    ("at", "bound", "now", "began", "fit", "resume", "lost", "doubled"),
    [
        (50, None, log(50), None, PositionFit.FITS, None, None, None),
        (50, None, log(20), None, PositionFit.UNBOUND, 0, None, (0, 20)),
        (50, None, log(0), None, PositionFit.UNBOUND, 0, None, None),
        (70, BOUND, log(70), None, PositionFit.FITS, None, None, None),
        # Re-created: empty, shorter, past the position; read from its start, or from its middle.
        (70, BOUND, log(0, topic="b"), None, PositionFit.RECREATED, 0, None, None),
        (70, BOUND, log(20, topic="b"), None, PositionFit.RECREATED, 0, (0, 20), None),
        (50, BOUND, log(90, topic="b"), None, PositionFit.RECREATED, 0, (0, 50), None),
        (70, BOUND, log(90, topic="b"), None, PositionFit.RECREATED, 0, (0, 70), (50, 70)),
        (20, BOUND, log(90, topic="b"), 0, PositionFit.RECREATED, None, None, None),
        (25, BOUND, log(90, topic="b"), 20, PositionFit.RECREATED, 0, (0, 20), (20, 25)),
        (20, BOUND, log(90, topic="b"), None, PositionFit.RECREATED, 0, (0, 20), (0, 20)),
        # Cut: at the position, below it, and grown again.
        (70, BOUND, log(60, bound_epoch_end=60), None, PositionFit.CUT, 60, None, None),
        (70, BOUND, log(60, bound_epoch_end=55), None, PositionFit.CUT, 55, None, (55, 60)),
        (70, BOUND, log(60, bound_epoch_end=40), None, PositionFit.CUT, 40, None, None),
        (50, BOUND, log(90, bound_epoch_end=30), None, PositionFit.CUT, 30, (30, 50), None),
        (60, BOUND, log(90, bound_epoch_end=30), None, PositionFit.CUT, 30, (30, 50), (50, 60)),
        (60, BOUND, log(90, bound_epoch_end=30), 0, PositionFit.CUT, None, None, (0, 30)),
        (60, BOUND, log(90, bound_epoch_end=30), 30, PositionFit.CUT, None, None, None),
        (60, BOUND, log(90, bound_epoch_end=90), None, PositionFit.FITS, None, None, None),
        (20, BOUND, log(90), 0, PositionFit.STEPPED_BACK, None, None, (0, 50)),
    ],
)
def test_each_position_is_judged(
    at: int,
    bound: Binding | None,
    now: SourceLog,
    began: int | None,
    fit: PositionFit,
    resume: int | None,
    lost: tuple[int, int] | None,
    doubled: tuple[int, int] | None,
) -> None:
    verdict = judge(at, bound, now, Evidence(None, began))
    assert (verdict.fit, verdict.resume, verdict.lost, verdict.doubled) == (fit, resume, lost, doubled)


@pytest.mark.parametrize(
    ("bound", "now", "is_unchecked"),
    [
        (BOUND, log(90), False),
        (BOUND, log(90, topic="b"), True),
        (BOUND, log(90, bound_epoch_end=30), True),
        (None, log(30), True),
        (replace(BOUND, groups_unchecked=True), log(90), True),  # until it is accepted
    ],
)
def test_groups_of_another_log_stay_unchecked(
    bound: Binding | None, now: SourceLog, is_unchecked: bool
) -> None:
    new = renewed(bound, judge(50, bound, now, Evidence()), now, 9, moved=True)
    assert new.groups_unchecked is is_unchecked
    partition = TopicPartition("t", 0)
    assert parse_bindings({key(partition): dumps(new)}) == {partition: new}


sizes = st.integers(0, 9)


@given(
    before=sizes, unseen=sizes, attack=st.sampled_from(["none", "recreate", "cut"]), kept=sizes, more=sizes
)
def test_resumed_mirror_loses_nothing_and_lists_duplicates(
    before: int, unseen: int, attack: str, kept: int, more: int
) -> None:
    """Mirror a log, bind, mirror on, stop; attack the log, let it grow, judge, and mirror the rest."""
    number = count()
    topic, epoch, records = "a", 0, [next(number) for _ in range(before)]
    bound = Binding(topic_id=topic, next=before, epoch=epoch)
    records += [next(number) for _ in range(unseen)]
    arrived, at = Counter(records), len(records)
    if attack == "recreate":
        topic, records = "b", []
    elif attack == "cut":
        records, epoch = records[:kept], 1
    epoch_end = len(records)
    records += [next(number) for _ in range(more)]
    epoch_end = len(records) if attack == "none" else epoch_end
    now = log(len(records), topic=topic, bound_epoch_end=epoch_end if topic == "a" else None)
    verdict = judge(at, bound, now, Evidence())
    arrived.update(records[at if verdict.resume is None else verdict.resume :])
    doubled = {offset for offset, record in enumerate(records) if arrived[record] > 1}
    span = range(*(verdict.doubled or (0, 0)))
    # A cut that the bound epoch does not show, of what was mirrored after the check: see Binding.
    is_unseen_cut = attack == "cut" and before <= kept < at <= len(records)
    if not is_unseen_cut:
        assert all(arrived[record] for record in records)
    assert doubled <= {*span}
    assert verdict.at_most or doubled == {*span}
