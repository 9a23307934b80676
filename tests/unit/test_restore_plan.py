from dataclasses import replace

from kit.restore_snapshot import SNAPSHOT, segment

from aqueduct.kafka.batches.cutting import Window
from aqueduct.snapshots.restore.plan import SHARE_BYTES, SHARE_LANES, RestoreLane, plan, shares
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.manifest import (
    Gap,
    StoredPartition,
)


def test_each_partition_gets_lane_with_segments_in_window() -> None:
    wanted = plan(SNAPSHOT, Request((("t", "new"),)))
    assert wanted.snapshot == 7
    assert wanted.renamed == {"t": "new"}
    assert [lane.target for lane in wanted.lanes] == [("new", 0), ("new", 1), ("new", 2)]
    assert [lane.stop for lane in wanted.lanes] == [30, 0, 0]
    assert [each.start for each in wanted.lanes[0].segments] == [5, 10]
    assert wanted.lanes[0].records == 15
    assert wanted.gaps == (Gap("t", 1, 0, 0, 5),)
    late = plan(SNAPSHOT, Request(window=Window(first_time=101))).lanes[0]
    assert [each.start for each in late.segments] == [10]
    assert [each.start for each in late.skipped] == [5]


def test_times_make_the_records_an_upper_bound() -> None:
    assert not plan(SNAPSHOT, Request()).at_most
    assert plan(SNAPSHOT, Request(window=Window(first_time=1))).at_most
    assert not plan(SNAPSHOT, Request(window=Window(first_time=1_000))).at_most  # none is none


def test_shares_contain_one_large_or_many_small_lanes() -> None:
    lane = RestoreLane(
        stored_partition=StoredPartition("t", 1, 0),
        topic="t",
        stop=30,
        segments=(segment(0, 30),),
        skipped=(),
    )
    large = replace(lane, segments=(segment(0, 30, unpacked_bytes=SHARE_BYTES + 1),))
    lanes = [lane, large, lane, lane, large, large, *[lane] * (SHARE_LANES + 1)]
    found = list(shares(lanes))
    assert [each for share in found for each in share] == lanes
    assert list(map(len, found)) == [1, 1, 2, 1, 1, SHARE_LANES, 1]
    assert list(shares([])) == []
