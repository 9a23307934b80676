"""Headers of records, all at once, as one after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.kafka.batches import bodies
from aqueduct.kafka.batches.batch import Damaged, unpack, walk
from aqueduct.kafka.batches.bodies import Header
from aqueduct.kafka.batches.header_positions import MOST_HEADERS
from aqueduct.kafka.batches.records import Record, RecordPlaces, Records, build
from aqueduct.snapshots.export import headers
from aqueduct.snapshots.export.rows import StoredRecords

FIELD = st.binary(max_size=200) | st.none()
HEADERS = st.lists(st.tuples(st.binary(max_size=20), FIELD), max_size=6)


def places(*records: bytes) -> RecordPlaces:
    made = build(Records.listed(Record(0, at, each) for at, each in enumerate(records)))
    return RecordPlaces.of(list(walk(made)))


@given(st.lists(st.tuples(FIELD, FIELD, HEADERS), min_size=1, max_size=20))
def test_headers_equal_those_read_record_by_record(
    records: list[tuple[bytes | None, bytes | None, list[Header]]],
) -> None:
    encoded = [bodies.body(*each) for each in records]
    read = headers.read(places(*encoded))
    found = [[(each["key"], each["value"]) for each in of_record] for of_record in read.lists.to_pylist()]
    assert found == [bodies.headers(each) for each in encoded] == [each for _, _, each in records]
    assert not read.too_many.any()


def test_too_many_are_told_and_not_read() -> None:
    most = MOST_HEADERS
    many = [bodies.body(None, None, [(b"h", b"v")] * number) for number in (1, most + 1, most)]
    read = headers.read(places(*many))
    assert read.too_many.tolist() == [False, True, False]
    assert [len(each) for each in read.lists.to_pylist()] == [1, 0, most]


WRONG = {
    "cut": bodies.body(b"k", b"v", [(b"h", b"v")])[:-1],
    "more": bodies.body(b"k", b"v", [(b"h", b"v")]) + b"\0",
    "negative number": bodies.body(b"k", b"v")[:-1] + bodies.put_one(-1),
    "no name": bodies.body(b"k", b"v")[:-1] + bodies.put_one(1) + bodies.put_one(-1) + bodies.put_one(-1),
    "far name": bodies.body(b"k", b"v")[:-1] + bodies.put_one(1) + bodies.put_one(1 << 40),
    "far value": bodies.body(b"k", b"v")[:-1] + bodies.put_one(1) + b"\x02h" + bodies.put_one(1 << 62),
    "none": bodies.body(b"k", b"v")[:-1],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_record_is_a_sentence(name: str) -> None:
    good = bodies.body(b"k", b"v")
    made = build(Records.listed(Record(0, at, each) for at, each in enumerate([good, WRONG[name]])))
    batches = list(walk(made))
    with raises(Damaged, "batch-damaged", "offset 0"):
        StoredRecords.of(batches, [unpack(each) for each in batches])
