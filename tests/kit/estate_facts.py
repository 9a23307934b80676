"""An estate with one object of each kind, and the facts that healthy hosts report about it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.facts import HostFacts
from aqueduct.control_node.status.model import EstateStatus, StatusLimits
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.shared_checks import EstateFacts

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECONDS = NOW.timestamp()
DEFAULTS = {
    "kafka_metadata": "kraft",
    "kafka_roles": ["broker", "controller"],
    "kafka_port": 9092,
    "kafka_controller_port": 9093,
    "kafka_rack": "",
}
GROUPS = {
    "site_pro": ["pro-kafka-1"],
    "site_lake": ["lake-kafka-1", "lake-land-1"],
    "kafka": ["pro-kafka-1", "lake-kafka-1"],
    "mirror_maker": ["lake-kafka-1"],
    "connect": ["lake-kafka-1"],
    "diode_upstream": ["pro-kafka-1"],
    "diode_downstream": ["lake-kafka-1"],
    "dedup": ["lake-kafka-1"],
    "land": ["lake-land-1"],
    "backup": ["pro-kafka-1"],
    "file_backup": ["lake-land-1"],
    "drill": ["lake-land-1"],
}
SNAPSHOT = {"id": 1, "created": "2026-06-01T11:00:00.000Z", "newest_record": "2026-06-01T10:58:00.000Z"}
LETTERS = {
    "dlq": "files-dlq",
    "connector": "files",
    "topic": "flights",
    "error_class": "org.example.DataException",
    "records": 5,
    "sent_back": 5,
}
LETTERS_READ = {
    "topics": ["files-dlq"],
    "causes": [LETTERS],
    "older_offsets_not_read": 0,
    "older_offsets_not_read_by_topic": {"files-dlq": 0},
    "unknown": [],
}
LAKE: dict[str, Any] = {
    "mirror_maker_flows": [{"source": "pro", "topics": ["flights"]}],
    "connect_connectors": [{"name": "files", "config": {"topics": "flights"}}],
    "diode_downstream_links": [{"source": "pro", "number": 1, "topics": ["flights"]}],
}
HOSTVARS: dict[str, dict[str, Any]] = {
    "pro-kafka-1": {"kafka_node_id": 1},
    "lake-kafka-1": {"kafka_node_id": 2, **LAKE},
    "lake-land-1": {
        "land_tables": [{"table": "a.flights", "topics": ["flights"]}],
        "file_backup_sources": [{"name": "etc", "host": "pro-kafka-1", "folder": "/etc"}],
        "drill_site": "pro",
    },
}


@cache
def certificate(days: float) -> str:
    """Return a certificate that expires so many days after NOW."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=900))
        .not_valid_after(NOW + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(_pem()).decode()


def _pem() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.PEM


def answer(document: Any, code: int = 0, error: str = "") -> dict[str, Any]:
    return {"code": code, "output": json.dumps(document), "error": error}


def unit(state: str = "active", result: str = "success", ended: float = 0) -> dict[str, Any]:
    return {"state": state, "result": result, "changed": SECONDS - 60, "ended": ended, "version": "4.3.1"}


def cluster(node: int) -> dict[str, Any]:
    return {
        "cluster_id": "c",
        "brokers": [node],
        "fenced": [],
        "controllers": {"leader": node, "behind": {str(node): 0}},
        "partitions": 4,
        "offline": 0,
        "under_replicated": 0,
        "problems": [],
    }


def metrics(**values: float) -> str:
    return "".join(f"aqueduct_{name} {value}\n" for name, value in values.items())


def _host(principals: list[str], **facts: Any) -> dict[str, Any]:
    names = [*(f"{each.partition('-')[0]}/tls/{each}" for each in principals), "kafka/tls/ca"]
    return {
        "time": SECONDS,
        "asked": SECONDS - 1,
        "answered": SECONDS + 1,
        "failed_units": [],
        "disks": [{"path": "/", "size": 100, "free": 60}],
        "certificates": {f"/etc/aqueduct/{name}.pem": certificate(300) for name in names},
        **facts,
    }


def sound() -> dict[str, dict[str, Any]]:
    """Return the raw facts of each host of a healthy estate, as the control node collects them."""
    drill = metrics(
        drill_exit_code=0,
        drill_time=SECONDS - 3600,
        drill_succeeded_time=SECONDS - 3600,
        drill_recovery_seconds=40,
        drill_newest_record_age=70,
        drill_snapshot_age=60,
    )
    land = metrics(land_round_time=SECONDS - 5) + 'aqueduct_land_failures_total{table="a.flights"} 0\n'
    dedup = metrics(dedup_lag=0, dedup_missing=0, dedup_lost=0, dedup_round_time=SECONDS - 5)
    verify = metrics(
        backup_verify_exit_code=0,
        backup_verify_time=SECONDS - 3600,
        backup_verify_succeeded_time=SECONDS - 3600,
        backup_verify_snapshot=1,
    )
    backup = metrics(backup_rounds_total=9, backup_left_out=0, backup_gaps=0)
    beat = 'aqueduct_diode_downstream_beat_age{sender="ab",kind="live"} 1.5\n'
    partitions = [{"topic": "flights", "partition": 0, "behind": 3, "seconds": 1.25}]
    running = {"name": "files", "state": "RUNNING", "tasks": [{"task": 0, "state": "RUNNING", "reason": ""}]}
    table = {
        "table": "a.flights",
        "rows": 9,
        "bad": 1,
        "files": 2,
        "bytes": 50,
        "catalogue": "",
        "left_out": [],
        "partitions": [{"topic": "flights", "partition": 0, "landed": 8, "end": 10}],
    }
    return {
        "pro-kafka-1": _host(
            ["kafka-pro", "diode-upstream-pro", "backup-pro"],
            units={
                **{name: unit() for name in ("kafka", "diode_upstream@lake-pro", "backup")},
                "backup_verify": unit("inactive", ended=SECONDS - 3600),
            },
            services=["kafka", "diode_upstream@lake-pro", "backup"],
            runs=["backup_verify"],
            exporters=["diode_upstream@lake-pro", "backup"],
            metrics={
                "diode_upstream@lake-pro": metrics(diode_upstream_lag=0),
                "backup": backup,
                "backup_verify": verify,
            },
            answers={
                "cluster": answer(cluster(1)),
                "snapshots": answer([SNAPSHOT]),
            },
        ),
        "lake-kafka-1": _host(
            ["kafka-lake", "mirror-lake", "connect-lake", "diode-downstream-lake", "dedup-lake.pro"],
            units={
                name: unit()
                for name in ("kafka", "mirror_maker@pro", "connect", "diode_downstream@pro", "dedup@pro")
            },
            metrics={"diode_downstream@pro": beat, "dedup@pro": dedup},
            answers={
                "cluster": answer(cluster(2)),
                "flow:pro": answer(
                    {
                        "findings": [],
                        "partitions": partitions,
                        "tasks": [{"task": "Task 0", "running": True, "worker": "lake-kafka-1"}],
                    }
                ),
                "connect": answer({"findings": [], "left_out": [], "connectors": [running]}),
                "letters": answer(LETTERS_READ),
                "ledger:pro": answer({"results": []}, error="As of 3 s ago."),
            },
        ),
        "lake-land-1": _host(
            ["land-lake", "drill-lake"],
            units={"land": unit(), "file_backup@etc": unit("inactive", ended=SECONDS - 3600)},
            metrics={"land": land, "drill": drill},
            answers={"land": answer({"tables": [table]})},
        ),
    }


def facts(raw: Mapping[str, Any]) -> EstateFacts:
    hosts = {host: HostFacts.parse(host, each) for host, each in raw.items()}
    return EstateFacts(hosts=hosts, now=int(SECONDS * 1000), limits=StatusLimits())


def judged(host: str, name: str, printed: str, code: int, **changed: Any) -> EstateStatus:
    """Evaluate the healthy estate, with the real output of a command as the answer of one host."""
    raw = sound()
    raw[host]["answers"][name] = {"code": code, "output": printed, "error": ""}
    for table in changed.get("land_tables", ()):  # the service has figures of each table that it lands
        raw[host]["metrics"]["land"] += f'aqueduct_land_failures_total{{table="{table["table"]}"}} 0\n'
    hostvars = {**HOSTVARS, host: HOSTVARS[host] | changed}
    return evaluate(declared_objects(GROUPS, hostvars, DEFAULTS), facts(raw))
