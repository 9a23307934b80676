from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.kafka.batches.batch import CONTROL, TRANSACTIONAL, Batch, walk
from aqueduct.kafka.batches.committed import committed
from aqueduct.kafka.batches.records import Record, Records, build

PLAIN, DATA, COMMIT, ABORT = "plain", "data", "commit", "abort"


def made(offset: int, kind: str, producer: int = -1) -> Batch:
    if kind in (COMMIT, ABORT):
        # Key: its length, version 0, type; value: its length, version 0, coordinator epoch; no headers.
        body = bytes([8, 0, 0, 0, kind == COMMIT, 12, 0, 0, 0, 0, 0, 1, 0])
        attributes = TRANSACTIONAL | CONTROL
    else:
        body, attributes = b"record", TRANSACTIONAL if kind == DATA else 0
    rows = Records.listed([Record(0, offset, body)])
    (batch,) = walk(build(rows, attributes=attributes, producer=(producer, 0, offset)))
    return batch


def log(*events: tuple[str, int]) -> list[Batch]:
    return [made(offset, *event) for offset, event in enumerate(events)]


def offsets(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> list[int]:
    return [each.base_offset for each in committed(batches, aborted)]


@given(
    st.lists(st.tuples(st.sampled_from([PLAIN, DATA, DATA, COMMIT, ABORT]), st.integers(1, 3)), max_size=30),
    st.tuples(*[st.sampled_from([PLAIN, COMMIT, ABORT])] * 3),
    st.integers(0, 8),
)
def test_whatever_is_fetched_from_wherever(
    events: list[tuple[str, int]], ends: tuple[str, ...], start: int
) -> None:
    """Read a log whose transactions are known, with the list of aborted ones that a broker makes of it."""
    events = events + [(kind, producer) for producer, kind in enumerate(ends, 1)]
    open_since: dict[int, int] = {}
    visible, aborted = [], []
    pending: dict[int, list[int]] = {}
    for offset, (kind, producer) in enumerate(events):
        if kind == PLAIN:
            visible.append(offset)
        elif kind == DATA:
            open_since.setdefault(producer, offset)
            pending.setdefault(producer, []).append(offset)
        else:
            first, own = open_since.pop(producer, None), pending.pop(producer, [])
            if kind == COMMIT:
                visible += own
            elif first is not None and offset >= start:
                aborted.append((producer, first))
    stable = min(open_since.values(), default=len(events))
    fetched = log(*events)[start:stable]
    listed = [each for each in aborted if each[1] < stable]
    assert offsets(fetched, listed) == sorted(each for each in visible if start <= each < stable)


def test_only_an_abort_marker_ends_an_aborted_transaction() -> None:
    fetched = log((DATA, 1), (COMMIT, 1), (DATA, 1), (DATA, 2), (ABORT, 1), (DATA, 1), (COMMIT, 1))
    assert offsets(fetched, [(1, 0)]) == [3, 5]


def test_a_producer_without_transaction_is_not_aborted() -> None:
    assert offsets(log((PLAIN, 1), (DATA, 1), (PLAIN, 1), (ABORT, 1)), [(1, 0)]) == [0, 2]


def test_a_marker_that_was_compacted_away_ends_nothing() -> None:
    fetched = log((DATA, 1), (ABORT, 1), (DATA, 1))
    header = bytearray(fetched[1].data[:61])
    header[8:12], header[57:61] = (49).to_bytes(4), bytes(4)
    (empty,) = walk(header, check_crc=False)
    assert empty.count == 0
    assert offsets([fetched[0], empty, fetched[2]], [(1, 0)]) == []


@pytest.mark.parametrize("aborted", [[], [(1, 0)]])
def test_control_batches_never_come(aborted: list[tuple[int, int]]) -> None:
    assert offsets(log((ABORT, 1), (COMMIT, 1)), aborted) == []
