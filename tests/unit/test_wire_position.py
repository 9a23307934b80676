"""Metadata of a sending end's committed position."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.link.wire.position import SenderPosition, loads

NO_EPOCH = '{"topic_id": "x", "from": 1, "session": 2}'
NUMBERS = st.integers(0, 2**63 - 1)


@given(topic_id=st.uuids(), first=NUMBERS, session=NUMBERS, epoch=st.integers(-1, 2**31 - 1))
def test_it_is_read_as_it_was_written(topic_id: object, first: int, session: int, epoch: int) -> None:
    position = SenderPosition(topic_id=str(topic_id), from_=first, session=session, epoch=epoch)
    assert loads(position.dumps()) == position
    assert json.loads(position.dumps()).keys() == {"topic_id", "from", "session", "epoch"}


@pytest.mark.parametrize(
    "metadata", ["", "m", "[]", "7", "null", "{}", '{"topic_id": "x", "from": 1}', NO_EPOCH]
)
def test_other_metadata_is_none(metadata: str) -> None:
    assert loads(metadata) is None


@given(st.text())
def test_whatever_stands_there_is_no_error(metadata: str) -> None:
    loads(metadata)
