"""Metrics of a service for Prometheus about its Spark sessions and tasks."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.work.spark_usage import SparkFigures

OWN = prometheus.Named("aqueduct_spark")


def spark(of: SparkFigures) -> Iterator[Metric]:
    """Yield the Spark metrics of a service. The counter of tasks is absent until the first task ended."""
    yield OWN.counter("sessions", "started Spark sessions", of.sessions)
    yield OWN.gauge("executors", "executors at the start of the last job", of.executors)
    if of.tasks:
        rows = [(float(number), {"host": host}) for host, number in sorted(of.tasks.items())]
        yield OWN.counter("tasks", "completed tasks, by host", *rows)
