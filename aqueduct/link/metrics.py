"""The figures of one end, for Prometheus."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import partial
from typing import TypeVar

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.link.downstream import DownstreamFigures as Downstream
from aqueduct.link.upstream import UpstreamFigures as Upstream
from aqueduct.link.wire.receiver import Sight

OWN = prometheus.Named("aqueduct_diode")

F = TypeVar("F")  # figures


def publishing(port: int | None, metrics: Callable[[F], Iterable[Metric]]) -> Callable[[F], None]:
    """Return what serves the metrics of figures, if there is a port. Failed if it is taken."""

    def publish(of: F) -> None:
        if port is not None:
            prometheus.serve(port, partial(metrics, of))

    return publish


def upstream(of: Upstream) -> Iterator[Metric]:
    yield OWN.counter("upstream_records", "records that were sent", of.feed.records)
    yield OWN.counter("upstream_batch_bytes", "bytes of their batches", of.feed.bytes)
    yield OWN.counter("upstream_oversized", "batches larger than largestRecord", of.feed.oversized)
    yield OWN.gauge(
        "upstream_cut", "partitions that are not sent, because their logs were truncated", of.feed.cut
    )
    yield OWN.gauge("upstream_unmatched", "topics and patterns that match no topic", of.feed.unmatched)
    yield OWN.counter("upstream_withheld", "records that the filter did not allow", of.filter.withheld)
    yield OWN.counter(
        "upstream_unread", "batches that the filter could not read and did not allow", of.filter.unread
    )
    yield OWN.counter(
        "upstream_filter_timeouts", "filter matches that exceeded the time limit", of.filter.timeouts
    )
    yield OWN.counter("upstream_repeated", "frames that were sent again", of.repeated)
    yield OWN.counter(
        "upstream_not_repeated",
        "frames that were not sent again because of too little memory",
        of.not_repeated,
    )
    yield OWN.gauge(
        "upstream_committed_time", "time of the last commit of the position, Unix time", of.position_committed
    )
    yield OWN.gauge(
        "upstream_lag", "records that are committed at the source and not sent yet", of.feed.lag()
    )
    of_link = [(outlet, {"link": str(outlet.target.link)}) for outlet in of.outlets]
    sent = [(outlet.session.sent, labels) for outlet, labels in of_link]
    yield OWN.counter("upstream_values", "frames and announcements", *((n.values, link) for n, link in sent))
    yield OWN.counter("upstream_blocks", "blocks", *((n.blocks, link) for n, link in sent))
    yield OWN.counter("upstream_datagrams", "datagrams", *((n.datagrams, link) for n, link in sent))
    yield OWN.counter("upstream_bytes", "bytes of datagrams", *((n.bytes, link) for n, link in sent))
    refused = ((outlet.refused, link) for outlet, link in of_link)
    yield OWN.counter("upstream_refused", "datagrams that the kernel did not accept", *refused)
    keys = ((outlet.session.key_number, link) for outlet, link in of_link)
    yield OWN.gauge("upstream_key", "number of the key in use", *keys)


def downstream(of: Downstream) -> Iterator[Metric]:
    counters = of.receiver.counters
    for field in fields(counters):
        name = field.name.replace("_", " ")
        yield OWN.counter(
            f"downstream_{field.name}",
            f"{name}; see aqueduct.link.wire.counters",
            getattr(counters, field.name),
        )
    yield OWN.counter("downstream_written", "records that Kafka accepted", of.written)
    yield OWN.counter("downstream_refused", "records that Kafka rejected", of.refused)
    yield OWN.counter("downstream_foreign", "values of topics that are not topics of the link", of.foreign)
    yield OWN.counter(
        "downstream_dropped", "values that were dropped because too many waited for Kafka", of.dropped
    )
    yield OWN.counter("downstream_socket_dropped", "datagrams that the kernel dropped", of.socket.dropped)
    yield OWN.gauge("downstream_waiting_bytes", "values that wait for Kafka", of.waiting_bytes)
    now, wall = time.monotonic(), time.time()
    sights = [(sight, {"sender": sight.sender[:16], "kind": sight.kind.name.lower()}) for sight in _last(of)]
    ages = ((now - sight.beat_at, labels) for sight, labels in sights if sight.beat)
    yield OWN.gauge("downstream_beat_age", "seconds since the last keepalive", *ages)
    ages = ((wall - sight.key_created / 1000, labels) for sight, labels in sights)
    yield OWN.gauge("downstream_key_age", "seconds since the newest key was created", *ages)
    missing = ((sight.missing, labels) for sight, labels in sights)
    yield OWN.gauge("downstream_missing_blocks", "incomplete blocks", *missing)


def _last(of: Downstream) -> Iterable[Sight]:
    """Return the newest session of each sender and kind."""
    return {(sight.sender, sight.kind): sight for sight in of.receiver.sessions()}.values()
