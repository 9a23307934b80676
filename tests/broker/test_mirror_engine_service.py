"""A flow of the engine `batches` as its role runs it: mutual TLS, its own rights only, and its status."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation
from kit import clients
from kit.clients import unique
from kit.mirror_engine_flows import started

from aqueduct.cli import main
from aqueduct.estate.acls import flow_acls
from aqueduct.estate.model import Flow
from aqueduct.kafka import acls as kafka_acls
from aqueduct.kafka.admin.acls import grant_known
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.mirror.engine import position
from plugins.filter.units import option_file
from servers.broker import Broker


class Service:
    """A flow from one broker to another, which is declared as in an inventory."""

    def __init__(self, source: Broker, target: Broker, tmp_path: Path, **declared: Any) -> None:
        self.source, self.target = source, target
        site = unique("lake")  # its principal has no rights of other tests
        self.flow = Flow.of(site, {"source": unique("pro"), "engine": "batches", **declared})
        self._grant()
        self.folder = tmp_path
        self.configs = {
            "source": source.authority.client_config(f"mirror-{site}"),
            "target": target.authority.client_config(f"mirror-{site}"),
        }
        self.pattern = self.flow.topics_pattern
        self.refresh = "1s"
        self._report = tmp_path / "mirror.json"

    def _grant(self) -> None:
        for site, broker in ((self.flow.source, self.source), (self.flow.target, self.target)):
            entries = [
                asdict(acl) | {"principal": f"CN={acl.principal}"} for acl in flow_acls(site, [self.flow])
            ]
            with connect(End("cluster", broker.plaintext), "test") as client:
                refused = grant_known(client, kafka_acls.parse(entries))
            assert refused == {}

    @property
    def options(self) -> Mapping[str, Any]:
        """Return those of roles/mirror_maker/vars, with the addresses of the test."""
        return {
            "flow": self.flow.name,
            "source-bootstrap-server": self.source.tls,
            "source-command-config": str(self.configs["source"]),
            "target-bootstrap-server": self.target.tls,
            "target-command-config": str(self.configs["target"]),
            "topics-pattern": self.pattern,
            "groups-pattern": self.flow.groups_pattern,
            "target-prefix": self.flow.prefix,
            "tasks": self.flow.tasks,
            "replication-factor": 1,
            "refresh": self.refresh,
            "first-start": self.flow.first_start,
            "shared": True,
        }

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        file = self.folder / "replicate.yml"
        file.write_text(option_file(self.options))
        with started("replicate", f"--config={file}") as process:
            yield process

    @property
    def look(self) -> list[str]:
        return [
            *("mirror", f"--flow={self.flow.name}", "--engine=batches"),
            *(f"--topics-pattern={self.pattern}", f"--report={self._report}"),
            *(
                f"--source-bootstrap-server={self.source.tls}",
                f"--source-command-config={self.configs['source']}",
            ),
            *(
                f"--target-bootstrap-server={self.target.tls}",
                f"--target-command-config={self.configs['target']}",
            ),
        ]

    def reported(self) -> dict[str, Any]:
        return dict(json.loads(self._report.read_text()))


def test_service_needs_only_the_rights_of_its_flow(source: Broker, target: Broker, tmp_path: Path) -> None:
    topic = clients.create(source, unique("flights"), 3)
    group = unique("billing")
    clients.produce(source, topic, range(100), 1)
    clients.set_position(source, group, topic, 0)
    service = Service(source, target, tmp_path, topics=[topic], groups=[group], naming="prefix")
    arriving = f"{service.flow.name}.{topic}"
    assert main(service.look) == 3  # it has never run
    with service.running():
        assert main([*service.look, "--until-caught-up", "--wait=400s"]) == 0
        assert clients.records(target, arriving, 0, 1, 2) == clients.records(source, topic, 0, 1, 2)
        clients.grow(source, topic, 4)
        clients.configure(source, topic, retention_ms="987654321000")
        clients.produce(source, topic, range(10), 3)
        clients.wait_for("the new partition", lambda: clients.partition_of(target, arriving, 3) is not None)
        assert main([*service.look, "--until-caught-up", "--wait=400s"]) == 0
        clients.wait_for(
            "the setting",
            lambda: clients.settings_of(target, arriving)["retention.ms"] == "987654321000",
        )
        clients.wait_for("the group", lambda: clients.committed(target, group))
        on_a_host = subprocess.run(
            [*clients.BASE_ONLY, *service.look, "--started"], capture_output=True, text=True
        )
        assert on_a_host.returncode == 0, on_a_host.stdout + on_a_host.stderr
    assert clients.records(target, arriving, 3) == clients.records(source, topic, 3)


def test_status_shows_refused_partitions_and_dead_tasks(
    source: Broker, target: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = clients.create(source, unique("flights"), 2)
    service = Service(source, target, tmp_path, topics=[topic])
    clients.create(target, topic, 2, max_message_bytes="10000")
    with service.running():
        assert main([*service.look, "--wait=400s"]) == 0
        clients.produce(source, topic, [b"x" * 50_000])
        clients.produce(source, topic, [b"y"], 1)

        def is_refused() -> bool:
            """Return whether the status has the finding, and the position of the other partition."""
            if main(service.look) != 3:
                return False
            return {p["partition"]: p["behind"] for p in service.reported()["partitions"]} == {0: 1, 1: 0}

        clients.wait_for("the finding", is_refused)
        [finding] = service.reported()["findings"]
        assert finding.startswith("[record-too-large]")
        clients.configure(target, topic, max_message_bytes="100000")
        assert main([*service.look, "--until-caught-up", "--wait=400s"]) == 0
    monkeypatch.setattr(position, "SILENT_SECONDS", 1)
    clients.wait_for("the finding", lambda: main(service.look) == 3)
    assert {finding.split()[0] for finding in service.reported()["findings"]} == {"[mirror-task-silent]"}


def test_unauthorized_topics_of_flow_do_not_stop_others(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    topic, unread, unwritten = (clients.create(source, unique("flights"), 2) for _ in range(3))
    service = Service(source, target, tmp_path, topics=[topic], tasks=1)
    service.pattern = f"{topic}|{unread}|{unwritten}"
    service.refresh = "5s"  # at which each refused partition is tried again
    rights = {AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ, AclOperation.WRITE}
    principal = f"mirror-{service.flow.target}"
    for name in (unread, unwritten):
        clients.create(target, name, 2)
        clients.produce(source, name, range(10), 1)
    clients.allow(source, principal, unread, *rights - {AclOperation.READ})
    clients.allow(target, principal, unread, *rights)
    clients.allow(source, principal, unwritten, *rights)
    clients.allow(target, principal, unwritten, *rights - {AclOperation.WRITE})
    clients.produce(source, topic, range(10), 1)
    expected = {("cluster-request-failed", f"{unread}-1"), ("mirror-partition-rejected", f"{unwritten}-1")}
    with service.running() as process:
        clients.wait_for("the other topic", lambda: topic in clients.topics(target))
        clients.wait_for("its records", lambda: clients.ends(target, topic, 1)[0] >= 10)
        clients.wait_for("the findings", lambda: expected <= listed(service))
        clients.produce(source, topic, range(10), 0)
        clients.wait_for("more records", lambda: clients.ends(target, topic, 0)[0] >= 10)
        assert process.poll() is None


def listed(service: Service) -> set[tuple[str, str]]:
    """Return the identifiers and partitions that are not mirrored, by `aqueduct mirror`."""
    main(service.look)
    findings = (re.match(r"\[(.*?)\] Not mirrored: (.*?):", one) for one in service.reported()["findings"])
    return {(match[1], match[2]) for match in findings if match}
