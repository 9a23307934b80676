"""Batches' bodies, compared with kafka-python's own encoder and decoder."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body, get_one, key_and_value, put_one
from aqueduct.kafka.batches.records import Record, Records, build, records

content = st.none() | st.binary(max_size=300)


@given(st.integers(-(2**63), 2**63 - 1))
def test_one_number_is_as_many_are(number: int) -> None:
    assert get_one(b"x" + put_one(number), 1) == (number, 1 + len(put_one(number)))


@given(st.lists(st.tuples(content, content), min_size=1))
def test_another_decoder_reads_what_is_written(every: list[tuple[bytes | None, bytes | None]]) -> None:
    rows = [Record(1000, offset, body(*each)) for offset, each in enumerate(every)]
    found = list(DefaultRecordBatch(bytes(build(Records.listed(rows)))))
    assert [(each.key, each.value, each.headers) for each in found] == [(*each, []) for each in every]


@given(st.lists(st.tuples(content, content), min_size=1), st.booleans())
def test_what_another_encoder_wrote_is_read(
    every: list[tuple[bytes | None, bytes | None]], headers: bool
) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10**9)
    for offset, (key, value) in enumerate(every):
        builder.append(offset, 1000, key, value, [("h", b"v")] if headers else [])
    [batch] = walk(bytes(builder.build()))
    assert [key_and_value(each.body) for each in records(batch)] == every


@given(st.binary(max_size=20))
def test_what_is_no_body(data: bytes) -> None:
    whole = body(b"key", np.random.default_rng(1).bytes(100))
    with pytest.raises((IndexError, ValueError)):
        key_and_value(whole[: len(data)])
