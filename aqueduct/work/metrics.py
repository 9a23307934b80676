"""Spark's part of a service's metrics for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.work.spark_usage import SparkFigures

OWN = prometheus.Named("aqueduct_spark")


def spark(of: SparkFigures) -> Iterator[Metric]:
    """Yield what a Grafana panel of a service on a cluster needs; no tasks where Spark was not needed yet."""
    yield OWN.counter("sessions", "started Spark sessions", of.sessions)
    yield OWN.gauge("executors", "executors at the start of the last job", of.executors)
    if of.tasks:
        rows = [(float(number), {"host": host}) for host, number in sorted(of.tasks.items())]
        yield OWN.counter("tasks", "completed tasks, by host", *rows)
