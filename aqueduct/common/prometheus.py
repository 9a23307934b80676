"""Metrics for Prometheus, on a port of localhost or in a file."""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from aqueduct.common.whole_files import write_whole
from aqueduct.errors import Failed

Labels = dict[str, str]
Rows = float | tuple[float, Labels]


def serve(port: int, metrics: Callable[[], Iterable[Metric]]) -> HTTPServer:
    """Serve metrics on localhost until the process ends. Failed if the port is not available.

    `metrics` is called for each scrape.
    """
    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
    try:
        server, _ = start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise Failed(
            "metrics-port-unavailable",
            f"Cannot listen on port {port} of localhost for metrics: {error.strerror}. Choose another port.",
        ) from None
    return server


def kept(path: Path, name: str) -> float | None:
    """Return the value of a metric in a file; None if it has none of this name, or cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
            for sample in family.samples:
                if sample.name == name:
                    return float(sample.value)
    return None


def write(path: Path, metrics: Iterable[Metric]) -> None:
    """Replace a metrics file atomically; all users can read it. Failed if it cannot be written."""
    registry = CollectorRegistry()
    registry.register(_Collector(lambda: metrics))
    try:
        write_whole(path, generate_latest(registry), mode=0o644)
    except OSError as error:
        raise Failed(
            "metrics-file-unwritable",
            f"Cannot write the metrics file {path}: {error.strerror}. Check the free space, and give the "
            "user of the command the right to write in the folder.",
        ) from None


class _Collector(Collector):
    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics()


@dataclass(frozen=True)
class Named:
    """A family of metrics whose names begin with the same prefix."""

    prefix: str

    def counter(self, name: str, help_: str, *rows: Rows) -> Metric:
        return counter(f"{self.prefix}_{name}", help_, *rows)

    def gauge(self, name: str, help_: str, *rows: Rows) -> Metric:
        return gauge(f"{self.prefix}_{name}", help_, *rows)


def counter(name: str, help_: str, *rows: Rows) -> Metric:
    """Return a counter, with one row for each set of labels. Prometheus sees its name with `_total`."""
    return _metric(CounterMetricFamily, name, help_, rows)


def gauge(name: str, help_: str, *rows: Rows) -> Metric:
    """Return a gauge, with one row for each set of labels."""
    return _metric(GaugeMetricFamily, name, help_, rows)


def _metric(kind: Any, name: str, help_: str, rows: Iterable[Rows]) -> Metric:
    labelled = [row if isinstance(row, tuple) else (row, Labels()) for row in rows]
    family: Metric = kind(name, help_, labels=list(labelled[0][1]) if labelled else [])
    for value, labels in labelled:
        family.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]
    return family
