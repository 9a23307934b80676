"""The faults of the scenario operate: what it expects of alerts, and what the pages list as proven."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.alert_rules import FILES, RULES
from kit.prometheus import promtool

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "molecule/operate/tests"
GUIDE = (ROOT / "docs/guides/monitoring.md").read_text()
QUICK_SECONDS = 45  # which a rule for a dead service waits
AVERAGED = re.compile(r"min_over_time|time\(\) - \w+ > \d{3,}")  # a condition that takes minutes itself
UNPROVEN = "## Alerts without a real fault"


@pytest.fixture(scope="module")
def module() -> Any:
    """Load the scenario's module, whose folder is on no path of these tests."""
    spec = importlib.util.spec_from_file_location("alert_faults", TESTS / "alert_faults.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def unproven() -> set[str]:
    section = (ROOT / "tests/README.md").read_text().partition(UNPROVEN)[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_alert_rule_has_fault_or_documented_reason(module: Any) -> None:
    proven = {alert["alertname"] for fault in module.FAULTS for alert in fault.alerts}
    assert proven & unproven() == set()
    assert proven | unproven() | {"Watchdog"} == RULES.keys()


def test_the_guide_lists_each_fault_with_its_alerts(module: Any) -> None:
    listed = re.findall(r"^\| ([^|]+) \| (`\w+` \([^)]*\)) \| \d+ \| \d+ \|$", GUIDE, re.MULTILINE)
    proofs = [
        module.Proof(
            fault=fault.name, alert=alert["alertname"], labels=module.shown(alert), to_fire=1, to_clear=1
        )
        for fault in module.FAULTS
        for alert in fault.alerts
    ]
    expected = re.findall(r"^\| ([^|]+) \| (.*) \| 1 \| 1 \|$", module.table(proofs), re.MULTILINE)
    assert listed == expected
    assert len(listed) == len(proofs)


def seconds(duration: str) -> int:
    """Return the seconds of a duration such as 45s or 5m; 0: there is none."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]] if duration else 0


def slow_rows() -> dict[str, tuple[int, int]]:
    """Return, by alert, the least and the most seconds that the guide gives for a slow one."""
    section = GUIDE.partition("These alerts fire later:")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.*`) \| (\d+)(?: to (\d+))? min \| .+ \|$", section, re.MULTILINE)
    return {
        name: (int(least) * 60, int(most or least) * 60)
        for names, least, most in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def test_the_guide_lists_each_rule_that_fires_late() -> None:
    """Those that wait for longer than the rules for dead services."""
    waits = {name: seconds(rule.get("for", "")) for name, rule in RULES.items()}
    late = {name for name, wait in waits.items() if wait > QUICK_SECONDS}
    averaged = {name for name, rule in RULES.items() if AVERAGED.search(rule["expr"])}
    assert len(late) > 20
    assert late - slow_rows().keys() == set()
    assert slow_rows().keys() - late - averaged == set(), "they fire at once"
    assert {name: most for name, (_, most) in slow_rows().items() if most < waits[name]} == {}


def test_the_guide_s_configurations_are_valid(module: Any, tmp_path: Path) -> None:
    config = module.prometheus_config(GUIDE, "/srv/estate", ("east", "west"))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert jobs.keys() == {"aqueduct-east", "aqueduct-west"}
    assert jobs["aqueduct-west"]["tls_config"]["cert_file"] == "/srv/estate/west/monitoring-west.pem"
    assert config["alerting"]
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    command = [promtool(), "check", "config", "--syntax-only", str(tmp_path / "prometheus.yml")]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    receivers = module.alertmanager_config(GUIDE, "http://localhost:1")["receivers"]
    assert {receiver["name"] for receiver in receivers} == {"tickets", "on-call", "dead-mans-switch"}


def test_alerts_of_planned_work_exclude_early_rule_copies(module: Any, tmp_path: Path) -> None:
    copies = module.early_rules(file.read_text() for file in FILES)
    rules = {rule["alert"]: rule for rule in copies["groups"][0]["rules"]}
    assert rules.keys() == module.COPIES.keys()
    assert rules["KafkaUnderReplicated"]["for"] == "30s"
    assert rules["KafkaUnderReplicated"]["expr"] == RULES["KafkaUnderReplicated"]["expr"]
    assert "tmpfs" not in rules["DiskFilling"]["expr"]
    series = {
        'node_filesystem_avail_bytes{fstype="tmpfs",mountpoint="/mnt/filling"}': "11+0x20",
        'node_filesystem_size_bytes{fstype="tmpfs",mountpoint="/mnt/filling"}': "100+0x20",
        'kafka_server_replicamanager_underreplicatedpartitions{instance="east-kafka-3"}': "2+0x20",
    }
    expressions = {f"count({module.FIRING})": 2, f"count({module.QUIET}) or vector(0)": 0}
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": expression, "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": count}]}
            for expression, count in expressions.items()
        ],
    }
    (tmp_path / "early.yml").write_text(yaml.safe_dump(copies))
    files = [*map(str, FILES), str(tmp_path / "early.yml")]
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": files, "evaluation_interval": "15s", "tests": [test]})
    )
    checked = subprocess.run(
        [promtool(), "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_times_are_those_of_prometheus(module: Any) -> None:
    began = {fault.name: 100.0 for fault in module.FAULTS}
    repaired = {fault.name: 200.0 for fault in module.FAULTS}
    history = [
        {"metric": {**alert, "severity": "page"}, "values": [[moment, "1"] for moment in range(160, 231)]}
        for fault in module.FAULTS
        for alert in fault.alerts
    ]
    proofs = list(module.proofs(history, began, repaired))
    assert {(proof.to_fire, proof.to_clear) for proof in proofs} == {(60, 30)}
    assert len(proofs) == len(history)
    assert module.missing([series["metric"] for series in history], module.FAULTS) == []
    assert len(module.missing([], module.FAULTS)) == len(history)


@pytest.mark.parametrize(
    ("mount_point", "is_reported"),
    [("/", True), ("/mnt/filling", True), ("/media/disk", True), ("/run/lock", False), ("/proc", False)],
)
def test_the_node_exporter_reports_file_systems_of_data(mount_point: str, is_reported: bool) -> None:
    """Debian's exporter ignores /mnt and /media, where data disks may be."""
    command = yaml.safe_load((ROOT / "roles/monitoring/vars/main.yml").read_text())[
        "_monitoring_node_command"
    ]
    [ignored] = re.findall(r"mount-points-exclude=([^']*)'", command)
    assert (re.search(ignored, mount_point) is None) == is_reported
