"""The state of each kind of object: well, needs action, unknown, not asked from here."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kit.estate_facts import (
    DEFAULTS,
    GROUPS,
    HOSTVARS,
    LETTERS,
    SECONDS,
    answer,
    certificate,
    cluster,
    facts,
    metrics,
    sound,
    unit,
)

from aqueduct.common import timestamps
from aqueduct.control_node.status import first_sight, report
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.facts import HostFacts, metric
from aqueduct.control_node.status.model import (
    EstateStatus,
    ObjectKind,
    ObjectState,
    ObjectStatus,
    StatusLimits,
)
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.shared_checks import EstateFacts
from aqueduct.errors import ExitCode, Refused
from aqueduct.messages import MESSAGES

Raw = dict[str, Any]
DECLARED = declared_objects(GROUPS, HOSTVARS, DEFAULTS)
PRO, LAKE, LAND = "pro-kafka-1", "lake-kafka-1", "lake-land-1"


def judged(raw: Raw, **options: Any) -> EstateStatus:
    return evaluate(DECLARED, facts(raw), **options)


def of(status: EstateStatus, kind: ObjectKind, name: str = "") -> ObjectStatus:
    return next(each for each in status.objects if each.declared.kind == kind and name in each.declared.name)


def ids(status: ObjectStatus) -> set[str]:
    return {each.id for each in status.findings}


def test_each_kind_is_declared() -> None:
    assert {each.kind for each in DECLARED} == set(ObjectKind)


def test_a_sound_estate_is_well() -> None:
    status = judged(sound())
    assert [(each.declared, each.findings) for each in status.objects if each.state != ObjectState.WELL] == []
    assert status.exit_code == ExitCode.DONE


def test_figures_are_those_of_the_hosts() -> None:
    status = judged(sound())
    flow = of(status, ObjectKind.FLOW).figures
    assert (flow["partitions"], flow["lag"], flow["lag_seconds"]) == (1, 3, 1.2)
    assert (flow["tasks"], flow["running_tasks"]) == (1, 1)
    assert of(status, ObjectKind.BACKUP, "topics").figures["newest_record_age"] == 3720
    assert of(status, ObjectKind.BROKER).figures["version"] == "4.3.1"


def verify_metrics(**changed: float) -> str:
    values = {"exit_code": 0, "time": SECONDS - 60, "succeeded_time": SECONDS - 60} | changed
    return metrics(**{f"backup_verify_{name}": value for name, value in values.items()})


def test_verify_with_only_expired_segments_finds_no_damage() -> None:
    raw = sound()
    put(PRO, "metrics", "backup_verify", verify_metrics(exit_code=3))(raw)
    backup = of(judged(raw), ObjectKind.BACKUP, "topics")
    assert (backup.state, backup.figures["verified_age"]) == (ObjectState.WELL, 60)


def test_backup_without_verify_timer_needs_no_verify() -> None:
    raw = sound()
    del raw[PRO]["units"]["backup_verify"], raw[PRO]["metrics"]["backup_verify"], raw[PRO]["runs"]
    backup = of(judged(raw), ObjectKind.BACKUP, "topics")
    assert (backup.state, "verified_age" in backup.figures) == (ObjectState.WELL, False)


def backup_metrics(**changed: float | None) -> str:
    """Return the metrics of the backup service; None: it has no such metric."""
    values: dict[str, float | None] = {"rounds_total": 9, "left_out": 0, "gaps": 0}
    shown = {name: value for name, value in (values | changed).items() if value is not None}
    return metrics(**{f"backup_{name}": value for name, value in shown.items()})


def test_backup_shows_what_its_newest_round_skipped() -> None:
    raw = sound()
    put(PRO, "metrics", "backup", backup_metrics(left_out=7, gaps=3))(raw)
    backup = of(judged(raw), ObjectKind.BACKUP, "topics")
    assert (backup.figures["skipped"], backup.figures["gaps"]) == (7, 3)
    assert of(judged(sound()), ObjectKind.BACKUP, "topics").figures["skipped"] == 0


def test_one_shot_backup_needs_no_metrics() -> None:
    """Without a service, as without its port of metrics, none are asked for."""
    raw = sound()
    del raw[PRO]["units"]["backup"], raw[PRO]["metrics"]["backup"]
    raw[PRO] |= {"services": [], "exporters": []}
    backup = of(judged(raw), ObjectKind.BACKUP, "topics")
    assert (backup.state, "skipped" in backup.figures) == (ObjectState.WELL, False)
    raw = sound()
    del raw[PRO]["metrics"]["backup"], raw[PRO]["exporters"]
    assert of(judged(raw), ObjectKind.BACKUP, "topics").state == ObjectState.WELL


def test_dead_letters_within_limit_cause_no_finding() -> None:
    raw = sound()
    answered(LAKE, "letters", causes=[LETTERS | {"sent_back": 3}])(raw)
    within = EstateFacts(hosts=facts(raw).hosts, now=int(SECONDS * 1000), limits=StatusLimits(dead_letters=2))
    status = of(evaluate(DECLARED, within), ObjectKind.CONNECTOR)
    assert (status.state, status.figures["dead_letters"]) == (ObjectState.WELL, 2)


def test_seconds_that_are_not_known_are_no_number() -> None:
    raw = sound()
    partitions = [{"behind": 1, "seconds": 2.0}, {"behind": 1, "seconds": None}]
    raw[LAKE]["answers"]["flow:pro"] = answer({"findings": [], "partitions": partitions})
    raw[PRO]["answers"]["snapshots"] = answer([{"created": "2026-06-01T11:00:00Z", "newest_record": None}])
    status = judged(raw)
    assert of(status, ObjectKind.FLOW).figures["lag_seconds"] is None
    assert of(status, ObjectKind.BACKUP, "topics").figures["newest_record_age"] is None


def test_without_facts_all_is_unknown() -> None:
    status = judged({})
    assert {each.state for each in status.objects} == {ObjectState.UNKNOWN}
    assert status.exit_code == ExitCode.FAILED, "no host answered"


def test_single_answer_leaves_other_objects_unknown() -> None:
    status = judged({PRO: sound()[PRO]})
    assert status.exit_code == ExitCode.INCOMPLETE
    for each in status.objects:
        if set(each.declared.hosts) - {PRO}:
            assert each.state == ObjectState.UNKNOWN, each.declared


@pytest.mark.parametrize("host", [PRO, LAKE, LAND])
def test_host_without_answers_leaves_objects_unknown(host: str) -> None:
    raw = sound()
    raw[host] = {}
    status = judged(raw)
    for each in status.objects:
        if each.declared.hosts == (host,):
            expected = {ObjectState.UNKNOWN}
            if each.declared.kind == ObjectKind.DRILL:  # the host answered, and has no figures of a drill
                expected = {ObjectState.NEEDS_ACTION}
            assert each.state in expected, each.declared


@pytest.mark.parametrize("garbage", [7, "x", [], {"units": 3}, {"units": {"kafka": 3}}, {"disks": [{}]}])
def test_an_answer_of_another_form_is_none(garbage: Any) -> None:
    status = judged(sound() | {LAND: garbage})
    assert of(status, ObjectKind.HOST, LAND).state == ObjectState.UNKNOWN
    assert of(status, ObjectKind.LANDING).state == ObjectState.UNKNOWN


Change = Callable[[Raw], Any]


def put(host: str, part: str, name: str, value: Any) -> Change:
    def change(raw: Raw) -> None:
        raw[host][part] = {**raw[host].get(part, {}), name: value}

    return change


def answered(host: str, name: str, code: int = 0, error: str = "", **changed: Any) -> Change:
    """Change parts of an answer."""

    def change(raw: Raw) -> None:
        document = json.loads(raw[host]["answers"][name]["output"])
        raw[host]["answers"][name] = answer({**document, **changed}, code, error)

    return change


def table(**changed: Any) -> Change:
    def change(raw: Raw) -> None:
        [known] = json.loads(raw[LAND]["answers"]["land"]["output"])["tables"]
        raw[LAND]["answers"]["land"] = answer({"tables": [known | changed]})

    return change


def named(host: str, part: str, value: Any) -> Change:
    return lambda raw: raw[host].update({part: value})


OFFLINE = {"id": "partitions-offline", "sentence": "1 partition is without a leader: flights-0."}
NO_ANSWER = {"code": None, "output": "", "error": "no answer within 20 s"}
FAILED_TASK = {"name": "files", "state": "RUNNING", "tasks": [{"task": 0, "state": "FAILED", "reason": "x"}]}
WITHOUT_TASK = {"name": "files", "state": "RUNNING", "tasks": []}
SINK = {"name": "files", "type": "sink", "state": "RUNNING", "tasks": [{"task": 0, "state": "RUNNING"}]}
PAUSED = {"name": "files", "state": "PAUSED", "tasks": [{"task": 0, "state": "PAUSED"}]}
SKIPPED = {"id": "", "what": "orders", "why": "its topic is gone"}
OPEN = [{"topic": "flights", "partition": 0, "landed": 8, "end": None}]
CUT = [{"topic": "flights", "partition": 0, "landed": 8, "end": 5}]
WANTS, UNKNOWN = ObjectState.NEEDS_ACTION, ObjectState.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "name", "change", "id_", "state"),
    [
        (
            ObjectKind.CLUSTER,
            "pro",
            answered(PRO, "cluster", 1, problems=[OFFLINE]),
            "partitions-offline",
            WANTS,
        ),
        (
            ObjectKind.CLUSTER,
            "pro",
            answered(PRO, "cluster", 1, problems=[7]),
            "cluster-node-unhealthy",
            WANTS,
        ),
        (
            ObjectKind.CLUSTER,
            "pro",
            put(PRO, "answers", "cluster", NO_ANSWER),
            "object-not-answered",
            UNKNOWN,
        ),
        (ObjectKind.CLUSTER, "pro", answered(PRO, "cluster", brokers=None), "object-not-answered", UNKNOWN),
        (ObjectKind.BROKER, PRO, answered(PRO, "cluster", brokers=[]), "node-not-in-cluster", WANTS),
        (ObjectKind.BROKER, PRO, put(PRO, "units", "kafka", unit("failed")), "unit-not-active", WANTS),
        (ObjectKind.BROKER, PRO, put(PRO, "answers", "cluster", NO_ANSWER), "object-not-answered", UNKNOWN),
        (
            ObjectKind.CONTROLLER,
            PRO,
            answered(PRO, "cluster", controllers={"leader": None, "behind": {"1": None}}),
            "node-not-in-cluster",
            WANTS,
        ),
        (
            ObjectKind.FLOW,
            "",
            answered(LAKE, "flow:pro", 3, findings=["Task 0 is dead."]),
            "mirror-not-well",
            WANTS,
        ),
        (
            ObjectKind.FLOW,
            "",
            answered(LAKE, "flow:pro", 3, findings=["[pattern-matches-nothing] No topic."]),
            "pattern-matches-nothing",
            WANTS,
        ),
        (
            ObjectKind.FLOW,
            "",
            answered(LAKE, "flow:pro", partitions=[{"behind": None}]),
            "object-not-answered",
            UNKNOWN,
        ),
        (ObjectKind.FLOW, "", answered(LAKE, "flow:pro", 1), "object-not-answered", UNKNOWN),
        (
            ObjectKind.FLOW,
            "",
            put(LAKE, "units", "mirror_maker@pro", unit("inactive")),
            "unit-not-active",
            WANTS,
        ),
        (ObjectKind.FLOW, "", named(LAKE, "units", {}), "object-not-answered", UNKNOWN),
        (ObjectKind.LINK, "", put(LAKE, "units", "dedup@pro", unit("failed")), "unit-not-active", WANTS),
        (
            ObjectKind.LINK,
            "",
            put(PRO, "units", "diode_upstream@lake-pro", unit("failed")),
            "unit-not-active",
            WANTS,
        ),
        (
            ObjectKind.LINK,
            "",
            put(PRO, "metrics", "diode_upstream@lake-pro", ""),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.LINK,
            "",
            put(LAKE, "metrics", "diode_downstream@pro", ""),
            "object-not-answered",
            UNKNOWN,
        ),
        (ObjectKind.LINK, "", put(LAKE, "metrics", "dedup@pro", ""), "object-not-answered", UNKNOWN),
        (
            ObjectKind.LINK,
            "",
            put(LAKE, "metrics", "dedup@pro", metrics(dedup_lag=0, dedup_round_time=SECONDS - 9000)),
            "rounds-standing-still",
            WANTS,
        ),
        (
            ObjectKind.LINK,
            "",
            answered(LAKE, "ledger:pro", results=[{"topic": "f"}]),
            "link-records-missing",
            WANTS,
        ),
        (
            ObjectKind.LINK,
            "",
            answered(LAKE, "ledger:pro", 3, "Announcements are old."),
            "link-not-current",
            UNKNOWN,
        ),
        (ObjectKind.LINK, "", put(LAKE, "answers", "ledger:pro", NO_ANSWER), "object-not-answered", UNKNOWN),
        (ObjectKind.CONNECTOR, "", answered(LAKE, "connect", connectors=[]), "connector-not-running", WANTS),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "letters", causes=[LETTERS | {"sent_back": 3}]),
            "dead-letters-waiting",
            WANTS,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "letters", 3, causes=[LETTERS | {"sent_back": None}]),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "letters", 3, unknown=[{"what": "files-dlq", "why": "it may not be read"}]),
            "object-not-answered",
            UNKNOWN,
        ),
        (ObjectKind.CONNECTOR, "", answered(LAKE, "letters", topics=[]), "object-not-answered", UNKNOWN),
        (
            ObjectKind.CONNECTOR,
            "",
            put(LAKE, "answers", "letters", NO_ANSWER),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "connect", connectors=[FAILED_TASK]),
            "connector-not-running",
            WANTS,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "connect", connectors=[WITHOUT_TASK]),
            "connector-not-running",
            WANTS,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "connect", connectors=[PAUSED]),
            "connector-not-running",
            WANTS,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "connect", 1, connectors=None),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "connect", 1, connectors=[SINK | {"unmatched": ["fligths"]}]),
            "connector-topic-missing",
            WANTS,
        ),
        (
            ObjectKind.CONNECTOR,
            "",
            answered(LAKE, "connect", connectors=[SINK | {"unmatched": None}]),
            "object-not-answered",
            UNKNOWN,
        ),
        (ObjectKind.LANDING, "", table(left_out=[SKIPPED]), "landing-skips", WANTS),
        (ObjectKind.LANDING, "", table(catalogue="it lacks a column"), "landing-catalogue-behind", WANTS),
        (ObjectKind.LANDING, "", table(partitions=OPEN), "landing-skips", UNKNOWN),
        (ObjectKind.LANDING, "", table(partitions=CUT), "landing-skips", WANTS),
        (ObjectKind.LANDING, "", table(left_out=None), "object-not-answered", UNKNOWN),
        (ObjectKind.LANDING, "", table(left_out=["orders"]), "landing-skips", WANTS),
        (ObjectKind.LANDING, "", table(partitions=[]), "object-not-answered", UNKNOWN),
        (ObjectKind.LANDING, "", table(table="b.other"), "object-not-answered", UNKNOWN),
        (
            ObjectKind.LANDING,
            "",
            put(LAND, "metrics", "land", metrics(land_round_time=SECONDS - 9000)),
            "rounds-standing-still",
            WANTS,
        ),
        (ObjectKind.BACKUP, "topics", put(PRO, "answers", "snapshots", answer([])), "no-snapshot-yet", WANTS),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "answers", "snapshots", answer([{"created": "2026-05-01T00:00:00Z"}])),
            "backup-old",
            WANTS,
        ),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "answers", "snapshots", answer([{"created": "2026-06-01T11:00:00Z"}], 1, "Damaged.")),
            "snapshots-damaged",
            WANTS,
        ),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "answers", "snapshots", NO_ANSWER),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.BACKUP,
            "files",
            put(LAND, "units", "file_backup@etc", unit("failed", "exit-code", SECONDS)),
            "unit-run-failed",
            WANTS,
        ),
        (
            ObjectKind.BACKUP,
            "files",
            put(LAND, "units", "file_backup@etc", unit("inactive")),
            "no-snapshot-yet",
            UNKNOWN,
        ),
        (ObjectKind.BACKUP, "files", named(LAND, "units", {"land": unit()}), "object-not-answered", UNKNOWN),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "metrics", "backup_verify", ""),
            "backup-not-verified",
            UNKNOWN,
        ),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "metrics", "backup_verify", verify_metrics(exit_code=1)),
            "backup-verify-failed",
            WANTS,
        ),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "metrics", "backup_verify", verify_metrics(succeeded_time=SECONDS - 9 * 86400)),
            "backup-verify-old",
            WANTS,
        ),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "metrics", "backup_verify", verify_metrics(succeeded_time=SECONDS + 900)),
            "time-in-future",
            UNKNOWN,
        ),
        (
            ObjectKind.BACKUP,
            "topics",
            put(PRO, "units", "backup_verify", unit("failed", "oom-kill")),
            "unit-run-failed",
            WANTS,
        ),
        *[
            (ObjectKind.BACKUP, "topics", put(PRO, "metrics", "backup", page), id_, state)
            for page, id_, state in (
                (backup_metrics(left_out=7), "backup-skips", WANTS),
                (backup_metrics(gaps=3), "backup-skips", WANTS),
                (backup_metrics(left_out=None), "object-not-answered", UNKNOWN),
                (backup_metrics(gaps=None), "object-not-answered", UNKNOWN),
                (backup_metrics(gaps=None, left_out=7), "backup-skips", WANTS),
                (backup_metrics(gaps=float("nan")), "object-not-answered", UNKNOWN),
                ("", "object-not-answered", UNKNOWN),
            )
        ],
        (
            ObjectKind.BACKUP,
            "topics",
            lambda raw: raw[PRO]["metrics"].pop("backup"),
            "object-not-answered",
            UNKNOWN,
        ),
        *[
            (
                ObjectKind.BACKUP,
                "topics",
                lambda raw, gone=gone: raw[PRO]["units"].pop(gone),
                "object-not-answered",
                UNKNOWN,
            )
            for gone in ("backup", "backup_verify")  # systemd did not answer
        ],
        (ObjectKind.DRILL, "", named(LAND, "metrics", {}), "drill-missing", WANTS),
        (
            ObjectKind.DRILL,
            "",
            put(LAND, "metrics", "drill", metrics(drill_exit_code=1)),
            "drill-failed",
            WANTS,
        ),
        (
            ObjectKind.DRILL,
            "",
            put(LAND, "metrics", "drill", metrics(drill_succeeded_time=1)),
            "drill-old",
            WANTS,
        ),
        (
            ObjectKind.DRILL,
            "",
            put(LAND, "metrics", "drill", metrics(drill_succeeded_time=SECONDS)),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.CERTIFICATE,
            "land-lake",
            put(LAND, "certificates", "/etc/aqueduct/land/tls/land-lake.pem", certificate(19)),
            "certificate-expiring",
            WANTS,
        ),
        (
            ObjectKind.CERTIFICATE,
            "land-lake",
            put(LAND, "certificates", "/etc/aqueduct/land/tls/land-lake.pem", "rubbish"),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.CERTIFICATE,
            "land-lake",
            named(LAND, "certificates", {}),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.CERTIFICATE,
            "authority",
            put(LAND, "certificates", "/etc/aqueduct/kafka/tls/ca.pem", certificate(-1)),
            "authority-expiring",
            WANTS,
        ),
        (ObjectKind.HOST, LAND, named(LAND, "failed_units", ["x.service"]), "unit-failed", WANTS),
        (
            ObjectKind.HOST,
            LAND,
            named(LAND, "disks", [{"path": "/", "size": 100, "free": 15}]),
            "disk-filling",
            WANTS,
        ),
        (ObjectKind.HOST, LAND, named(LAND, "disks", []), "object-not-answered", UNKNOWN),
        (ObjectKind.HOST, LAND, named(LAND, "time", SECONDS + 7), "clock-skewed", WANTS),
        (ObjectKind.HOST, LAND, lambda raw: raw[LAND].pop("time"), "object-not-answered", UNKNOWN),
        (ObjectKind.HOST, LAND, named(LAND, "error", "Connection refused"), "host-not-answering", UNKNOWN),
    ],
)
def test_a_fault_is_found(kind: ObjectKind, name: str, change: Change, id_: str, state: ObjectState) -> None:
    raw = sound()
    change(raw)
    status = judged(raw)
    found = of(status, kind, name)
    assert (id_, state) in {(each.id, each.state) for each in found.findings}
    assert found.state == min((each.state for each in found.findings), key=lambda each: each.rank)
    assert status.exit_code == ExitCode.INCOMPLETE
    assert ids(found) <= MESSAGES.keys()
    assert all(each.fix and each.sentence.endswith((".", "`")) for each in found.findings)


def beats(*samples: tuple[str, float]) -> str:
    name = "aqueduct_diode_downstream_beat_age"
    return "".join(f'{name}{{sender="ab",kind="{kind}"}} {age}\n' for kind, age in samples)


def dedup(**changed: float) -> str:
    return metrics(
        **{f"dedup_{name}": value for name, value in {"lag": 0, "missing": 0, "lost": 0, **changed}.items()},
        dedup_round_time=SECONDS - 5,
    )


def landed(**changed: float | None) -> str:
    """Return the metrics of the landing service; None: it has no such metric."""
    values = {"land_round_time": SECONDS - 5, "land_failures": 0.0, **changed}
    names = {
        "land_failures": 'land_failures_total{table="a.flights"}',
        "land_left_out": 'land_left_out{table="a.flights"}',
        "land_lag": 'land_lag{table="a.flights"}',
    }
    return metrics(**{names.get(name, name): value for name, value in values.items() if value is not None})


def drilled(**changed: float | None) -> str:
    values: dict[str, float | None] = {
        "exit_code": 0,
        "time": SECONDS - 60,
        "succeeded_time": SECONDS - 60,
        "recovery_seconds": 40,
        "newest_record_age": 70,
    }
    return metrics(
        **{f"drill_{name}": value for name, value in (values | changed).items() if value is not None}
    )


def without(host: str, name: str, *parts: str) -> Change:
    """Remove parts of an answer."""

    def change(raw: Raw) -> None:
        document = json.loads(raw[host]["answers"][name]["output"])
        rest = {part: value for part, value in document.items() if part not in parts}
        raw[host]["answers"][name] = answer(rest)

    return change


def record_link(page: str) -> Change:
    return put(LAKE, "metrics", "diode_downstream@pro", page)


FAR = 10**9
LAGGING = [{"topic": "flights", "partition": 0, "behind": FAR, "seconds": 900_000}]
OLD = [{"topic": "flights", "partition": 0, "behind": 1, "seconds": 900_000}]
ENDLESS = [{"topic": "flights", "partition": 0, "landed": 8, "end": FAR}]
NO_LEADER = {"leader": None, "behind": {"1": 0}}
FUTURE = {"created": "2036-06-01T11:00:00Z", "newest_record": "2026-06-01T10:58:00Z"}
LATER = SECONDS + 86400
GAPS = [{"topic": "f", "partition": 0, "gaps": [[5, 9]]}]
LOST_LINE = (
    "f-0: 5 offsets permanently lost, deleted at the source before the link could send them: 10 to 14."
)
REPLAYED: dict[str, Any] = {"older_offsets_not_read_by_topic": {"files-dlq": 7}}


@pytest.mark.parametrize(
    ("kind", "change", "id_", "state"),
    [
        # (a) a landing whose process is frozen
        (ObjectKind.LANDING, put(LAND, "metrics", "land", ""), "object-not-answered", UNKNOWN),
        (ObjectKind.LANDING, named(LAND, "metrics", {}), "object-not-answered", UNKNOWN),
        (
            ObjectKind.LANDING,
            put(LAND, "metrics", "land", landed(land_failures=None)),
            "object-not-answered",
            UNKNOWN,
        ),
        # (b) a link whose live sender is silent
        (ObjectKind.LINK, record_link(beats(("live", 999_999))), "link-silent", WANTS),
        (ObjectKind.LINK, record_link(beats(("resend", 1), ("live", 999_999))), "link-silent", WANTS),
        (ObjectKind.LINK, record_link(beats(("resend", 1))), "object-not-answered", UNKNOWN),
        (ObjectKind.LINK, record_link(beats(("live", float("nan")))), "object-not-answered", UNKNOWN),
        # (c) figures beyond any limit
        (ObjectKind.LINK, put(LAKE, "metrics", "dedup@pro", dedup(lost=300)), "link-records-lost", WANTS),
        (ObjectKind.LINK, put(LAKE, "metrics", "dedup@pro", dedup(missing=5)), "link-records-missing", WANTS),
        (ObjectKind.LINK, put(LAKE, "metrics", "dedup@pro", dedup(lag=FAR)), "lag-over-limit", WANTS),
        (
            ObjectKind.LINK,
            put(LAKE, "metrics", "dedup@pro", metrics(dedup_lag=0, dedup_round_time=SECONDS)),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.LINK,
            put(PRO, "metrics", "diode_upstream@lake-pro", metrics(diode_upstream_lag=FAR)),
            "lag-over-limit",
            WANTS,
        ),
        (ObjectKind.LANDING, table(partitions=ENDLESS), "lag-over-limit", WANTS),
        (
            ObjectKind.LANDING,
            put(LAND, "metrics", "land", landed(land_left_out=2)),
            "landing-skips",
            WANTS,
        ),
        (ObjectKind.FLOW, answered(LAKE, "flow:pro", partitions=LAGGING), "lag-over-limit", WANTS),
        (ObjectKind.FLOW, answered(LAKE, "flow:pro", partitions=OLD), "lag-over-limit", WANTS),
        # (d) a cluster whose answer is not whole, or contradicts itself
        (
            ObjectKind.CLUSTER,
            without(PRO, "cluster", "problems", "partitions"),
            "object-not-answered",
            UNKNOWN,
        ),
        (ObjectKind.CLUSTER, without(PRO, "cluster", "problems"), "object-not-answered", UNKNOWN),
        (ObjectKind.CLUSTER, without(PRO, "cluster", "partitions"), "object-not-answered", UNKNOWN),
        (ObjectKind.CLUSTER, answered(PRO, "cluster", 1), "object-not-answered", UNKNOWN),
        (ObjectKind.CLUSTER, answered(PRO, "cluster", offline=5), "partitions-offline", WANTS),
        (
            ObjectKind.CLUSTER,
            answered(PRO, "cluster", under_replicated=5),
            "partitions-under-replicated",
            WANTS,
        ),
        (
            ObjectKind.CLUSTER,
            answered(PRO, "cluster", controllers=NO_LEADER),
            "cluster-node-unhealthy",
            WANTS,
        ),
        # (e) a flow without findings or partitions
        (ObjectKind.FLOW, answered(LAKE, "flow:pro", 3), "object-not-answered", UNKNOWN),
        (ObjectKind.FLOW, without(LAKE, "flow:pro", "partitions"), "object-not-answered", UNKNOWN),
        (ObjectKind.FLOW, answered(LAKE, "flow:pro", partitions=[]), "object-not-answered", UNKNOWN),
        (ObjectKind.FLOW, answered(LAKE, "flow:pro", partitions=[7]), "object-not-answered", UNKNOWN),
        (ObjectKind.FLOW, answered(LAKE, "flow:pro", tasks=[{"running": False}]), "mirror-not-well", WANTS),
        # (f) absent figures, and times in the future
        (ObjectKind.LANDING, table(rows=None), "object-not-answered", UNKNOWN),
        (ObjectKind.LANDING, table(left_out=None), "object-not-answered", UNKNOWN),
        (
            ObjectKind.DRILL,
            put(LAND, "metrics", "drill", drilled(newest_record_age=None)),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.DRILL,
            put(LAND, "metrics", "drill", drilled(recovery_seconds=None)),
            "object-not-answered",
            UNKNOWN,
        ),
        (
            ObjectKind.DRILL,
            put(LAND, "metrics", "drill", drilled(succeeded_time=LATER)),
            "time-in-future",
            UNKNOWN,
        ),
        (ObjectKind.BACKUP, put(PRO, "answers", "snapshots", answer([FUTURE])), "time-in-future", UNKNOWN),
        (
            ObjectKind.LANDING,
            put(LAND, "metrics", "land", landed(land_round_time=LATER)),
            "time-in-future",
            UNKNOWN,
        ),
        # (g) a data folder that cannot be measured
        (ObjectKind.HOST, named(PRO, "unmeasured", ["/var/lib/kafka"]), "object-not-answered", UNKNOWN),
        (
            ObjectKind.HOST,
            named(
                PRO,
                "disks",
                [{"path": "/", "size": 100, "free": 60}, {"path": "/a", "size": 0, "free": 0}],
            ),
            "object-not-answered",
            UNKNOWN,
        ),
        # (h) dead-letter records of which older ones were not read
        (ObjectKind.CONNECTOR, answered(LAKE, "letters", **REPLAYED), "object-not-answered", UNKNOWN),
        (
            ObjectKind.CONNECTOR,
            without(LAKE, "letters", "older_offsets_not_read_by_topic"),
            "object-not-answered",
            UNKNOWN,
        ),
    ],
)
def test_what_was_not_measured_is_not_well(
    kind: ObjectKind, change: Change, id_: str, state: ObjectState
) -> None:
    raw = sound()
    change(raw)
    status = judged(raw)
    [judged_object] = [
        object_status
        for object_status in status.objects
        if object_status.declared.kind == kind and object_status.findings
    ]
    assert {(finding.id, finding.state) for finding in judged_object.findings} == {(id_, state)}
    assert status.exit_code == ExitCode.INCOMPLETE
    assert id_ in MESSAGES
    assert all(finding.fix and finding.sentence.endswith((".", "`")) for finding in judged_object.findings)


def test_the_finding_names_the_figure_that_is_missing() -> None:
    raw = sound()
    table(rows=None, files=None)(raw)
    [finding] = of(judged(raw), ObjectKind.LANDING).findings
    assert "rows" in finding.sentence
    assert "files" in finding.sentence


@pytest.mark.parametrize(
    ("page", "id_"), [({"land_left_out": 2}, "landing-skips"), ({"land_lag": FAR}, "lag-over-limit")]
)
def test_metrics_alone_show_landing_that_needs_action(page: dict[str, float], id_: str) -> None:
    """As `aqueduct status --estate` asks: no command answers."""
    raw = sound()
    put(LAND, "metrics", "land", landed(**page))(raw)
    named(LAND, "answers", {})(raw)
    landing = of(judged(raw), ObjectKind.LANDING)
    assert landing.state == ObjectState.NEEDS_ACTION
    assert ids(landing) == {id_, "object-not-answered"}


def test_many_skipped_items_become_few_findings() -> None:
    raw = sound()
    table(left_out=[SKIPPED] * 5_000)(raw)
    landing = of(judged(raw), ObjectKind.LANDING)
    assert 2 < len(landing.findings) < 50
    assert landing.figures["skipped"] == 5_000
    assert sum("4,980 more" in finding.sentence for finding in landing.findings) == 1


def test_silent_record_link_of_enclave_is_found() -> None:
    """Nothing else judges it: it has no dedup, and its sending end is not asked."""
    link = {"source": "pro", "number": 1, "topics": ["flights"], "mode": "record"}
    hostvars = {**HOSTVARS, LAKE: {**HOSTVARS[LAKE], "diode_downstream_links": [link]}}
    raw = sound()
    declared = declared_objects(GROUPS, hostvars, DEFAULTS)
    alive = of(evaluate(declared, facts(raw), unreachable=["pro"]), ObjectKind.LINK)
    assert (alive.state, alive.figures) == (ObjectState.WELL, {"beat_age": 1.5})
    record_link(beats(("live", 950_400)))(raw)
    dead = of(evaluate(declared, facts(raw), unreachable=["pro"]), ObjectKind.LINK)
    assert ids(dead) == {"link-silent"}


def test_live_sender_with_new_session_is_not_silent() -> None:
    raw = sound()
    record_link(beats(("live", 4000), ("live", 1), ("resend", 9000)))(raw)
    assert of(judged(raw), ObjectKind.LINK).state == ObjectState.WELL


@pytest.mark.parametrize(
    ("limits", "state"),
    [
        (StatusLimits(missing_records=5, lost_records=5), ObjectState.WELL),
        (StatusLimits(missing_records=4, lost_records=5), WANTS),
        (StatusLimits(missing_records=5, lost_records=4), WANTS),
    ],
)
def test_losses_up_to_the_limits_are_no_finding(limits: StatusLimits, state: ObjectState) -> None:
    raw = sound()
    put(LAKE, "metrics", "dedup@pro", dedup(missing=5, lost=5))(raw)
    answered(LAKE, "ledger:pro", 3, f"As of 3 s ago.\n{LOST_LINE}", results=GAPS)(raw)
    status = evaluate(DECLARED, EstateFacts(hosts=facts(raw).hosts, now=int(SECONDS * 1000), limits=limits))
    assert of(status, ObjectKind.LINK).state == state


def test_a_flow_whose_topics_are_empty_is_well() -> None:
    raw = sound()
    empty = [{"topic": "flights", "partition": 0, "from": 0, "to": 0, "behind": 0, "seconds": 0.0}]
    raw[LAKE]["answers"]["flow:pro"] = answer({"findings": [], "partitions": empty})
    assert of(judged(raw), ObjectKind.FLOW).state == ObjectState.WELL


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_host_with_non_finite_figures_is_unknown(value: float) -> None:
    """One that is captured must neither pass as well nor end the report."""
    raw = sound()
    raw[LAND]["time"] = value
    put(PRO, "units", "backup", unit(ended=value))(raw)
    raw[LAKE]["metrics"]["dedup@pro"] = dedup(lag=value, missing=value, lost=value)
    status = judged(raw)
    assert of(status, ObjectKind.HOST, LAND).state == UNKNOWN
    assert of(status, ObjectKind.HOST, PRO).state == UNKNOWN
    assert of(status, ObjectKind.LINK).state == UNKNOWN


def test_object_without_queried_host_is_unknown() -> None:
    """Such as a link of records without a receiving end."""
    [link] = [declared for declared in DECLARED if declared.kind == ObjectKind.LINK]
    without_ends = replace(
        link, hosts=(), source_host="", details={**link.details, "downstream": "", "mode": "record"}
    )
    status = evaluate([without_ends], facts(sound()))
    assert of(status, ObjectKind.LINK).state == UNKNOWN


def test_unknown_metric_is_not_zero() -> None:
    raw = sound()
    raw[LAKE]["metrics"]["dedup@pro"] = ""
    assert of(judged(raw), ObjectKind.LINK).figures["dedup_lag"] is None
    assert report.figure_text(None) == "unknown"


def test_unreachable_site_does_not_affect_exit_code() -> None:
    raw = sound()
    del raw[PRO]
    status = judged(raw, unreachable=["pro"])
    assert {each.state for each in status.objects if each.declared.site == "pro"} == {ObjectState.NOT_ASKED}
    assert {each.state for each in status.objects if each.declared.site != "pro"} == {ObjectState.WELL}
    assert status.exit_code == ExitCode.DONE


def test_a_site_narrows() -> None:
    raw = sound()
    del raw[PRO]
    status = judged(raw, site="lake")
    assert {each.declared.site for each in status.objects} == {"lake", ""}
    assert status.exit_code == ExitCode.DONE
    assert judged(raw, site="pro").exit_code == ExitCode.FAILED


def test_dead_node_is_reported_by_another_node() -> None:
    groups = {**GROUPS, "site_pro": [PRO, "pro-kafka-2"], "kafka": [PRO, "pro-kafka-2", LAKE]}
    declared = declared_objects(groups, {**HOSTVARS, "pro-kafka-2": {"kafka_node_id": 3}}, DEFAULTS)
    status = evaluate(declared, facts(sound()))
    dead = of(status, ObjectKind.BROKER, "pro-kafka-2")
    assert dead.state == ObjectState.NEEDS_ACTION
    assert ids(dead) == {"host-not-answering", "node-not-in-cluster"}
    assert of(status, ObjectKind.CLUSTER, "pro").state == ObjectState.WELL


def test_the_worst_comes_first() -> None:
    raw = sound()
    raw[LAND]["failed_units"] = ["x.service"]
    del raw[PRO]
    status = judged(raw)
    states = [each.state.rank for each in report.worst_first(status)]
    assert states == sorted(states)
    assert states[0] == ObjectState.NEEDS_ACTION.rank
    lines = report.text(status).splitlines()
    assert "[unit-failed]" in lines[1]
    assert sum("[host-not-answering]" in line for line in lines) == 1, "once, though many objects have it"


def test_text_of_a_host_sets_no_terminal() -> None:
    raw = sound()
    raw[LAND]["failed_units"] = ["\x1b[2Jx\nWell: all\u202e.service"]
    found = report.text(judged(raw), verbose=True)
    assert "\x1b" not in found
    assert "\u202e" not in found
    assert not any(line.startswith("Well:") for line in found.splitlines())


def test_the_json_is_whole() -> None:
    document = json.loads(json.dumps(report.document(judged(sound()))))
    assert document["exit_code"] == 0
    assert len(document["objects"]) == len(DECLARED) == sum(document["summary"].values())


def test_a_file_of_facts_gives_the_same_status() -> None:
    raw = sound()
    raw[LAND]["failed_units"] = ["x.service"]
    source = report.facts_document(DECLARED, raw, int(SECONDS * 1000), {"disk_percent": 30}, ["pro"])
    declared, read, unreachable = report.read_facts(json.loads(json.dumps(source)))
    again = evaluate(declared, read, unreachable=unreachable)
    assert declared == DECLARED
    assert "disk-filling" in ids(of(again, ObjectKind.HOST, LAND))
    assert of(again, ObjectKind.HOST, PRO).state == ObjectState.NOT_ASKED


def test_finding_keeps_time_of_first_sight() -> None:
    raw = sound()
    raw[LAND]["disks"] = [{"path": "/", "size": 100, "free": 5}]
    first = evaluate(DECLARED, facts(raw))
    [finding] = of(first, ObjectKind.HOST, LAND).findings
    assert finding.since == timestamps.text(first.asked)
    seen = first_sight.parse(first_sight.entries(first_sight.remembered(first, DECLARED, {})))
    later = replace(facts(raw), now=facts(raw).now + 60_000, first_sights=seen)
    again = evaluate(DECLARED, later)
    assert [each.since for each in of(again, ObjectKind.HOST, LAND).findings] == [finding.since]
    assert first_sight.remembered(again, DECLARED, seen) == seen
    repaired = evaluate(DECLARED, replace(facts(sound()), first_sights=seen))
    assert first_sight.remembered(repaired, DECLARED, seen) == {}


def test_time_reported_by_host_is_kept() -> None:
    raw = sound()
    put(PRO, "units", "kafka", unit("failed"))(raw)
    status = evaluate(DECLARED, facts(raw))
    [stopped] = [each for each in of(status, ObjectKind.BROKER, PRO).findings if each.id == "unit-not-active"]
    assert stopped.since == timestamps.text(int(SECONDS - 60) * 1000)


def test_objects_not_asked_keep_times_of_findings() -> None:
    raw = sound()
    raw[LAND]["disks"] = [{"path": "/", "size": 100, "free": 5}]
    seen = first_sight.remembered(evaluate(DECLARED, facts(raw)), DECLARED, {})
    for options in ({"site": "pro"}, {"unreachable": ["lake"]}):
        partial = evaluate(DECLARED, replace(facts(raw), first_sights=seen), **options)
        assert first_sight.remembered(partial, DECLARED, seen) == seen
        assert first_sight.remembered(partial, [], seen) == {}, "none of them is declared any more"


@pytest.mark.parametrize("source", [None, {}, [7], [{}], [{"kind": 1, "name": "a", "id": "b", "since": "c"}]])
def test_malformed_first_sights_file_is_ignored(source: Any) -> None:
    assert first_sight.parse(source) == {}


@pytest.mark.parametrize(
    "source", [None, [], {}, {"version": 2}, {"version": 1, "declared": [{"kind": "x"}]}]
)
def test_a_file_of_something_else_is_refused(source: Any) -> None:
    with pytest.raises(Refused) as raised:
        report.read_facts(source)
    assert raised.value.id == "facts-file-invalid"


def test_metrics_are_read() -> None:
    page = '# HELP a_b x\na_b{link="1",x="a\\"b"} 3.5e1\nc_total 7\nbroken{ 1\nd NaN\n'
    assert metric(page, "a_b", x='a"b') == 35
    assert metric(page, "a_b", link="2") is None
    assert metric(page, "c_total") == 7


def test_a_silent_host_says_why() -> None:
    assert HostFacts.parse("a", {"error": "Connection\n refused"}).error == "Connection refused"
    assert HostFacts.parse("a", None).error


def test_a_large_estate_is_evaluated() -> None:
    """300 hosts of 30 sites, and 10,092 mirrored partitions."""
    groups: dict[str, list[str]] = {"kafka": [], "mirror_maker": []}
    hostvars: dict[str, dict[str, Any]] = {}
    raw: Raw = {}
    partitions = [{"topic": "t", "partition": number, "behind": number} for number in range(348)]
    nodes = {"brokers": [*range(1, 11)], "controllers": {"leader": 1, "behind": {"1": 0, "2": 0, "3": 0}}}
    for site in range(30):
        hosts = [f"s{site}-kafka-{number}" for number in range(1, 11)]
        groups[f"site_s{site}"] = hosts
        groups["kafka"] += hosts
        groups["mirror_maker"].append(hosts[0])
        for number, host in enumerate(hosts, start=1):
            roles = ["broker", "controller"] if number <= 3 else ["broker"]
            hostvars[host] = {"kafka_node_id": number, "kafka_roles": roles}
            raw[host] = {**sound()[PRO], "answers": {"cluster": answer(cluster(number) | nodes)}}
            files = (f"kafka-s{site}", "ca", f"mirror-s{site}")
            raw[host]["certificates"] = {
                f"/etc/aqueduct/x/tls/{file}.pem": certificate(300) for file in files
            }
        if site:
            hostvars[hosts[0]]["mirror_maker_flows"] = [{"source": "s0", "topics": ["t"]}]
            raw[hosts[0]]["units"]["mirror_maker@s0"] = unit()
            raw[hosts[0]]["answers"]["flow:s0"] = answer({"findings": [], "partitions": partitions})
    status = evaluate(declared_objects(groups, hostvars, DEFAULTS), facts(raw))
    flows = [each for each in status.objects if each.declared.kind == ObjectKind.FLOW]
    assert sum(int(each.figures["partitions"] or 0) for each in flows) == 10_092
    assert status.hosts == 300
    assert status.exit_code == ExitCode.DONE
