"""The answers of all hosts of an estate that is made up, in the form in which the control node gathers them.

Each document is made by the function that prints it on a host, and each page of metrics by the code that
serves it. One cluster, and the objects beside it, have faults.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from aqueduct.cli.doctor import _connect_document as worker_document
from aqueduct.cli.doctor import _connector as connector_document
from aqueduct.cli.health import _document as cluster_document
from aqueduct.cli.letter_report import document as letters_document
from aqueduct.cli.snapshots import _json as snapshot_document
from aqueduct.common.topic_names import TopicPartition
from aqueduct.connect.connectors import ConnectorStatus, RunningConnector
from aqueduct.connect.letter_origins import LetterCount, LetterOrigin
from aqueduct.connect.letter_reading import LetterCensus
from aqueduct.control_node import certificates
from aqueduct.control_node.status.model import AUTHORITY, DeclaredObject, ObjectKind
from aqueduct.errors import ExitCode
from aqueduct.kafka.cluster import Cluster, Partition, Quorum, cluster_problems
from aqueduct.land import report as land_report
from aqueduct.land.metrics import LandFigures
from aqueduct.land.outcome import LandedTable, TableStatus
from aqueduct.land.plan import LandedPartition
from aqueduct.link import metrics as link_metrics
from aqueduct.link.dedup.metrics import DedupFigures
from aqueduct.link.dedup.share import DedupCounts
from aqueduct.link.ledger import bundle
from aqueduct.link.ledger.bundle import Bundle, MissingOffsets
from aqueduct.link.wire.counters import Counters
from aqueduct.link.wire.key_frame import Kind
from aqueduct.mirror import status as mirror_status
from aqueduct.mirror.status import FlowTask, Log, MirrorProgress
from aqueduct.snapshots.backup import verify_metrics
from aqueduct.snapshots.backup.metrics import BackupFigures
from aqueduct.snapshots.backup.verify_metrics import VerifiedSnapshot
from aqueduct.snapshots.drill import metrics as drill_metrics
from aqueduct.store.snapshots import Summary
from bench.regions import ROOT

TOPIC_PARTITIONS = 10
SNAPSHOTS = 200
FAULTY_SITE, FAULTY_LAKE = "r001pro1", "r001dwpro1"
STOPPED_BROKER = 3
SILENT_HOST = "files-1.r001pro1.example.com"
GIB = 1 << 30

Facts = dict[str, Any]


@dataclass(kw_only=True)
class HostAnswers:
    """The answers of all hosts. `now`: seconds since 1970."""

    declared: list[DeclaredObject]
    partitions: int  # of all clusters
    now: float
    hosts: dict[str, Facts] = field(default_factory=dict)

    def gather(self) -> dict[str, Facts]:
        of_kind = {
            ObjectKind.CLUSTER: self._cluster,
            ObjectKind.FLOW: self._flow,
            ObjectKind.LINK: self._link,
            ObjectKind.BACKUP: self._backup,
            ObjectKind.DRILL: self._drill,
            ObjectKind.CERTIFICATE: self._certificate,
        }
        self.hosts = {host.name: self._host(host.name) for host in self._of_kind(ObjectKind.HOST)}
        for declared in self.declared:
            if declared.kind in of_kind:
                of_kind[declared.kind](declared)
        for site in self._sites:
            self._connectors([each for each in self._of_kind(ObjectKind.CONNECTOR) if each.site == site])
            self._landings([each for each in self._of_kind(ObjectKind.LANDING) if each.site == site])
        self._break()
        return self.hosts

    def _of_kind(self, kind: ObjectKind) -> list[DeclaredObject]:
        return [declared for declared in self.declared if declared.kind == kind]

    @cached_property
    def _sites(self) -> list[str]:
        return [cluster.site for cluster in self._of_kind(ObjectKind.CLUSTER)]

    def topic_partitions(self, site: str) -> list[TopicPartition]:
        """Return the partitions of a cluster: its share of all partitions, ten of each topic."""
        share, more = divmod(self.partitions, len(self._sites))
        number = share + (self._sites.index(site) < more)
        return [
            TopicPartition(f"topic-{partition // TOPIC_PARTITIONS:02}", partition % TOPIC_PARTITIONS)
            for partition in range(number)
        ]

    def _host(self, name: str) -> Facts:
        """Return what `host_facts` gathers of each host, and the action `host_status` adds."""
        return {
            "time": self.now,
            "asked": self.now - 0.5,
            "answered": self.now + 0.5,
            "units": {},
            "services": [],
            "runs": [],
            "exporters": [],
            "failed_units": [],
            "disks": [
                {"path": "/", "size": 40 * GIB, "free": 25 * GIB},
                {"path": "/var/lib/kafka", "size": 2000 * GIB, "free": 900 * GIB},
            ],
            "unmeasured": [],
            "certificates": {},
            "metrics": {},
            "answers": {},
        }

    # A service, a page of metrics and an answer of a host.

    def _service(self, host: str, unit: str, page: Iterable[Metric] | None = None) -> None:
        if unit not in self.hosts[host]["services"]:
            self.hosts[host]["services"].append(unit)
            self.hosts[host]["units"][unit] = self._unit()
        if page is not None:
            self.hosts[host]["exporters"].append(unit)
            self.hosts[host]["metrics"][unit] = metrics_page(page)

    def _run(self, host: str, unit: str) -> None:
        self.hosts[host]["runs"].append(unit)
        self.hosts[host]["units"][unit] = self._unit("inactive", ended=self.now - 3600)

    def _unit(self, state: str = "active", *, result: str = "success", ended: float = 0) -> Facts:
        properties = {
            "LoadState": "loaded",
            "ActiveState": state,
            "Result": result,
            "StateChangeTimestamp": f"@{self.now - 86_400:.0f}",
            "ExecMainExitTimestamp": f"@{ended:.0f}" if ended else "",
        }
        return {**host_facts().state(properties), "version": "4.3.1"}

    def _answer(self, host: str, name: str, document: Any, code: int = 0, error: str = "") -> None:
        """Set the answer of a command, as `bounded_commands.answer` returns it."""
        output = document if isinstance(document, str) else json.dumps(document, indent=2)
        self.hosts[host]["answers"][name] = {"code": code, "output": f"{output}\n", "error": error}

    # The objects.

    def _cluster(self, declared: DeclaredObject) -> None:
        nodes = {
            node.node_id: node.kind == ObjectKind.CONTROLLER
            for kind in (ObjectKind.BROKER, ObjectKind.CONTROLLER)
            for node in self._of_kind(kind)
            if node.site == declared.site and node.node_id is not None
        }
        stopped = {STOPPED_BROKER} if declared.site == FAULTY_SITE else set[int]()
        brokers = sorted(nodes)
        state = Cluster(
            cluster_id=declared.site,
            brokers=frozenset(nodes.keys() - stopped),
            fenced=frozenset(stopped),
            partitions=tuple(
                _partition(partition, number, brokers, stopped)
                for number, partition in enumerate(self.topic_partitions(declared.site))
            ),
            quorum=Quorum(
                brokers[0],
                {node: None if node in stopped else 20 for node, votes in nodes.items() if votes},
                {},
            ),
        )
        code = ExitCode.FAILED if cluster_problems(state) else ExitCode.DONE
        document = cluster_document(state, brokers)
        for host in declared.hosts:
            self._service(host, "kafka")
            self._answer(host, "cluster", document, code)

    def _flow(self, declared: DeclaredObject) -> None:
        """Answer as `aqueduct mirror --json` does, on each host. All partitions are mirrored."""
        progress = [
            MirrorProgress(partition=partition, next=999_990, log=Log(1000, 1_000_000), drained=False)
            for partition in self.topic_partitions(declared.source)
        ]
        ages = {partition.partition: 0.125 for partition in progress}
        is_faulty = declared.source == FAULTY_SITE and declared.site == FAULTY_LAKE
        failed = "[mirror-task-failed] Task 1 of MirrorSourceConnector failed: no broker answers."
        findings = [failed] if is_faulty else []
        content = mirror_status.report(findings, progress, (), (), ages)
        content["tasks"] = mirror_status.tasks_report(
            [
                FlowTask(name=f"Task {number}", is_running=True, worker=declared.hosts[number % 2])
                for number in range(4)
            ]
        )
        code = ExitCode.INCOMPLETE if findings else ExitCode.DONE
        document = {**self._report("mirror", code), **content, "unknown": []}
        for host in declared.hosts:
            self._service(host, f"mirror_maker@{declared.details['flow']}")
            self._answer(host, f"flow:{declared.details['flow']}", document, code)

    def _report(self, verb: str, code: int) -> Facts:
        """Return the beginning of a report."""
        time = datetime.fromtimestamp(self.now, UTC).isoformat(timespec="milliseconds")
        return {"verb": verb, "exit_code": int(code), "started": time, "ended": time}

    def _link(self, declared: DeclaredObject) -> None:
        self._service(
            declared.source_host,
            declared.details["upstream_unit"],
            link_metrics.upstream(_upstream(self.now)),
        )
        downstream = declared.details["downstream"]
        unit = f"diode_downstream@{declared.details['link']}"
        self._service(downstream, unit, link_metrics.downstream(_downstream()))
        missing = 500 if declared.source == FAULTY_SITE else 0
        figures = DedupFigures()
        figures.add(
            DedupCounts(records=10_000_000, missing=missing, committed_time=self.now - 5), self.now - 5
        )
        self._service(downstream, f"dedup@{declared.source}", figures.all())
        results = [
            MissingOffsets(topic=partition.topic, partition=partition.partition, gaps=[(1000, 1004)])
            for partition in (self.topic_partitions(declared.source)[:100] if missing else ())
        ]
        self._answer(downstream, f"ledger:{declared.source}", bundle.dumps(Bundle("all", results)))

    def _connectors(self, connectors: list[DeclaredObject]) -> None:
        """Answer as `aqueduct doctor connect --json` and `aqueduct dlq list --json` do, on each worker."""
        running = [
            RunningConnector(
                name=declared.details["connector"],
                config={},
                statuses=tuple(
                    ConnectorStatus(task=task, state="RUNNING", worker="connect-1:8083", trace="")
                    for task in (None, 0, 1)
                ),
                type="sink",
            )
            for declared in connectors
        ]
        unmatched: dict[str, tuple[str, ...]] = {connector.name: () for connector in running}
        is_faulty = any(declared.site == FAULTY_LAKE for declared in connectors)
        if is_faulty:
            failed = ConnectorStatus(
                task=1,
                state="FAILED",
                worker="connect-2:8083",
                trace="org.apache.kafka.connect.errors.ConnectException: disk full",
            )
            [whole, first, _] = running[0].statuses
            running[0] = RunningConnector(
                name=running[0].name, config={}, statuses=(whole, first, failed), type="sink"
            )
        topics = [declared.details["dead_letters"] for declared in connectors]
        milliseconds = int(self.now * 1000)
        census = LetterCensus(
            topics=topics,
            counts=[
                LetterCount(
                    dead_letters=topic,
                    origin=LetterOrigin(
                        declared.details["connector"], "topic-00", "org.example.DataException"
                    ),
                    records=40,
                    replayed=0 if is_faulty and number == 1 else 40,
                    oldest=milliseconds - 86_400_000,
                    newest=milliseconds - 3_600_000,
                )
                for number, (topic, declared) in enumerate(zip(topics, connectors, strict=True))
            ],
            unread_by_topic=dict.fromkeys(topics, 0),
        )
        content = {
            **self._report("doctor connect", ExitCode.DONE),
            **worker_document([], []),
            "connectors": [connector_document(connector, unmatched) for connector in running],
        }
        for host in connectors[0].hosts if connectors else ():
            for unit in ("connect", "connect_ports", "connect_rest"):
                self._service(host, unit)
            self._answer(host, "connect", content)
            self._answer(host, "letters", letters_document(census))

    def _landings(self, tables: list[DeclaredObject]) -> None:
        """Answer as `aqueduct land status --json` does. The tables share what the site's flows mirror."""
        if not tables:
            return
        site = tables[0].site
        arriving = [
            TopicPartition(f"{flow.details['flow']}.{partition.topic}", partition.partition)
            for flow in self._of_kind(ObjectKind.FLOW)
            if flow.site == site
            for partition in self.topic_partitions(flow.source)
        ]
        time = datetime.fromtimestamp(self.now - 30, UTC).isoformat()
        statuses = [
            TableStatus(
                table=declared.details["table"],
                commits=1000,
                committed=time,
                files=400,
                rows=10_000_000,
                bytes=10**10,
                late=None,
                bad=12,
                compacted=time,
                partitions={
                    partition: LandedPartition(
                        landed=10 if site == FAULTY_LAKE and number == 0 else 999_990, start=0, end=1_000_000
                    )
                    for partition in arriving[number :: len(tables)]
                },
                deleted={},
                unopened={},
                catalogue="",
            )
            for number, declared in enumerate(tables)
        ]
        figures = LandFigures([table.table for table in statuses], self.now)
        landed = [LandedTable(table=table.table, commits=1, rows=1000) for table in statuses]
        figures.add(landed, {table.table: 1000 for table in statuses}, self.now - 5)
        for host in dict.fromkeys(host for declared in tables for host in declared.hosts):
            self._service(host, "land", figures.all())
            self._run(host, "land_compact")
            document = {
                **self._report("land status", land_report.status_code(statuses)),
                **land_report.status_report(statuses),
            }
            self._answer(host, "land", document, land_report.status_code(statuses))

    def _backup(self, declared: DeclaredObject) -> None:
        [host] = declared.hosts
        unit = declared.details["unit"]
        if unit != "backup":
            self._run(host, unit)
            return
        skipped = [0] * (2 if declared.site == FAULTY_SITE else 0)
        manifest = SimpleNamespace(segments=(), number=SNAPSHOTS, started=self.now * 1000, gaps=())
        outcome = SimpleNamespace(manifest=manifest, stored_bytes=10**9, seconds=40.0, left_out=skipped)
        figures = BackupFigures()
        figures.add(cast(Any, outcome))
        self._service(host, "backup", figures.all())
        self._run(host, "backup_verify")
        self.hosts[host]["metrics"]["backup_verify"] = _written_verify()
        topics = len(self.topic_partitions(declared.site)) // TOPIC_PARTITIONS
        self._answer(
            host, "snapshots", [self._snapshot(number, topics) for number in range(1, SNAPSHOTS + 1)]
        )

    def _snapshot(self, number: int, topics: int) -> Facts:
        created = int((self.now - 3600 * (SNAPSHOTS - number) - 600) * 1000)
        return snapshot_document(
            Summary(
                number=number,
                created=created,
                topics=topics,
                records=10_000_000,
                unpacked_bytes=10**10,
                stored_bytes=10**9,
                gaps=0,
                newest_time=created - 1000,
                generations=(),
                instances=(),
            )
        )

    def _drill(self, declared: DeclaredObject) -> None:
        [host] = declared.hosts
        self._run(host, "drill")
        self.hosts[host]["metrics"]["drill"] = _written_drill()

    def _certificate(self, declared: DeclaredObject) -> None:
        if declared.details.get("is") == AUTHORITY:
            return
        [host] = declared.hosts
        principal = declared.details["principal"]
        folder = f"/etc/aqueduct/{principal.rpartition('-')[0] or principal}/tls"
        days = 10 if declared.site == FAULTY_SITE else 300
        self.hosts[host]["certificates"] |= {
            f"{folder}/{principal}.pem": certificate(days),
            f"{folder}/ca.pem": certificate(3000),
        }

    def _break(self) -> None:
        """Stop a broker, fail its unit, fill its disk, and silence another host."""
        broker = self.hosts[f"kafka-{STOPPED_BROKER}.{FAULTY_SITE}.example.com"]
        broker["units"]["kafka"] = self._unit("failed", result="exit-code")
        broker["failed_units"] = ["kafka.service"]
        broker["disks"][1]["free"] = 10 * GIB
        broker["time"] += 60
        self.hosts[SILENT_HOST] = {"error": "Failed to connect to the host via ssh: No route to host"}


def _partition(partition: TopicPartition, number: int, brokers: list[int], stopped: set[int]) -> Partition:
    replicas = tuple(brokers[(number + replica) % len(brokers)] for replica in range(min(3, len(brokers))))
    in_sync = tuple(node for node in replicas if node not in stopped)
    return Partition(
        topic=partition.topic,
        number=partition.partition,
        leader=None if stopped and number % 50 == 0 else in_sync[0],
        replicas=replicas,
        in_sync=in_sync,
    )


def metrics_page(metrics: Iterable[Metric]) -> str:
    """Return the page that an exporter serves."""
    return generate_latest(cast(CollectorRegistry, SimpleNamespace(collect=lambda: metrics))).decode()


@cache
def host_facts() -> ModuleType:
    """Import the module that gathers facts on a host."""
    sys.path.append(str(ROOT / "collections"))
    spec = spec_from_file_location("host_facts", ROOT / "plugins/modules/host_facts.py")
    if spec is None or spec.loader is None:
        raise ImportError("host_facts")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def certificate(days: int) -> str:
    """Return a certificate of the estate's own authority that is valid for so many days."""
    now = certificates.utc_now()
    key = ec.generate_private_key(ec.SECP256R1())
    public_key = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    request = certificates.Wanted(
        principal="kafka-pro1",
        names=("kafka-1.pro1.example.com",),
        usages=certificates.SERVICE,
        validity_days=days,
        renewal_days=5,
    )
    with tempfile.TemporaryDirectory() as folder:
        authority, _ = certificates.have_authority(Path(folder), now)
    return certificates.issue(public_key.decode(), request, authority, now)


def _upstream(now: float) -> Any:
    """Return the figures of the sending end of a link, as far as its metrics show them."""
    feed = SimpleNamespace(records=10**7, bytes=10**9, oversized=0, cut=0, unmatched=0, lag=lambda: 0)
    sent = SimpleNamespace(values=10**6, blocks=10**5, datagrams=10**6, bytes=10**9)
    session = SimpleNamespace(sent=sent, key_number=7)
    outlet = SimpleNamespace(target=SimpleNamespace(link=1), session=session, refused=0)
    rules = SimpleNamespace(withheld=0, unread=0, timeouts=0)
    return SimpleNamespace(
        feed=feed, outlets=[outlet], filter=rules, position_committed=now, repeated=0, not_repeated=0
    )


def _downstream() -> Any:
    """Return the figures of the receiving end of a link, as far as its metrics show them."""
    sight = SimpleNamespace(
        sender="0123456789abcdef",
        kind=Kind.LIVE,
        key_created=time.time() * 1000,
        beat=True,
        beat_at=time.monotonic() - 1,
        missing=0,
    )
    receiver = SimpleNamespace(counters=Counters(), sessions=lambda: [sight])
    return SimpleNamespace(
        receiver=receiver,
        socket=SimpleNamespace(dropped=0),
        written=10**7,
        refused=0,
        foreign=0,
        dropped=0,
        waiting_bytes=0,
    )


@cache
def _written_verify() -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "verify.prom")
        verify_metrics.write(file, 0, VerifiedSnapshot(number=SNAPSHOTS, damaged=0, seconds=100.0))
        return file.read_text()


@cache
def _written_drill() -> str:
    outcome = SimpleNamespace(
        snapshot=SimpleNamespace(manifest=SimpleNamespace(number=SNAPSHOTS)),
        snapshot_age=600.0,
        newest_age=601.0,
        recovery_seconds=90.0,
        records=10**7,
        bytes=10**9,
        left_out=(),
        compared=SimpleNamespace(unequal=()),
        live=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "drill.prom")
        drill_metrics.write(file, 0, {"restore": 60.0}, cast(Any, outcome))
        return file.read_text()
