"""The alert rules, as Prometheus's own promtool evaluates them on figures that the product exports.

Each alert fires on the figures that it is there for, alone, and is silent where they are just not bad enough.
"""

import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kit import estate_facts, exporter_names, link_ends
from kit.alert_rules import FILES, GROUPS, RULES
from kit.manifests import MANIFEST
from kit.prometheus import promtool
from prometheus_client import generate_latest

from aqueduct.control_node.status import metrics as status_metrics
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.land.metrics import LandFigures
from aqueduct.land.outcome import LandedTable
from aqueduct.link import downstream, keygen, metrics, options, udp, upstream
from aqueduct.link.dedup.metrics import DedupFigures
from aqueduct.link.dedup.share import DedupCounts
from aqueduct.link.feed import Feed
from aqueduct.link.filter import Filter
from aqueduct.link.outlet import Outlet
from aqueduct.link.wire.key_frame import Kind
from aqueduct.mirror.engine import metrics as mirror_metrics
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.task import TaskFigures
from aqueduct.snapshots.backup import verify_metrics
from aqueduct.snapshots.backup.metrics import BackupFigures
from aqueduct.snapshots.backup.run import BackupOutcome
from aqueduct.snapshots.drill import metrics as drill_metrics

ROOT = Path(__file__).resolve().parents[2]
LINK = ROOT / "docs/alerts/link.yml"
GUIDES = "".join((ROOT / f"docs/guides/{file.stem}.md").read_text() for file in FILES)
MINUTES = 60  # of figures, one a minute, in Prometheus's notation; alerts are looked at in the last one
SENDING, RECEIVING, DEDUP = (f"aqueduct-{name}" for name in ("diode-upstream", "diode-downstream", "dedup"))
PREFIXES = {
    "up": "aqueduct_diode_upstream_",
    "down": "aqueduct_diode_downstream_",
    "dedup": "aqueduct_dedup_",
    "land": "aqueduct_land_",
    "drill": "aqueduct_drill_",
    "status": "aqueduct_status_",
    "backup": "aqueduct_backup_",
    "mirror": "aqueduct_mirror_",
}
Series = dict[str, str]  # values, by series


@dataclass(frozen=True)
class Case:
    """A case of an alert: it fires on any of `fires`, and on none of `silent`."""

    fires: list[Series]
    silent: list[Series]


def always(value: float) -> str:
    return f"{value}+0x{MINUTES}"


def slope(start: float, a_minute: float) -> str:
    return f"{start}{a_minute:+}x{MINUTES}"


def step(minutes_ago: int, before: float = 0, after: float = 1) -> str:
    return f"{before}+0x{MINUTES - minutes_ago - 1} {after}+0x{minutes_ago}"


def counted(figure: str, minutes: int) -> Case:
    """Return a counter that rose within the last minutes, and one that did so earlier."""
    return Case([{figure: step(minutes - 2)}], [{figure: step(minutes + 2)}, {figure: always(7)}])


def down(job: str, minutes: int) -> Case:
    up, heard = f'up{{job="{job}",instance="a"}}', {BEAT: always(1)}
    return Case(
        [{up: step(minutes + 1, 1, 0)} | heard],
        [{up: always(1)} | heard, {up: step(minutes - 1, 1, 0)} | heard],
    )


def finding(state: str) -> str:
    return f'status:findings{{kind="flow",name="f",site="s",id="i",state="{state}"}}'


def above(figure: str, limit: float = 0) -> Case:
    return Case([{figure: always(limit + 1)}], [{figure: always(limit)}, {figure: step(0, limit, limit + 1)}])


def disk(free: int, kind: str = "ext4") -> Series:
    labels = f'{{fstype="{kind}",mountpoint="/"}}'
    return {
        f"node_filesystem_avail_bytes{labels}": always(free),
        f"node_filesystem_size_bytes{labels}": always(100),
    }


def unit(state: str) -> str:
    return f'node_systemd_unit_state{{name="x.service",state="{state}"}}'


def controller(instance: str) -> str:
    return f'{CONTROLLER}{{instance="{instance}",site="s"}}'


def task_failed(job: str) -> Case:
    def task(status: str) -> str:
        return f'kafka_connect_task_status{{connector="c",job="{job}",status="{status}",task="0"}}'

    return Case(
        [{task("failed"): always(1)}],
        [
            {task("running"): always(1)},
            {task("failed"): step(0)},
            {task("failed").replace(job, "x"): always(1)},
        ],
    )


def falls_behind(figure: str) -> Case:
    return Case([{figure: slope(1, 100)}], [{figure: slope(90_000, -100)}, {figure: always(5)}])


MIRROR_LAG, MIRROR_CONSUMED = (f"kafka_mirror_task_records_{name}" for name in ("lag_max", "consumed"))
CONTROLLER = "kafka_controller_kafkacontroller_activecontrollercount"
UP = f'up{{job="{RECEIVING}",instance="a"}}'
BEAT = 'down:beat_age{instance="a",kind="live"}'
COMMITTING = {"mirror:committed_time": slope(0, 60)}
LAND_UP = 'up{job="aqueduct-land",instance="a"}'
TABLE = '{table="lake.orders"}'
SILENT = 'land:silent_seconds{server="store"}'
LATE = {'land:late_total{table="lake.orders"}': "0+0x60"}
DRILLED_THERE = {'drill:time{instance="a"}': always(9)}
GOOD_ELSEWHERE = 'drill:succeeded_time{instance="b"}'
SECOND_HOST = 'down:beat_age{instance="b",kind="live"}'
CASES = {
    "LinkUpstreamDown": down(SENDING, 1),
    "LinkUpstreamFallsBehind": falls_behind("up:lag"),
    "LinkUpstreamPositionStands": Case(
        [{"up:records_total": slope(0, 9), "up:committed_time": always(0)}],
        [
            {"up:records_total": slope(0, 9), "up:committed_time": slope(0, 60)},
            {"up:records_total": always(9), "up:committed_time": always(0)},
        ],
    ),
    "LinkRecordTooLarge": counted("up:oversized_total", 15),
    "LinkTopicMissing": Case([{"up:unmatched": always(2)}], [{"up:unmatched": always(0)}]),
    "LinkSourceCut": Case([{"up:cut": always(1)}], [{"up:cut": always(0)}]),
    "LinkDatagramsNotTaken": Case(
        [{'up:refused_total{link="1"}': slope(0, 1)}],
        [{'up:refused_total{link="1"}': always(7)}, {'up:refused_total{link="1"}': step(3)}],
    ),
    "LinkFilterTooSlow": counted("up:filter_timeouts_total", 15),
    "LinkFilterUnread": counted("up:unread_total", 15),
    "LinkNotRepeated": counted("up:not_repeated_total", 15),
    "LinkDownstreamDown": down(RECEIVING, 1),
    "LinkSilent": Case(
        [{BEAT: always(16)}], [{BEAT: always(15)}, {'down:beat_age{kind="resend"}': always(99)}]
    ),
    "LinkNeverHeard": Case(
        [{UP: always(1)}, {UP: always(1), SECOND_HOST: always(1)}], [{UP: always(1), BEAT: always(1)}]
    ),
    "LinkKeyOld": Case(
        [{'down:key_age{kind="live"}': always(1801)}],
        [{'down:key_age{kind="live"}': always(1800)}, {'down:key_age{kind="resend"}': always(9999)}],
    ),
    "LinkClocksApart": Case(
        [{'down:key_age{kind="live"}': always(-61)}], [{'down:key_age{kind="live"}': always(-60)}]
    ),
    "LinkLoses": counted("down:blocks_lost_total", 10),
    "LinkParityNearlyUsedUp": Case(
        [{"down:shards_repaired_total": slope(0, 6), "down:shards_total": slope(0, 100)}],
        [{"down:shards_repaired_total": slope(0, 4), "down:shards_total": slope(0, 100)}],
    ),
    "LinkReceiveBufferTooSmall": counted("down:socket_dropped_total", 10),
    "LinkMemoryFull": counted("down:blocks_crowded_out_total", 10),
    "LinkKafkaTooSlow": Case(
        [{"down:waiting_bytes": always((64 << 20) + 1)}], [{"down:waiting_bytes": always(64 << 20)}]
    ),
    "LinkDroppedBeforeKafka": counted("down:dropped_total", 10),
    "LinkKafkaRefuses": counted("down:refused_total", 10),
    "LinkForged": Case(
        [
            {f"down:{what}_total": step(5)}
            for what in ("bad_tag", "keys_badly_signed", "keys_of_strangers")
        ],
        [{"down:bad_tag_total": step(12)}],
    ),
    "LinkKeyOfAnotherReceiver": counted("down:keys_for_others_total", 10),
    "LinkReplayed": Case(
        [{"down:keys_old_total": step(5)}, {"down:shards_old_total": slope(0, 61)}],
        [{"down:keys_old_total": step(12)}, {"down:shards_old_total": slope(0, 59)}],
    ),
    "LinkFloodOfKeys": Case(
        [{"down:keys_over_rate_total": slope(0, 1)}],
        [{"down:keys_over_rate_total": always(7)}, {"down:keys_over_rate_total": step(3)}],
    ),
    "DedupDown": down(DEDUP, 1),
    "DedupStandsStill": Case([{"dedup:round_time": always(0)}], [{"dedup:round_time": slope(0, 60)}]),
    "DedupFallsBehind": falls_behind("dedup:lag"),
    "DedupCommitsNothing": Case(
        [{"dedup:lag": always(1), "dedup:committed_time": always(0)}],
        [
            {"dedup:lag": always(0), "dedup:committed_time": always(0)},
            {"dedup:lag": always(1), "dedup:committed_time": slope(0, 60)},
        ],
    ),
    "LinkMissing": Case([{"dedup:missing": always(1)}], [{"dedup:missing": step(10)}]),
    "LinkLostForGood": Case([{"dedup:lost": step(30)}], [{"dedup:lost": always(9)}]),
    "LinkForeignTopic": counted("down:foreign_total", 15),
    "DedupQuarantines": counted("dedup:quarantined_total", 15),
    "DedupUnlisted": counted("dedup:unlisted_total", 15),
    "DedupContradicted": counted("dedup:contradicted_total", 15),
    "DedupCannotRead": counted("dedup:malformed_total", 15),
    "BackupDown": down("aqueduct-backup", 1),
    "BackupFails": counted("backup:failed_rounds_total", 15),
    "BackupOld": Case(
        # 48 hours, at 60 minutes past 0
        [{"backup:snapshot_time": always(-170_000)}],
        [{"backup:snapshot_time": always(-169_100)}],
    ),
    "BackupVerifyFailed": Case(
        [{"backup:verify_exit_code": always(1)}, {"backup:verify_exit_code": always(2)}],
        [{"backup:verify_exit_code": always(0)}, {"backup:verify_exit_code": always(3)}],
    ),
    "BackupNotVerified": Case(
        [{"backup:verify_succeeded_time": always(-8 * 86_400)}],
        [{"backup:verify_succeeded_time": always(3_600 - 8 * 86_400)}],
    ),
    "BackupWithoutSnapshot": Case(
        [{"backup:rounds_total": always(0)}],
        [
            {"backup:rounds_total": always(1), "backup:snapshot_time": always(0)},
            {"backup:rounds_total": f"_x{MINUTES - 20} 0+0x20"},
        ],
    ),
    "BackupSkips": Case(
        [{"backup:gaps": always(1)}, {"backup:left_out": always(2)}],
        [{"backup:gaps": always(0), "backup:left_out": always(0)}, {"backup:gaps": step(3)}],
    ),
    "MirrorCommitsNothing": Case(
        [{"mirror:lag": always(3), "mirror:committed_time": always(0)}, {"mirror:lag": always(3)}],
        [
            {"mirror:lag": always(3), "mirror:committed_time": slope(0, 60)},
            {"mirror:lag": always(0), "mirror:committed_time": always(0)},
            {"mirror:lag": step(1)},
        ],
    ),
    "MirrorRefuses": Case(
        [{"mirror:refused": always(2), "mirror:groups_skipped": always(1)}],
        [
            {"mirror:refused": always(1), "mirror:groups_skipped": always(1)},
            {"mirror:refused": step(3), "mirror:groups_skipped": always(0)},
        ],
    ),
    "MirrorLate": Case(
        # 1 record a second, so 301 and 299 seconds
        [{"mirror:records_total": slope(0, 60), "mirror:lag": always(301)} | COMMITTING],
        [
            {"mirror:records_total": slope(0, 60), "mirror:lag": always(299)} | COMMITTING,
            {"mirror:records_total": always(7), "mirror:lag": always(301)} | COMMITTING,
        ],
    ),
    "LandDown": Case([{LAND_UP: step(2, 1, 0)}], [{LAND_UP: always(1)}, {LAND_UP: step(0, 1, 0)}]),
    "LandCannotBegin": counted("land:failed_rounds_total", 5),
    "LandStandsStill": Case([{"land:round_time": always(0)}], [{"land:round_time": slope(0, 60)}]),
    "LandFails": Case(
        [{f"land:failures_total{TABLE}": slope(0, 1)}],
        [{f"land:failures_total{TABLE}": always(7)}, {f"land:failures_total{TABLE}": step(7)}],
    ),
    "LandServerSilent": Case(
        [{SILENT: always(5)}], [{SILENT: always(0)}, {SILENT: step(0, 0, 5)}]
    ),
    "LandFallsBehind": falls_behind(f"land:lag{TABLE}"),
    "LandMissed": Case(
        # Also where the service has just started, and its first round found the gap.
        [{f"land:missed_total{TABLE}": step(28)}, {f"land:missed_total{TABLE}": f"_x{MINUTES - 9} 7+0x9"}],
        [{f"land:missed_total{TABLE}": step(32)}, {f"land:missed_total{TABLE}": always(7)}],
    ),
    "LandSkipsBatches": Case(
        [
            {f"land:unopened_total{TABLE}": step(28)},
            {f"land:unopened_total{TABLE}": f"_x{MINUTES - 9} 7+0x9"},
        ],
        [{f"land:unopened_total{TABLE}": step(32)}, {f"land:unopened_total{TABLE}": always(7)}],
    ),
    "LandPoison": Case(
        [LATE | {f"land:bad_total{TABLE}": slope(0, 2), f"land:rows_total{TABLE}": slope(0, 100)}],
        [
            LATE | {f"land:bad_total{TABLE}": slope(0, 1), f"land:rows_total{TABLE}": slope(0, 100)},
            LATE | {f"land:bad_total{TABLE}": always(7), f"land:rows_total{TABLE}": always(7)},
            {
                f"land:bad_total{TABLE}": slope(0, 2),
                f"land:rows_total{TABLE}": slope(0, 100),
                f"land:late_total{TABLE}": slope(0, 900),
            },
        ],
    ),
    "DrillFailed": Case(
        [{"drill:exit_code": always(1)}, {"drill:exit_code": always(2)}],
        [{"drill:exit_code": always(0)}, {"drill:exit_code": step(4)}],
    ),
    "DrillIncomplete": Case([{"drill:exit_code": always(3)}], [{"drill:exit_code": always(0)}]),
    "NoGoodDrill": Case(
        [{"drill:succeeded_time": always(-8 * 86_400)}],
        [{"drill:succeeded_time": always(3_600 - 8 * 86_400)}, {"drill:succeeded_time": slope(0, 60)}],
    ),
    "NeverAGoodDrill": Case(
        [DRILLED_THERE, DRILLED_THERE | {GOOD_ELSEWHERE: slope(0, 60)}],
        [{'drill:time{instance="b"}': always(9), GOOD_ELSEWHERE: slope(0, 60)}],
    ),
    "DrillRestoresOldBackup": Case(
        [{"drill:snapshot_age": always(172_801)}], [{"drill:snapshot_age": always(172_800)}]
    ),
    "HostDown": down("aqueduct-monitoring", 1),
    "DiskFilling": Case(
        [disk(14), disk(0)], [disk(16), disk(14, "tmpfs")]
    ),
    "UnitFailed": Case(
        [{unit("failed"): always(1)}], [{unit("failed"): always(0)}, {unit("active"): always(1)}]
    ),
    "ClockApart": Case(
        [{"node_time_seconds": f"{seconds}+60x{MINUTES}"} for seconds in (6, -6)],
        [{"node_time_seconds": f"{seconds}+60x{MINUTES}"} for seconds in (5, -5)],
    ),
    "KafkaDown": down("aqueduct-kafka", 1),
    "KafkaPartitionsOffline": above("kafka_controller_kafkacontroller_offlinepartitionscount"),
    "KafkaBelowMinIsr": above("kafka_server_replicamanager_underminisrpartitioncount"),
    "KafkaWithoutController": Case(
        [{controller("a"): always(0), controller("b"): always(0)}],
        [{controller("a"): always(0), controller("b"): always(1)}],
    ),
    "KafkaLogFolderOffline": above("kafka_log_logmanager_offlinelogdirectorycount"),
    "KafkaUnderReplicated": Case(
        [{"kafka_server_replicamanager_underreplicatedpartitions": step(16)}],
        [{"kafka_server_replicamanager_underreplicatedpartitions": step(13)}],
    ),
    "KafkaTransactionsLate": Case(
        [{"kafka_server_replicamanager_partitionswithlatetransactionscount": step(6)}],
        [{"kafka_server_replicamanager_partitionswithlatetransactionscount": step(3)}],
    ),
    "MirrorDown": down("aqueduct-mirror-maker", 1),
    "MirrorTaskFailed": task_failed("aqueduct-mirror-maker"),
    "ConnectDown": down("aqueduct-connect", 1),
    "ConnectTaskFailed": task_failed("aqueduct-connect"),
    "ConnectDeadLetters": counted("kafka_connect_task_error_metrics_deadletterqueue_produce_requests", 5),
    "MirrorStuck": Case(
        [{MIRROR_LAG: always(5), MIRROR_CONSUMED: always(9)}],
        [
            {MIRROR_LAG: always(5), MIRROR_CONSUMED: slope(0, 9)},
            {MIRROR_LAG: always(0), MIRROR_CONSUMED: always(9)},
        ],
    ),
    "MirrorFallsBehind": falls_behind("kafka_mirror_task_records_lag_max"),
    "ZooKeeperDown": down("aqueduct-zookeeper", 1),
    "EstateNeedsAction": Case(
        [{finding("needs action"): always(1)}],
        [{finding("unknown"): always(0)}, {finding("well"): always(1)}],
    ),
    "EstateUnknown": Case([{finding("unknown"): always(1)}], [{finding("unknown"): step(0, 1, 0)}]),
    "EstateNotAsked": Case(
        [{"status:time": always(MINUTES * 60 - 901)}], [{"status:time": always(MINUTES * 60 - 900)}]
    ),
    "LandLeavesOut": Case(
        [{f"land:left_out{TABLE}": always(1)}],
        [{f"land:left_out{TABLE}": step(10)}, {f"land:left_out{TABLE}": always(0)}],
    ),
}  # fmt: skip


def full(series: str) -> str:
    """Spell out a figure's name: up:lag is aqueduct_diode_upstream_lag."""
    room, colon, figure = series.partition(":")
    return PREFIXES[room] + figure if colon else series


def figures(series: Iterable[str]) -> set[str]:
    return {re.split(r"\W", full(name))[0] for name in series}


FIGURES = figures(name for case in CASES.values() for series in case.fires + case.silent for name in series)
# With one of these, an expression may have a value without the figures that it names.
WITHOUT_FIGURES = {"absent", "absent_over_time", "scalar", "vector", "__name__"}


def rules_for(series: Iterable[str], groups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups with the rules that can fire on these figures alone.

    A rule that names only other figures of cases cannot. Evaluating all rules in each case takes minutes.
    """
    own = figures(series)

    def can_fire(rule: dict[str, Any]) -> bool:
        words = set(re.findall(r"\w+", rule["expr"]))
        return bool(words & (own | WITHOUT_FIGURES)) or not words & FIGURES

    chosen = [group | {"rules": [*filter(can_fire, group["rules"])]} for group in groups]
    return [group for group in chosen if group["rules"]]


def firing(directory: Path, cases: list[Series], groups: Sequence[dict[str, Any]] = GROUPS) -> list[set[str]]:
    """Ask promtool which alerts fire in the last minute, in each case."""
    # It prints what it got only where that isn't what it was told to expect.
    expected = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing",alertname!="Watchdog"})',
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": '{alertname="nobody"}', "value": 1}],
    }
    files = []
    for number, case in enumerate(cases):
        rules, file = directory / f"rules-{number}.yml", directory / f"test-{number}.yml"
        rules.write_text(yaml.safe_dump({"groups": rules_for(case, groups)}))
        test = {
            "interval": "1m",
            "input_series": [{"series": full(name), "values": values} for name, values in case.items()],
            "promql_expr_test": [expected],
        }
        content = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}
        file.write_text(yaml.safe_dump(content))
        files.append(file)
    done = subprocess.run([promtool(), "test", "rules", *files], capture_output=True, text=True)
    got = re.findall(r"^ *got:(.*)$", done.stdout + done.stderr, re.MULTILINE)
    assert len(got) == len(cases), done.stdout + done.stderr
    return [set(re.findall(r'alertname="(\w+)"', each)) for each in got]


def test_only_rules_of_other_figures_are_omitted() -> None:
    expressions = ["up == 0", "aqueduct_dedup_lag > 0", "aqueduct_land_round_time > 0"]
    always = ["absent(aqueduct_land_round_time)", "vector(1)", "aqueduct_unknown > 0"]
    group = {"name": "all", "rules": [{"expr": each} for each in (*expressions, *always)]}
    for series, kept in (([UP], expressions[:1]), (["dedup:lag", BEAT], expressions[1:2])):
        assert rules_for(series, [group]) == [
            group | {"rules": [{"expr": each} for each in (*kept, *always)]}
        ]
    assert rules_for([UP], [group | {"rules": group["rules"][1:3]}]) == []


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the alerts that fire in every case, by its series: promtool is started once."""
    cases = [series for case in CASES.values() for series in case.fires + case.silent]
    found = firing(tmp_path_factory.mktemp("promtool"), cases)
    return {str(series): alerts for series, alerts in zip(cases, found, strict=True)}


@pytest.mark.parametrize("alert", sorted(RULES.keys() - {"Watchdog"}))
def test_alert_fires_alone_on_intended_condition(alert: str, fired: dict[str, set[str]]) -> None:
    assert [fired[str(series)] for series in CASES[alert].fires] == [{alert}] * len(CASES[alert].fires)


@pytest.mark.parametrize("alert", sorted(RULES.keys() - {"Watchdog"}))
def test_alert_is_silent_just_below_firing_condition(alert: str, fired: dict[str, set[str]]) -> None:
    assert {str(series): fired[str(series)] for series in CASES[alert].silent if fired[str(series)]} == {}


# What is dead or stuck: series until the fault, and after it. Figures are collected each 15 seconds.
FAST: dict[str, list[tuple[str, str, str]]] = {
    **{
        f"{name}Down": [
            (f'up{{job="aqueduct-{job}",instance="a"}}', "1+0x40", "0+0x20"),
            (BEAT, "1+0x40", "1+0x20"),
        ]
        for name, job in (
            ("Host", "monitoring"),
            ("Kafka", "kafka"),
            ("Mirror", "mirror-maker"),
            ("Connect", "connect"),
            ("ZooKeeper", "zookeeper"),
            ("Land", "land"),
            ("Backup", "backup"),
            ("LinkUpstream", "diode-upstream"),
            ("LinkDownstream", "diode-downstream"),
            ("Dedup", "dedup"),
        )
    },
    "LinkSilent": [(BEAT, "1+0x40", "15+15x20")],
    "LandFails": [(f"land:failures_total{TABLE}", "0+0x40", "1+1x20")],
    "LandCannotBegin": [("land:failed_rounds_total", "0+0x40", "1+1x20")],
    "LandServerSilent": [(SILENT, "0+0x40", "5+15x20")],
    "MirrorTaskFailed": [
        ('kafka_connect_task_status{job="aqueduct-mirror-maker",status="failed"}', "_x41", "1+0x20")
    ],
    "ConnectTaskFailed": [
        ('kafka_connect_task_status{job="aqueduct-connect",status="failed"}', "_x41", "1+0x20")
    ],
    "MirrorStuck": [(MIRROR_LAG, "3+0x40", "3+9x20"), (MIRROR_CONSUMED, "0+9x40", "360+0x20")],
    "MirrorCommitsNothing": [
        ("mirror:lag", "0+0x40", "3+9x20"),
        ("mirror:committed_time", "0+15x40", "600+0x20"),
    ],
    "KafkaPartitionsOffline": [
        ("kafka_controller_kafkacontroller_offlinepartitionscount", "0+0x40", "2+0x20")
    ],
    "KafkaBelowMinIsr": [("kafka_server_replicamanager_underminisrpartitioncount", "0+0x40", "2+0x20")],
    "KafkaWithoutController": [(CONTROLLER, "1+0x40", "0+0x20")],
    "KafkaLogFolderOffline": [("kafka_log_logmanager_offlinelogdirectorycount", "0+0x40", "1+0x20")],
    "UnitFailed": [(unit("failed"), "0+0x40", "1+0x20")],
    "DiskFilling": [
        ('node_filesystem_avail_bytes{fstype="ext4"}', "20+0x40", "14+0x20"),
        ('node_filesystem_size_bytes{fstype="ext4"}', "100+0x40", "100+0x20"),
    ],
    "Watchdog": [("nothing", "_x41", "_x20")],
    "EstateNeedsAction": [(finding("needs action"), "_x41", "1+0x20")],
}


@pytest.mark.parametrize("alert", FAST)
def test_dead_or_stuck_service_fires_alert_within_minute(alert: str, tmp_path: Path) -> None:
    """The fault comes just after 10 minutes: the first figure that shows it is 15 seconds later."""
    expression = f'count(ALERTS{{alertstate="firing",alertname="{alert}"}}) or vector(0)'
    names = [name for name, _, _ in FAST[alert]]
    test = {
        "interval": "15s",
        "input_series": [
            {"series": full(series), "values": f"{before} {after}"} for series, before, after in FAST[alert]
        ],
        "promql_expr_test": [
            {"expr": expression, "eval_time": at, "exp_samples": [{"labels": "{}", "value": int(value)}]}
            for at, value in (("10m", alert == "Watchdog"), ("11m", 1))
        ],
    }
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": rules_for(names, GROUPS)}))
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [promtool(), "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_files() -> None:
    """Check them with promtool, their templates too."""
    done = subprocess.run([promtool(), "check", "rules", *FILES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(map(int, re.findall(r"(\d+) rules found", done.stdout))) == len(RULES)


def test_each_alert_has_a_name_of_its_own() -> None:
    assert len(RULES) == sum(len(group["rules"]) for group in GROUPS) > 15


# What the cases are made of is what the product exports.


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Collect the samples that real ends, dedup and a landing export, with the labels of each."""
    dedup = DedupFigures()
    dedup.add(DedupCounts(), 0.0)
    land = LandFigures(["lake.orders"], 0.0)
    land.hear({"store": 0.0})
    land.add([LandedTable(table="lake.orders")], {"lake.orders": 0}, 1.0)
    folder = tmp_path_factory.mktemp("drill")
    drill_metrics.write(folder / "drill.prom", 0, {"start": 1.0}, DRILLED)
    verified = verify_metrics.VerifiedSnapshot(number=1, damaged=0, seconds=1.0)
    verify_metrics.write(folder / "verify.prom", 0, verified)
    backup = BackupFigures()
    backup.add(BackupOutcome(manifest=MANIFEST, stored_bytes=1, left_out=(), seconds=1.0))
    mirror = MirrorFigures(tasks=(TaskFigures(committed_time=1.0),))
    with ExitStack() as stack:
        collectors: list[Any] = [
            SimpleNamespace(collect=dedup.all),
            SimpleNamespace(collect=land.all),
            SimpleNamespace(collect=backup.all),
            SimpleNamespace(collect=lambda: mirror_metrics.metrics(mirror)),
            SimpleNamespace(collect=lambda: metrics.upstream(sending(tmp_path_factory.mktemp("keys")))),
            SimpleNamespace(collect=lambda: metrics.downstream(receiving(stack))),
        ]
        lines = [
            line for each in collectors for line in generate_latest(each).decode().splitlines()
        ]  # fmt: skip
    lines += (folder / "drill.prom").read_text().splitlines()
    lines += (folder / "verify.prom").read_text().splitlines()
    lines += status_metrics.text(evaluate(DECLARED, estate_facts.facts({}))).splitlines()
    found = {name: {"", *(f"{label}=" for label in labels)} for name, labels in exporter_names.EVERY.items()}
    for line in lines:
        if sample := re.match(r"([a-z_]+)(?:\{(.*)\})? ", line):
            found.setdefault(sample[1], set()).update((sample[2] or "").split(","))
    return found


DECLARED = declared_objects(estate_facts.GROUPS, estate_facts.HOSTVARS, estate_facts.DEFAULTS)
# What the figures read of a drill's outcome.
DRILLED: Any = SimpleNamespace(
    snapshot=SimpleNamespace(manifest=SimpleNamespace(number=1)),
    **dict.fromkeys(("snapshot_age", "newest_age", "recovery_seconds", "records", "bytes"), 1),
    left_out=(),
    compared=SimpleNamespace(unequal=()),
    live=None,
)


def sending(keys: Path) -> upstream.UpstreamFigures:
    """Return the figures of a sending end that has read and sent nothing yet."""
    _, public = keygen.make("receiver", keys, "to", x25519=True)
    private, _ = keygen.make("sender", keys, "from", x25519=False)
    given = {
        "bootstrapServers": "localhost:1", "topic": "t", "targetIP": "127.0.0.1", "targetPort": "9",
        "publicKeyFile": str(public), "signingKeyFile": str(private),
    }  # fmt: skip
    settings = options.build(options.Upstream, None, {}, given, pytest.fail)
    nobody: Any = None  # no broker is asked for anything
    feed = Feed(nobody, nobody, "g", lambda _: True, session=1, shift=0, largest=1, from_time=None)
    outlet = Outlet(settings, settings.all_targets()[0], Kind.LIVE)
    outlet.begin(1)
    return upstream.UpstreamFigures(feed=feed, outlets=[outlet], filter=Filter.of(settings))


def receiving(stack: ExitStack) -> downstream.DownstreamFigures:
    """Return the figures of a receiving end that has the sender's key and a keepalive."""
    session, receiver = link_ends.pair()
    link_ends.receive(receiver, link_ends.datagrams(session.due(2.0, 5000)), time.monotonic())
    socket = stack.enter_context(closing(udp.ReceivingSocket(udp.resolve("127.0.0.1", 0))))
    return downstream.DownstreamFigures(receiver=receiver, socket=socket)


OF_TARGET = ("instance=", "job=", "site=")  # labels that Prometheus adds


def strange(series: Series, exported: dict[str, set[str]]) -> Iterator[str]:
    """Name figures, labels and jobs that nothing exports; what is about the host itself Prometheus adds."""
    for name, labels in (re.fullmatch(r"(\w+)(?:\{(.*)\})?", full(each)).groups() for each in series):  # type: ignore[union-attr]
        if name == "up":
            job = re.search(r'job="([^"]*)"', labels)[1]  # type: ignore[index]
            if not any(words in GUIDES for words in (f"job_name: {job}\n", f"job_name: {job} ", f"`{job}`")):
                yield f"no guide collects the job {job}"
        elif name not in exported:
            yield f"there is no figure {name}"
        else:
            own = {label for label in (labels or "").split(",") if not label.startswith(OF_TARGET)}
            # The values of `kind` and `link` are those of one session.
            known = {label.partition("=")[0] for label in exported[name]}
            yield from (f"{name} has no {label}" for label in own if label.partition("=")[0] not in known)


def test_the_cases_are_of_figures_that_there_are(exported: dict[str, set[str]]) -> None:
    used = [series for case in CASES.values() for series in case.fires + case.silent]
    assert [fault for series in used for fault in strange(series, exported)] == []
    assert 'kind="live"' in exported["aqueduct_diode_downstream_beat_age"]


@pytest.mark.parametrize("series", ["up:lags", 'down:beat_age{sort="live"}', 'up{job="aqueduct-diod"}'])
def test_a_figure_that_there_is_not_is_noticed(series: str, exported: dict[str, set[str]]) -> None:
    assert len(list(strange({series: ""}, exported))) == 1


# What it says.


def faults(rule: dict[str, Any]) -> Iterator[str]:
    if rule.get("labels", {}).get("severity") not in ("page", "ticket"):
        yield "it has no severity"
    for name in ("summary", "remedy"):
        if not re.search(r"\w.*\.$", rule.get("annotations", {}).get(name, ""), re.DOTALL):
            yield f"its {name} is no sentence"


@pytest.mark.parametrize("alert", RULES)
def test_alert_states_condition_and_remedy(alert: str) -> None:
    assert list(faults(RULES[alert])) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"labels": {}}, "it has no severity"),
        ({"annotations": {"summary": "All is well."}}, "its remedy is no sentence"),
    ],
)
def test_a_faulty_alert_is_found(changed: dict[str, Any], expected: str) -> None:
    [found] = faults({**RULES["LinkLoses"], **changed})
    assert expected in found


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("downstream_blocks_lost_total[10m]", "downstream_blocks_mislaid_total[10m]"),
        ("blocks_lost_total[10m]) > 0", "blocks_lost_total[10m]) > 1000"),
        ("blocks_lost_total[10m]) > 0", "blocks_lost_total[10m]) < 1000"),
    ],
)
def test_rule_with_wrong_expression_is_detected(right: str, wrong: str, tmp_path: Path) -> None:
    broken = LINK.read_text().replace(right, wrong)
    assert broken != LINK.read_text()
    case = CASES["LinkLoses"]
    expected = [{"LinkLoses"}] * len(case.fires) + [set()] * len(case.silent)
    groups = yaml.safe_load(broken)["groups"]
    assert firing(tmp_path, case.fires + case.silent, groups) != expected
