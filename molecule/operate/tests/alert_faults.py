"""The faults of this scenario with the alerts that they must fire, and how Prometheus and Alertmanager run.

A pure core: what a fault does to a host is in test_monitoring.py.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

Labels = Mapping[str, str]
ALERTMANAGER = "127.0.0.1:19093"  # not its default port 9093, which a broker of that host has
EVALUATED = 15  # seconds between two evaluations, as the guide sets them
# These copies of rules have the label `early`: the rest of the rule is the estate's own.
EARLY = "early"
COPIES: dict[str, dict[str, str]] = {
    # A quarter of an hour is proven by promtool (tests/contract/test_alerts.py).
    "KafkaUnderReplicated": {"for": "30s"},
    # A container has no block device of its own, so its full file system is a tmpfs.
    "DiskFilling": {"expr": "tmpfs|"},
}
QUIET = f'ALERTS{{alertstate="firing",alertname!="Watchdog",{EARLY}=""}}'
FIRING = 'ALERTS{alertstate="firing",alertname!="Watchdog"}'


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, and labels of each alert that it fires."""

    name: str
    alerts: tuple[Labels, ...]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """An alert of a fault, with the seconds until it fired and until it was cleared."""

    fault: str
    alert: str
    labels: str
    to_fire: float
    to_clear: float


def estate(kind: str, id_: str, name: str, alert: str = "EstateNeedsAction") -> Labels:
    """Return the labels of an alert about the state of the estate."""
    return {"alertname": alert, "kind": kind, "id": id_, "name": name}


def on_host(alert: str, host: str, **labels: str) -> Labels:
    return {"alertname": alert, "instance": host, **labels}


# In the order in which they begin. All of them last at the same time.
FAULTS = (
    Fault(
        name="the unit fault fails",
        alerts=(on_host("UnitFailed", "east-kafka-3", name="fault.service"),),
    ),
    Fault(
        name="a file system is 89 % full",
        alerts=(on_host("DiskFilling", "east-kafka-3", early="yes", mountpoint="/mnt/filling"),),
    ),
    Fault(
        name="a certificate ends in 10 days",
        alerts=(estate("certificate", "certificate-expiring", "monitoring-east at east-kafka-3"),),
    ),
    Fault(
        name="a backup of files fails, and no later one succeeds",
        alerts=(
            on_host("UnitFailed", "east-kafka-2", name="file_backup@east-kafka.service"),
            estate("backup", "unit-run-failed", "files east-kafka at east-kafka-2"),
            estate("backup", "backup-old", "files east-kafka at east-kafka-2"),
        ),
    ),
    Fault(
        name="a node exporter is gone",
        alerts=(on_host("HostDown", "west-controller-1"),),
    ),
    Fault(
        name="a metrics port is closed",
        alerts=(on_host("HostDown", "east-kafka-1"),),
    ),
    Fault(
        name="a host with the only broker of its site is gone",
        alerts=(
            on_host("HostDown", "west-broker-1"),
            on_host("KafkaDown", "west-broker-1"),
            {"alertname": "KafkaPartitionsOffline", "site": "west"},
            estate("host", "host-not-answering", "west-broker-1", "EstateUnknown"),
        ),
    ),
    Fault(
        name="a broker is stopped",
        alerts=(
            on_host("KafkaDown", "east-kafka-2"),
            on_host("KafkaUnderReplicated", "east-kafka-3", early="yes"),
            estate("broker", "unit-not-active", "east-kafka-2"),
        ),
    ),
    Fault(
        name="a second controller and broker of three is stopped",
        alerts=(
            {"alertname": "KafkaWithoutController", "site": "east"},
            {"alertname": "KafkaBelowMinIsr", "site": "east"},
        ),
    ),
)


def yaml_block(guide: str, first: str) -> str:
    """Return the YAML block of a guide that begins with these words."""
    blocks: list[str] = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if block.startswith(first)]
    return block


def prometheus_config(guide: str, folder: str, sites: Collection[str]) -> dict[str, Any]:
    """Return the guide's configuration with a job for each site, whose files are in a folder of its name."""
    block = yaml_block(guide, "global:")
    configs = {
        site: yaml.safe_load(
            block.replace("/etc/prometheus/aqueduct", f"{folder}/{site}").replace("pro1", site)
        )
        for site in sites
    }
    jobs = [
        {**job, "job_name": f"{job['job_name']}-{site}"}
        for site, config in configs.items()
        for job in config["scrape_configs"]
    ]
    merged = next(iter(configs.values()))
    alerting = {"alertmanagers": [{"static_configs": [{"targets": [ALERTMANAGER]}]}]}
    return {
        **merged,
        "alerting": alerting,
        "rule_files": [f"{folder}/rules/*.yml"],
        "scrape_configs": jobs,
    }


def alertmanager_config(guide: str, url: str) -> dict[str, Any]:
    """Return the guide's routes, with receivers that post to a path of `url`; groups wait a second."""
    route = yaml.safe_load(yaml_block(guide, "route:"))["route"]
    names = dict.fromkeys([route["receiver"], *(child["receiver"] for child in route["routes"])])
    receivers = [{"name": name, "webhook_configs": [{"url": f"{url}/{name}"}]} for name in names]
    return {"route": {**route, "group_wait": "1s", "group_interval": "5s"}, "receivers": receivers}


def early_rules(files: Iterable[str]) -> dict[str, Any]:
    """Return copies of the rules that fire too late for a test, or cannot in a container."""
    rules = [rule for file in files for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]
    return {"groups": [{"name": EARLY, "rules": [_early(rule) for rule in rules if rule["alert"] in COPIES]}]}


def _early(rule: Mapping[str, Any]) -> dict[str, Any]:
    changes = COPIES[rule["alert"]]
    expr = rule["expr"].replace(changes["expr"], "") if "expr" in changes else rule["expr"]
    return {
        **rule,
        "expr": expr,
        "for": changes.get("for", rule["for"]),
        "labels": {**rule["labels"], EARLY: "yes"},
    }


def shown(alert: Labels) -> str:
    """Return the labels that tell an alert of a fault from others of its name."""
    return ", ".join(text for label, text in alert.items() if label not in ("alertname", EARLY))


def has_labels(alert: Labels, expected: Labels) -> bool:
    return expected.items() <= alert.items()


def missing(alerts: Collection[Labels], faults: Iterable[Fault]) -> list[Labels]:
    """Return the expected alerts that are not among those that fire."""
    return [
        expected
        for fault in faults
        for expected in fault.alerts
        if not any(has_labels(alert, expected) for alert in alerts)
    ]


def span(history: Iterable[Mapping[str, Any]], expected: Labels) -> tuple[float, float]:
    """Return when an alert fired first and last, by the answer to a query over a range of time."""
    times = [
        float(moment)
        for series in history
        if has_labels(series["metric"], expected)
        for moment, _ in series["values"]
    ]
    return min(times), max(times)


def proofs(
    history: Collection[Mapping[str, Any]], began: Mapping[str, float], repaired: Mapping[str, float]
) -> Iterator[Proof]:
    """Yield a proof of each alert. `began` and `repaired` are times of faults, by name."""
    for fault in FAULTS:
        for expected in fault.alerts:
            first, last = span(history, expected)
            yield Proof(
                fault=fault.name,
                alert=expected["alertname"],
                labels=shown(expected),
                to_fire=first - began[fault.name],
                to_clear=max(0.0, last - repaired[fault.name]),
            )


def table(rows: Iterable[Proof]) -> str:
    """Return the rows of the guide's table of proven faults."""
    return "\n".join(
        f"| {row.fault} | `{row.alert}` ({row.labels}) | {row.to_fire:.0f} | {row.to_clear:.0f} |"
        for row in rows
    )
