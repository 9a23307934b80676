"""Batches read in plain Python, against the same read with numpy."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.kafka.batches.batch import Damaged, walk
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.plain_records import bodies
from aqueduct.kafka.batches.records import Record, Records, build, records

ROWS = st.lists(
    st.builds(Record, st.integers(-1, 1 << 50), st.integers(0, 50), st.binary(max_size=300)), min_size=1
).map(lambda rows: [row._replace(offset=1000 * number + row.offset) for number, row in enumerate(rows)])


@given(ROWS, st.sampled_from(CODECS))
def test_bodies_are_those_that_numpy_reads(rows: list[Record], codec: str) -> None:
    [batch] = walk(build(Records.listed(rows), codec=codec))
    assert list(bodies(batch)) == [(each.offset, each.body) for each in records(batch)]


@pytest.mark.parametrize("count", [1, 3])
def test_records_that_do_not_fill_batch_are_damage(count: int) -> None:
    data = build(Records.listed([Record(0, 0, b"first"), Record(0, 1, b"second")]))
    data[57:61] = count.to_bytes(4)
    [batch] = walk(data, check_crc=False)
    with raises(Damaged, "batch-damaged", "offset 0"):
        list(bodies(batch))


WITHOUT_LIBRARIES = """
import sys
sys.modules |= dict.fromkeys(("numpy", "google_crc32c"))  # as if they were not installed
from aqueduct.cli import health, mirror
from aqueduct.kafka import rolling, compacted_topics
from aqueduct.kafka.admin import acls, cluster, quotas, settings, topics
from aqueduct.kafka.batches.batch import Damaged, walk
from aqueduct.kafka.batches.plain_records import bodies
data = bytearray(sys.stdin.buffer.read())
assert list(bodies(next(walk(data)))) == [(7, b"body")]
data[-1] ^= 1
try:
    next(walk(data))
except Damaged as error:
    print(error)
"""


def test_health_mirror_and_batch_reading_need_no_numpy() -> None:
    data = build(Records.listed([Record(0, 7, b"body")]), codec="zstd")
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES], input=bytes(data), capture_output=True, check=True
    )
    assert b"its CRC does not match" in ran.stdout
