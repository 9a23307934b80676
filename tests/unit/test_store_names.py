from hypothesis import given
from hypothesis import strategies as st

from aqueduct.store import names

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in (".", ".."))
segments = st.tuples(
    topics, st.integers(0, 10**6), st.integers(0, 2**63 - 1), st.sampled_from(["r-1", "r-2"])
)
generations = st.none() | st.integers(1, 10**6)


def test_names() -> None:
    assert names.snapshot(12) == "snapshots/0000000012.json.zst"
    plain = names.segment("a.b", 3, 17, "r", generation=None, compressed=True)
    assert plain == "topics/a.b/3/00000000000000000017.r.log.zst"
    kept = names.segment("a.b", 3, 17, "r", generation=2, compressed=False)
    assert kept == "topics/a.b/g2/3/00000000000000000017.r.log"
    assert names.index("a.b", 3, 17, "r", generation=2) == "topics/a.b/g2/3/00000000000000000017.r.index"


@given(st.integers(1, 10**10 - 1))
def test_numbers_come_back_and_sort(number: int) -> None:
    assert names.snapshot_number(names.snapshot(number)) == number
    assert names.snapshot(number) < names.snapshot(number + 1) or number == 10**10 - 1


def test_other_objects_are_no_snapshots() -> None:
    for path in ("snapshots/1.json.zst", "snapshots/0000000001.json.zst.part", "store.json"):
        assert names.snapshot_number(path) is None


@given(st.tuples(segments, generations), st.tuples(segments, generations))
def test_no_two_places_share_a_name(
    one: tuple[tuple[str, int, int, str], int | None], other: tuple[tuple[str, int, int, str], int | None]
) -> None:
    paths = set()
    for place, generation in {one, other}:
        paths |= {names.segment(*place, generation=generation, compressed=each) for each in (True, False)}
        paths.add(names.index(*place, generation=generation))
    assert len(paths) == 3 * len({one, other})
    for path in paths:
        assert path.startswith("topics/")
        assert max(map(len, path.split("/"))) <= 255


@given(segments, generations, st.booleans(), st.sampled_from(["", ".enc"]))
def test_segment_objects_are_recognised_by_name(
    place: tuple[str, int, int, str], generation: int | None, compressed: bool, ending: str
) -> None:
    expected = names.SegmentName(names.stem(*place, generation), place[0])
    for path in (
        names.segment(*place, generation=generation, compressed=compressed),
        names.index(*place, generation=generation),
    ):
        assert names.segment_of(path + ending) == expected
        for other in (f"{path}.part", f"x/{path}", path.removeprefix("topics/")):
            assert names.segment_of(other) is None


@given(st.integers(1, 10**10 - 1), st.from_regex(r"[A-Za-z0-9_-]{1,100}", fullmatch=True))
def test_a_lease_tells_what_it_is_of(snapshot: int, restore: str) -> None:
    assert names.lease_of(names.lease(snapshot, restore, "0123abcd")) == (snapshot, restore)


def test_other_objects_are_no_leases() -> None:
    for path in (
        "leases/1-r-0123abcd.json",
        "leases/0000000001-r.json",
        "0000000001-r-0123abcd.json",
        "leases/",
    ):
        assert names.lease_of(path) is None
