"""The work of reading ranges of Kafka's partitions, with their bytes estimated from samples.

A sample needs only the right to read, which a reader has. DescribeLogDirs would need DESCRIBE on the cluster,
and not every cluster supports it (docs/decisions/0043-spark-or-one-process.md).
"""

from collections.abc import Sequence

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed
from aqueduct.kafka import fetch
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-sample"
LARGEST_RECORD = 1 << 20  # Kafka's default of max.message.bytes


def reading(verb: Verb, end: End, ranges: Sequence[Range], workers: Workers) -> Work:
    """Return the work of reading these ranges.

    0 bytes if the size cannot change the choice between Spark and one process, or if no broker answers.
    """
    most = Work(verb, sum(map(len, ranges)) * LARGEST_RECORD)
    if not workers.depends_on_size(most):
        return Work(verb, 0)
    try:
        with connect(end, CLIENT, timeout_seconds=fetch.SAMPLE_SECONDS) as client:
            return Work(verb, fetch.estimated_bytes(client, ranges))
    except Failed:  # the reader itself waits for brokers, and reports its errors
        return Work(verb, 0)
