"""Figures for Prometheus, read by its own parser."""

import urllib.request
from collections.abc import Iterable

from kit.identifiers import raises
from kit.manifests import MANIFEST
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from aqueduct.common.offset_ranges import Range
from aqueduct.common.prometheus import serve
from aqueduct.errors import Failed, Skipped
from aqueduct.land.metrics import LandFigures
from aqueduct.land.outcome import LandedTable
from aqueduct.link.dedup.metrics import DedupFigures
from aqueduct.link.dedup.share import DedupCounts
from aqueduct.snapshots.backup.metrics import BackupFigures
from aqueduct.snapshots.backup.run import BackupOutcome
from aqueduct.work.metrics import spark
from aqueduct.work.spark_usage import SparkFigures


def samples(metrics: Iterable[Metric]) -> dict[str, float]:
    """Return what Prometheus reads, by name and labels."""
    registry = CollectorRegistry()
    registry.register(Given(list(metrics)))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        " ".join((each.name, *each.labels.values())): each.value for of in families for each in of.samples
    }


class Given(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> list[Metric]:
        return self.metrics


def test_what_a_backup_did() -> None:
    of = BackupFigures()
    assert samples(of.all()) == {
        f"aqueduct_backup_{name}_total": 0 for name in ("rounds", "failed_rounds", "records", "stored_bytes")
    }
    of.add(None)
    of.add(
        BackupOutcome(
            manifest=MANIFEST,
            stored_bytes=12,
            left_out=(Skipped("orders", "it is gone", "topic-gone"),),
            seconds=2.5,
        )
    )
    of.add(BackupOutcome(manifest=MANIFEST, stored_bytes=3, left_out=(), seconds=1.5))
    records = sum(segment.records for segment in MANIFEST.segments)
    assert samples(of.all()) == {
        "aqueduct_backup_rounds_total": 3,
        "aqueduct_backup_failed_rounds_total": 1,
        "aqueduct_backup_records_total": 2 * records,
        "aqueduct_backup_stored_bytes_total": 15,
        "aqueduct_backup_snapshot": MANIFEST.number,
        "aqueduct_backup_snapshot_time": MANIFEST.started / 1000,
        "aqueduct_backup_seconds": 1.5,
        "aqueduct_backup_gaps": 0,
        "aqueduct_backup_left_out": 0,
    }


def test_what_landed_and_what_is_left_to_land() -> None:
    of = LandFigures(["a.b", "a.c"], 90.0)
    begun = samples(of.all())
    assert begun["aqueduct_land_rows_total a.b"] == begun["aqueduct_land_rows_total a.c"] == 0
    assert not [name for name in begun if "lag" in name or "left_out" in name]
    of.add(None, {}, 100.0)
    assert samples(of.all())["aqueduct_land_round_time"] == 90.0
    gap = Range("t", 0, 5, 9)
    done = LandedTable(
        table="a.b",
        commits=2,
        rows=40,
        late=5,
        bad=3,
        filtered=6,
        files=4,
        bytes=900,
        gaps=[gap],
        left_out=(Skipped("t", "why", "topic-gone"),),
    )
    of.add([done], {"a.b": 7}, 110.0)
    of.add([LandedTable(table="a.b", commits=1, rows=2, failed=Failed("why"))], {}, 120.0)
    found = {name.removeprefix("aqueduct_land_"): value for name, value in samples(of.all()).items()}
    b = {name.removesuffix(" a.b"): value for name, value in found.items() if name.endswith(" a.b")}
    assert b == {
        "commits_total": 3, "rows_total": 42, "late_total": 5, "bad_total": 3, "filtered_total": 6,
        "files_total": 4, "bytes_total": 900, "missed_total": 4, "unopened_total": 0, "failures_total": 1,
        "left_out": 0,  # and no lag
    }  # fmt: skip
    assert (found["rounds_total"], found["failed_rounds_total"], found["round_time"]) == (3, 1, 120.0)
    assert found["rows_total a.c"] == 0
    assert "left_out a.c" not in found


def test_lag_is_unknown_after_failed_round_start() -> None:
    of = LandFigures(["a.b"], 90.0)
    of.add([LandedTable(table="a.b")], {"a.b": 7}, 100.0)
    assert samples(of.all())["aqueduct_land_lag a.b"] == 7
    of.add(None, {}, 110.0)
    assert "aqueduct_land_lag a.b" not in samples(of.all())


def test_what_spark_did() -> None:
    of = SparkFigures()
    assert samples(spark(of)) == {"aqueduct_spark_sessions_total": 0, "aqueduct_spark_executors": 0}
    of.sessions, of.executors = 1, 2
    of.tasks.update(["one", "other", "one"])
    assert of.new_tasks() == {"one": 2, "other": 1}  # a report takes nothing away from Prometheus
    assert samples(spark(of)) == {
        "aqueduct_spark_sessions_total": 1,
        "aqueduct_spark_executors": 2,
        "aqueduct_spark_tasks_total one": 2,
        "aqueduct_spark_tasks_total other": 1,
    }


def test_dedup_metrics_show_work_and_backlog() -> None:
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
            "malformed_total",
            "quarantined_total",
            "unlisted_total",
            "contradicted_total",
        }
        of.add(DedupCounts(records=5, frames=2, missing=7, lost=1, lag=3, committed_time=100.0), 110.0)
        of.add(
            DedupCounts(records=4, frames=1, quarantined=2, unlisted=3, contradicted=1, missing=2, lag=1),
            170.0,
        )
        found = read()
        with raises(Failed, "metrics-port-unavailable") as failed:
            serve(port, of.all)
        assert str(port) in str(failed.value)
    finally:
        server.shutdown()
        server.server_close()
    assert (found["records_total"], found["frames_total"], found["quarantined_total"]) == (9, 3, 2)
    assert found["contradicted_total"] == 1
    assert (found["missing"], found["lost"], found["lag"]) == (2, 0, 1)
    assert (found["committed_time"], found["round_time"]) == (100.0, 170.0)
