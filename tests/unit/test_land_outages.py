"""Outages of the servers of a landing, by a clock that the test moves, and as a watch reports them."""

import io
import sys
import threading
import time
from collections.abc import Iterable

import pytest
from kit import clients
from kit.identifiers import printed
from prometheus_client.core import Metric

from aqueduct.errors import Failed
from aqueduct.land import outages, watch
from aqueduct.land.metrics import LandFigures
from aqueduct.land.outages import NO_REASON, SILENT_SECONDS, Outages
from aqueduct.land.outcome import LandedTable
from aqueduct.land.watch import WatchedServer
from aqueduct.store import retries
from aqueduct.store.retries import Attempts, Wait

STORE, METASTORE = "s3://lake", "thrift://metastore:9083"


def test_hanging_request_is_outage_after_timeout() -> None:
    noticed = Outages()
    noticed.ask(STORE, 100.0)
    assert noticed.current((), 100.0 + SILENT_SECONDS - 0.1) == {}
    [(server, outage)] = noticed.current((), 100.0 + SILENT_SECONDS).items()
    assert (server, outage.since, outage.reason) == (STORE, 100.0, NO_REASON)


def test_an_outage_is_reported_within_ten_seconds() -> None:
    """From a fault just after an answer on; the process must get its share of the machine."""
    assert watch.PAUSE_SECONDS + SILENT_SECONDS + watch.LOOK_SECONDS < 10


def test_answer_ends_outage_of_its_server_only() -> None:
    noticed = Outages()
    for server in (STORE, METASTORE):
        noticed.ask(server, 100.0)
    assert noticed.current((), 110.0).keys() == {STORE, METASTORE}
    noticed.answer(STORE)
    assert noticed.current((), 110.0).keys() == {METASTORE}


def test_consecutive_failed_requests_are_one_outage() -> None:
    noticed = Outages()
    begun, ended = [], []
    for second in range(100, 130):
        if second < 120:
            noticed.ask(STORE, second)
            noticed.fail(STORE, f"refused in {second}")
        else:
            noticed.answer(STORE)
        changes = noticed.changes((), second + 0.5)
        begun += [(second, outage.since) for outage in changes.begun]
        ended += [(second, outage.server) for outage in changes.ended]
    assert begun == [(105, 100)]
    assert ended == [(120, STORE)]


def test_repeated_request_is_outage_despite_other_answers() -> None:
    """As in a NameNode's safe mode: it answers who reads."""
    noticed = Outages()
    noticed.ask(STORE, 100.0)
    noticed.answer(STORE)
    wait = Wait(server=STORE, since=100.0, reason="safe mode")
    assert noticed.current([wait], 104.0) == {}
    assert noticed.current([wait], 105.0)[STORE].reason == "safe mode"
    assert noticed.current((), 105.0) == {}


def test_only_requests_that_have_failed_are_waited_for() -> None:
    with Attempts(STORE) as attempts:
        assert retries.waits() == ()
        attempts.fail("the connection is refused")
        [wait] = retries.waits()
        assert (wait.server, wait.reason) == (STORE, "the connection is refused")
        attempts.restart()
        assert retries.waits() == ()
        attempts.fail("again")
    assert retries.waits() == ()


def samples(metrics: Iterable[Metric]) -> dict[str, float]:
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in metrics
        for sample in family.samples
    }


def lag(figures: LandFigures) -> float | None:
    return samples(figures.all()).get("aqueduct_land_lag a.b")


def test_lag_is_unknown_from_outage_until_later_round() -> None:
    figures = LandFigures(["a.b"], 90.0)
    landed = [LandedTable(table="a.b")]
    assert "aqueduct_land_silent_seconds store" not in samples(figures.all())
    figures.hear({"store": 0.0, "metastore": 0.0})
    figures.add(landed, {"a.b": 0}, 100.0)
    assert lag(figures) == 0
    figures.hear({"store": 0.0, "metastore": 6.5})
    assert lag(figures) is None
    assert samples(figures.all())["aqueduct_land_silent_seconds metastore"] == 6.5
    figures.add(landed, {"a.b": 0}, 110.0)
    assert lag(figures) is None
    figures.hear({"store": 0.0, "metastore": 0.0})
    assert lag(figures) is None
    figures.add(landed, {"a.b": 3}, 120.0)
    assert lag(figures) == 3


class Answering:
    """A server that answers, hangs or fails, as the test wants it."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.error: Exception | None = None

    def __call__(self) -> None:
        self.answers.wait()
        if self.error:
            raise self.error


@pytest.mark.parametrize("fault", ["it hangs", "it fails", "its client fails"])
def test_each_outage_and_its_end_are_reported_once(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(outages, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(watch, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)
    store, figures = Answering(), LandFigures(["a.b"], 0.0)
    watched = [WatchedServer(name=STORE, title=f"The store {STORE}", kind="store", ask=store)]

    def silent() -> float | None:
        return samples(figures.all()).get("aqueduct_land_silent_seconds store")

    with watch.watching(watched, figures):
        clients.wait_for("a first look", lambda: silent() is not None)
        if fault == "it hangs":
            store.answers.clear()
        else:
            failed = Failed("store-request-failed", "The connection is refused.")
            store.error = failed if fault == "it fails" else RuntimeError("a panic")
        clients.wait_for("an outage", silent)
        time.sleep(0.2)  # more looks
        store.error = None
        store.answers.set()
        clients.wait_for("its end", lambda: silent() == 0)
        clients.wait_for("its report", lambda: f"{STORE} answers again" in out.getvalue())
    assert printed(err.getvalue()) == ["land-server-silent"]
    assert out.getvalue().count(f"{STORE} answers again") == 1


def test_a_server_that_refuses_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAUSE_SECONDS", 0.01)
    asked, noticed, ended = [], Outages(), threading.Event()

    def refuse() -> None:
        asked.append(noticed.current((), time.monotonic() + SILENT_SECONDS))
        if len(asked) == 3:
            ended.set()
        raise Failed("store-access-refused", "The store does not let us read.")

    watch._ask(WatchedServer(name=STORE, title="The store", kind="store", ask=refuse), noticed, ended)
    assert [{*current} for current in asked] == [{STORE}] * 3
    assert noticed.current((), time.monotonic() + SILENT_SECONDS) == {}
