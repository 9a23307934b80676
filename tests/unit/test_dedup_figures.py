"""Figures for Prometheus, read by its own parser."""

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aqueduct.errors import Refused
from aqueduct.link.dedup.metrics import DedupFigures
from aqueduct.link.dedup.task import DedupCounts
from aqueduct.link.figures import serve


def test_what_dedup_did_and_what_is_left_to_do() -> None:
    of = DedupFigures()
    server = serve(0, of.all)
    port = server.server_address[1]

    def read() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            families = list(text_string_to_metric_families(answer.read().decode()))
        assert {each.type for each in families} <= {"counter", "gauge"}
        return {
            each.name.removeprefix("aqueduct_dedup_"): each.value for of in families for each in of.samples
        }

    try:
        # Not that nothing is missing: nobody has looked yet.
        assert read().keys() == {"records_total", "batch_bytes_total", "frames_total", "repeated_total"} | {
            "malformed_total"
        }
        of.add(DedupCounts(records=5, frames=2, missing=7, lost=1, lag=3, committed_time=100.0), 110.0)
        of.add(DedupCounts(records=4, frames=1, missing=2, lag=1), 170.0)
        found = read()
        with pytest.raises(Refused, match=f"Port {port} of localhost can't be listened at"):
            serve(port, of.all)
    finally:
        server.shutdown()
        server.server_close()
    assert (found["records_total"], found["frames_total"]) == (9, 3)
    assert (found["missing"], found["lost"], found["lag"]) == (2, 0, 1)
    assert (found["committed_time"], found["round_time"]) == (100.0, 170.0)
