"""What the module spark_ready says of pages of a cluster, and of names that nobody else can use."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/modules/spark_ready.py"
PAGE, OTHER = "https://m1.example.com:8480", "https://m2.example.com:8480"


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_ready", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pages:
    """Pages that answer in turn; the last answer stays."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {PAGE: answers.get("first", []), OTHER: answers.get("second", [])}

    def read(self, url: str) -> Any:
        turn = next(turn for page, turn in self.answers.items() if url.startswith(page))
        found = turn.pop(0) if len(turn) > 1 else turn[0]
        if isinstance(found, Exception):
            raise found
        return found


def state(status: str, **workers: str) -> dict[str, Any]:
    return {"status": status, "workers": [{"host": host, "state": said} for host, said in workers.items()]}


def given(service: str, seconds: float = 0) -> dict[str, Any]:
    pages = {"page": PAGE, "masters": [PAGE, OTHER]}
    return {"service": service, "host": "w1", "timeout_seconds": seconds, **pages}


def test_master_serves_if_alive_or_standby(plugin: ModuleType) -> None:
    for status in ("ALIVE", "STANDBY"):
        assert plugin.waited(given("spark_master"), Pages(first=[state(status)])) == ""
    said = plugin.waited(given("spark_master"), Pages(first=[state("RECOVERING")]))
    assert f"{PAGE} is RECOVERING" in said
    assert "0 s" in said
    said = plugin.waited(given("spark_master"), Pages(first=[OSError("refused")]))
    assert f"{PAGE} does not answer (refused)" in said
    assert "0 s" in said


def test_it_is_waited_for(plugin: ModuleType) -> None:
    answers = [OSError("refused"), state("RECOVERING"), state("ALIVE")]
    assert plugin.waited(given("spark_master", 20), Pages(first=answers)) == ""


def test_worker_serves_if_registered_with_leading_master(plugin: ModuleType) -> None:
    standby = state("STANDBY")
    found = Pages(first=[standby], second=[state("ALIVE", w1="ALIVE")])
    assert plugin.waited(given("spark_worker"), found) == ""
    said = plugin.waited(
        given("spark_worker"), Pages(first=[standby], second=[state("ALIVE", w1="DEAD", w2="ALIVE")])
    )
    assert all(fact in said for fact in ("w1", OTHER, "w2"))
    assert PAGE not in said
    said = plugin.waited(given("spark_worker"), Pages(first=[standby], second=[OSError("no route")]))
    assert "w1" in said
    assert f"{PAGE} is STANDBY; {OTHER} does not answer (no route)." in said


def test_a_history_server_serves_when_it_answers(plugin: ModuleType) -> None:
    assert plugin.waited(given("spark_history"), Pages(first=[{"spark": "4"}])) == ""
    said = plugin.waited(given("spark_history"), Pages(first=[ValueError("no JSON")]))
    assert said.startswith(f"{PAGE} does not answer (no JSON).")


def test_loopback_host_name_is_refused_immediately(plugin: ModuleType) -> None:
    said = plugin.problem_of({**given("spark_master", 600), "host": "localhost"})
    assert said.startswith("[spark-host-loopback] localhost ")
    assert "spark_host" in said
    assert plugin.loopback("192.0.2.1") == ""


def test_missing_certificate_is_reported_with_identifier(plugin: ModuleType) -> None:
    files = {"certificate": "/nowhere.pem", "ca": "/nowhere-ca.pem"}
    said = plugin.problem_of({**given("spark_master", 600), "host": "192.0.2.1", **files})
    assert said.startswith("[service-key-unusable] /nowhere.pem and /nowhere-ca.pem ")
