"""Agents of the roles give the figures that alerts and dashboards use, from real processes."""

import os
import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from kit import clients
from kit.exporter_names import KAFKA, MIRROR
from kit.mirrors import mirror_maker

from aqueduct.control_node.artifacts import single_file
from servers import broker as running_broker
from servers.broker import Broker
from servers.process import QUICK, free_ports

ROOT = Path(__file__).resolve().parents[2]
Figures = Mapping[str, set[frozenset[str]]]


@pytest.fixture(scope="module")
def agent() -> Path:
    """Return the agent that the role kafka deploys; it is fetched where it is not there, and checked."""
    declared = yaml.safe_load((ROOT / "roles/kafka/vars/main.yml").read_text())["_kafka_agent"]
    lock = str(ROOT / "artifacts/files.sha256")
    cache = os.environ["AQUEDUCT_CACHE"]
    return single_file(maven=declared["maven"], url=None, sha256=None, lock=lock, cache=cache).path


def option(agent: Path, port: int, role: str) -> str:
    return f"-javaagent:{agent}=127.0.0.1:{port}:{ROOT / 'roles' / role / 'files/metrics.yaml'}"


def figures(port: int) -> Figures:
    """Return the names of figures, with the labels of each."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    found: dict[str, set[frozenset[str]]] = {}
    for line in page.splitlines():
        if sample := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            labels = frozenset(re.findall(r'(\w+)="', sample[2] or ""))
            found.setdefault(sample[1], set()).add(labels)
    return found


def missing(found: Figures, wanted: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {name for name, labels in wanted.items() if frozenset(labels) not in found.get(name, set())}


def test_node_and_mirror_exporters_provide_used_metrics(
    brokers: list[Broker], agent: Path, tmp_path: Path
) -> None:
    node_port, mirror_port = free_ports(2)
    for name in ("node", "mirror"):
        (tmp_path / name).mkdir()
    with running_broker.running(tmp_path / "node", jvm=[*QUICK, option(agent, node_port, "kafka")]) as source:
        topic = clients.create(source, clients.unique("mirrored"))
        clients.produce(source, topic, range(10))
        clients.read(source, topic)
        # A broker counts some of this after its answer.
        clients.wait_for("the figures of the node", lambda: not missing(figures(node_port), KAFKA))

        jvm = [*QUICK, option(agent, mirror_port, "mirror_maker")]
        with mirror_maker(source, brokers[0], tmp_path / "mirror", topics=re.escape(topic), jvm=jvm):

            def complete() -> bool:
                try:
                    return not missing(figures(mirror_port), MIRROR)
                except OSError:
                    return False

            clients.wait_for("the figures of the mirror", complete)
