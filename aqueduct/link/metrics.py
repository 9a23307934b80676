"""The figures of one end, for Prometheus, on localhost."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aqueduct.errors import Refused
from aqueduct.link.downstream import Figures as Downstream
from aqueduct.link.upstream import Figures as Upstream
from aqueduct.link.wire.receiver import Sight

PREFIX = "aqueduct_diode"

F = TypeVar("F")  # figures


def publishing(port: int | None, metrics: Callable[[F], Iterable[Metric]]) -> Callable[[F], None]:
    """What serves the metrics of figures, if there is a port. Refused if it is taken."""

    def publish(figures: F) -> None:
        if port is None:
            return
        registry = CollectorRegistry()
        registry.register(_Collector(lambda: metrics(figures)))
        try:
            start_http_server(port, "127.0.0.1", registry)
        except OSError as error:
            raise Refused(f"metricsPort {port} can't be listened at: {error.strerror}.") from None

    return publish


class _Collector(Collector):
    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics()


def upstream(of: Upstream) -> Iterator[Metric]:
    yield _counter("upstream_records", "records that were sent", of.feed.records)
    yield _counter("upstream_batch_bytes", "bytes of their batches", of.feed.bytes)
    yield _counter("upstream_oversized", "batches over largestRecord", of.feed.oversized)
    yield _counter("upstream_withheld", "records that the filter withheld", of.filter.withheld)
    yield _counter("upstream_filter_timeouts", "matches that took too long", of.filter.timeouts)
    yield _counter("upstream_repeated", "frames that were sent again", of.repeated)
    yield _counter("upstream_not_repeated", "frames that were not, for want of memory", of.not_repeated)
    yield _gauge(
        "upstream_committed_time", "when the position was committed, Unix time", of.position_committed
    )
    yield _gauge("upstream_lag", "records that are committed at the source and not sent", of.feed.lag())
    of_link = [(outlet, {"link": str(outlet.target.link)}) for outlet in of.outlets]
    sent = [(outlet.session.sent, labels) for outlet, labels in of_link]
    yield _counter("upstream_values", "frames and announcements", *((n.values, link) for n, link in sent))
    yield _counter("upstream_blocks", "blocks", *((n.blocks, link) for n, link in sent))
    yield _counter("upstream_datagrams", "datagrams", *((n.datagrams, link) for n, link in sent))
    yield _counter("upstream_bytes", "bytes of datagrams", *((n.bytes, link) for n, link in sent))
    refused = ((outlet.refused, link) for outlet, link in of_link)
    yield _counter("upstream_refused", "datagrams that the kernel would not take", *refused)
    keys = ((outlet.session.key_number, link) for outlet, link in of_link)
    yield _gauge("upstream_key", "number of the key in use", *keys)


def downstream(of: Downstream) -> Iterator[Metric]:
    counters = of.receiver.counters
    for each in fields(counters):
        name = each.name.replace("_", " ")
        yield _counter(
            f"downstream_{each.name}",
            f"{name}; see aqueduct.link.wire.counters",
            getattr(counters, each.name),
        )
    yield _counter("downstream_written", "records that Kafka took", of.written)
    yield _counter("downstream_refused", "records that Kafka refused", of.refused)
    yield _counter("downstream_dropped", "values, because too much waited for Kafka", of.dropped)
    yield _counter("downstream_socket_dropped", "datagrams that the kernel dropped", of.socket.dropped)
    yield _gauge("downstream_waiting_bytes", "that wait for Kafka", of.waiting_bytes)
    now, wall = time.monotonic(), time.time()
    sights = [(sight, {"sender": sight.sender[:16], "kind": sight.kind.name.lower()}) for sight in _last(of)]
    ages = ((now - sight.beat_at, labels) for sight, labels in sights if sight.beat)
    yield _gauge("downstream_beat_age", "seconds since the last keepalive", *ages)
    ages = ((wall - sight.key_created / 1000, labels) for sight, labels in sights)
    yield _gauge("downstream_key_age", "seconds since the newest key was made", *ages)
    missing = ((sight.missing, labels) for sight, labels in sights)
    yield _gauge("downstream_missing_blocks", "blocks that are known of and not whole", *missing)


def _last(of: Downstream) -> Iterable[Sight]:
    """The newest session of each sender and kind."""
    return {(sight.sender, sight.kind): sight for sight in of.receiver.sessions()}.values()


Labels = dict[str, str]
Rows = float | tuple[float, Labels]


def _counter(name: str, help_: str, *rows: Rows) -> Metric:
    return _metric(CounterMetricFamily, name, help_, rows)


def _gauge(name: str, help_: str, *rows: Rows) -> Metric:
    return _metric(GaugeMetricFamily, name, help_, rows)


def _metric(kind: Any, name: str, help_: str, rows: Iterable[Rows]) -> Metric:
    labelled = [row if isinstance(row, tuple) else (row, Labels()) for row in rows]
    family: Metric = kind(f"{PREFIX}_{name}", help_, labels=list(labelled[0][1]) if labelled else [])
    for value, labels in labelled:
        family.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]
    return family
