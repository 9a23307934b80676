"""A flow's metrics for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.status import LOST, LOST_EARLIER

OWN = prometheus.Named("aqueduct_mirror")


def metrics(figures: MirrorFigures) -> Iterator[Metric]:
    """Yield every metric of a process that runs a flow."""
    tasks = figures.tasks
    counted = (*tasks, figures.ended)
    yield OWN.counter("records", "records that were mirrored", sum(task.records for task in counted))
    yield OWN.counter("batch_bytes", "bytes of their batches", sum(task.bytes for task in counted))
    yield OWN.counter("transactions", "transactions of the tasks", sum(task.transactions for task in counted))
    yield OWN.gauge(
        "tasks", "tasks of the flow that this process runs; 0: the process is on standby", len(tasks)
    )
    positions = figures.positions
    yield OWN.gauge("partitions", "source partitions that are mirrored", len(positions))
    yield OWN.gauge("refused", "partitions and topics that are not mirrored", len(figures.skipped))
    yield OWN.gauge("groups", "groups with offsets of mirrored partitions", figures.groups.groups)
    yield OWN.gauge("groups_skipped", "groups that have members at the target", len(figures.groups.skipped))
    behind = sum(sum(dict(task.behind).values()) for task in tasks)
    yield OWN.gauge("lag", "offsets that were not mirrored when their partitions were last read", behind)
    lost = sum(
        of.stop - of.start
        for position in positions.values()
        for of in position.ranges
        if of.kind in (LOST, LOST_EARLIER)
    )
    yield OWN.gauge("lost", "offsets that the source deleted before they were mirrored, at most", lost)
    if newest := max((task.committed_time for task in counted), default=0.0):
        yield OWN.gauge("committed_time", "time of the last committed transaction, Unix time", newest)
