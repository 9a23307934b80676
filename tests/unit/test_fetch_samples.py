"""What a sample says of a range: the bytes of whole batches in a response, and how many offsets they have."""

import pytest
from kafka.protocol.consumer import FetchResponse

from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.fetch import _sample


def batch(offset: int, count: int, size: int) -> bytes:
    return bytes(
        build(Records.listed([Record(1000, offset + number, bytes(size)) for number in range(count)]))
    )


def response(records: bytes | None) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(partition_index=0, records=records)
    return FetchResponse(responses=[topic(topic="t", partitions=[partition])])


ONE, OTHER = batch(10, 5, 100), batch(30, 1, 1000)


@pytest.mark.parametrize(
    ("records", "start", "sample"),
    [
        pytest.param(ONE + OTHER, 10, (len(ONE + OTHER), 21), id="compacted offsets between them"),
        pytest.param(ONE + OTHER[:-1], 10, (len(ONE), 5), id="a batch that is cut off"),
        pytest.param(ONE, 13, (len(ONE), 5), id="a range that begins inside a batch"),
        pytest.param(ONE, 5, (len(ONE), 10), id="a range that begins with compacted offsets"),
        pytest.param(ONE, 15, None, id="a batch before the range"),
        pytest.param(b"", 10, None, id="nothing"),
        pytest.param(None, 10, None, id="an error"),
        pytest.param(bytes(100), 10, None, id="other bytes"),
    ],
)
def test_sample(records: bytes | None, start: int, sample: tuple[int, int] | None) -> None:
    assert _sample(response(records), start) == sample
