"""The state of an estate without Ansible: what its exporters show, by mutual TLS, within a deadline."""

import http.server
import json
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from kit.estate_facts import DEFAULTS, GROUPS, HOSTVARS, metrics

from aqueduct.cli import main
from aqueduct.control_node.status import report
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.exporter_facts import (
    EstateFile,
    HostScrape,
    ScrapedCluster,
    ScrapedHost,
    host_facts,
    read_estate,
)
from aqueduct.control_node.status.facts import HostFacts
from aqueduct.control_node.status.model import EstateStatus, ObjectKind, ObjectState, ObjectStatus
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.scraping import principal_error
from aqueduct.errors import ExitCode, Refused
from servers.pki import Authority

ROOT = Path(__file__).resolve().parents[2]
MONITORED = {**GROUPS, "monitoring": ["pro-kafka-1", "lake-kafka-1", "lake-land-1"]}
DECLARED = declared_objects(MONITORED, HOSTVARS, DEFAULTS)
BOOTED = 1_780_000_000.0
HOST = ScrapedHost(
    name="lake-land-1",
    site="lake",
    address="lake-land-1:9464",
    exporters=("node", "land"),
    units=("land", "monitoring"),
    runs=("file_backup@etc", "drill"),
    folders=("/srv/backups",),
)
STATES = {"land.service": "active", "monitoring.service": "active", "file_backup@etc.service": "inactive"}
LABELS = 'device="/dev/sdb1",fstype="ext4"'
MOUNTS = {"/": (100, 70, 60), "/srv": (200, 100, 100)}


def node_page(
    states: Mapping[str, str] = STATES,
    triggers: Mapping[str, float] | None = None,
    mounts: Mapping[str, tuple[int, int, int]] = MOUNTS,
    *,
    clock: float = BOOTED + 7200,
    extra: str = "",
) -> str:
    """Return a page as Prometheus's node exporter writes it."""
    lines = [
        "# HELP node_time_seconds System time in seconds since epoch (1970).",
        f"node_time_seconds {clock:.9e}",
        f"node_boot_time_seconds {BOOTED:.9e}",
        'node_scrape_collector_success{collector="systemd"} 1',
    ]
    for name, actual in states.items():
        for state in ("activating", "active", "deactivating", "failed", "inactive"):
            labels = f'name="{name}",state="{state}",type="simple"'
            lines.append(f"node_systemd_unit_state{{{labels}}} {int(state == actual)}")
    for name, seconds in (triggers or {}).items():
        lines.append(f'node_systemd_timer_last_trigger_seconds{{name="{name}"}} {seconds:.9e}')
    for mount, sizes in mounts.items():
        labels = f'device="/dev/sda1",device_error="",fstype="ext4",mountpoint="{mount}"'
        lines.append(f'node_filesystem_device_error{{device="/dev/sda1",mountpoint="{mount}"}} 0')
        for name, size in zip(("size", "free", "avail"), sizes, strict=True):
            lines.append(f"node_filesystem_{name}_bytes{{{labels}}} {size}")
    return "\n".join([*lines, extra, ""])


def parsed(page: str, host: ScrapedHost = HOST) -> HostFacts:
    scrape = HostScrape(
        pages={"node": page, "land": metrics(land_round_time=1)},
        errors={},
        asked=BOOTED + 7199,
        answered=BOOTED + 7201,
    )
    return HostFacts.parse(host.name, host_facts(host, scrape))


def test_node_exporter_page_has_units_disks_and_clock() -> None:
    facts = parsed(node_page(triggers={"file_backup@etc.timer": BOOTED + 3600}))
    assert {name: unit.state for name, unit in facts.units.items()} == {
        "land": "active",
        "monitoring": "active",
        "file_backup@etc": "inactive",
    }
    assert facts.units["file_backup@etc"].ended == BOOTED + 3600
    assert (facts.failed_units, facts.clock_skew, facts.unmeasured) == ((), 0, ())
    assert [(disk.path, disk.size, disk.free) for disk in facts.disks] == [
        ("/", 90, 60),
        ("/srv/backups", 200, 100),
    ]


def test_unit_not_loaded_by_systemd_is_not_active() -> None:
    facts = parsed(node_page({"land.service": "failed"}))
    assert facts.units["monitoring"].state == "not loaded"
    assert (facts.units["land"].result, facts.failed_units) == ("failed", ("land.service",))


def test_a_run_before_the_host_started_says_nothing() -> None:
    """It may have failed: systemd keeps the time of a timer, and not the result."""
    facts = parsed(node_page(triggers={"file_backup@etc.timer": BOOTED - 60}))
    assert facts.units["file_backup@etc"].ended == 0


@pytest.mark.parametrize("state", ["activating", "active"])
def test_a_run_that_lasts_conceals_the_one_before(state: str) -> None:
    states = {**STATES, "file_backup@etc.service": state}
    facts = parsed(node_page(states, triggers={"file_backup@etc.timer": BOOTED + 60}))
    assert "file_backup@etc" not in facts.units


def test_without_the_collector_of_systemd_units_are_unknown() -> None:
    page = node_page().replace('success{collector="systemd"} 1', 'success{collector="systemd"} 0')
    facts = parsed(page)
    assert (dict(facts.units), facts.failed_units) == ({}, None)


@pytest.mark.parametrize(
    ("folder", "extra"),
    [
        ("/home/backups", ""),
        ("/root", ""),
        ("/srv/backups", 'node_filesystem_device_error{mountpoint="/srv/backups"} 1'),
        ("/srv/backups", f'node_filesystem_size_bytes{{{LABELS},mountpoint="/srv/backups"}} NaN'),
        ("/srv/backups", f'node_filesystem_size_bytes{{{LABELS},mountpoint="/srv/backups"}} 1e9'),
    ],
)
def test_unreported_file_system_is_unmeasured_despite_parent(folder: str, extra: str) -> None:
    facts = parsed(node_page(extra=extra), replace(HOST, folders=(folder,)))
    assert facts.unmeasured == (folder,)


def test_drill_metrics_are_read_from_node_exporter() -> None:
    drill = metrics(drill_exit_code=0)
    assert parsed(node_page(extra=drill)).metrics.keys() == {"drill", "land"}
    assert parsed(node_page()).metrics.keys() == {"land"}
    other = replace(HOST, runs=("file_backup@etc",))
    assert parsed(node_page(extra=drill), other).metrics.keys() == {"land"}  # no drill is declared there


def unit_sample(unit: str, state: str, labels: str = "") -> str:
    return f'node_systemd_unit_state{{name="{unit}",state="{state}"{labels}}} 1'


def disk_samples(mount: str, labels: str = "", *, free: int = 99) -> str:
    """Return samples of a file system, as a service can write them into the folder of text files."""
    figures = {"size": 100, "free": free, "avail": free}
    return "\n".join(
        f'node_filesystem_{name}_bytes{{{LABELS},mountpoint="{mount}"{labels}}} {figure}'
        for name, figure in figures.items()
    )


FULL = {"/": (100, 1, 1), "/srv": (200, 2, 2)}


@pytest.mark.parametrize("labels", [',type="simple",x="1"', ',x="1"', ""])
def test_text_file_with_extra_labels_activates_no_unit(labels: str) -> None:
    forged = "\n".join(unit_sample(unit, "active", labels) for unit in ("land.service", "monitoring.service"))
    facts = parsed(node_page({"land.service": "failed"}, extra=forged))
    assert {name: facts.units[name].state for name in HOST.units} == {
        "land": "failed",
        "monitoring": "not loaded",
    }
    assert facts.failed_units == ("land.service",)


def test_unit_with_two_states_is_unknown_or_failed() -> None:
    labels = ',type="oneshot"'
    forged = "\n".join(unit_sample(unit, "active", labels) for unit in ("land.service", "monitoring.service"))
    facts = parsed(node_page({"land.service": "failed", "monitoring.service": "inactive"}, extra=forged))
    assert facts.units["land"].state == "failed"
    assert "monitoring" not in facts.units  # its state is unknown
    assert facts.failed_units == ("land.service",)


def test_duplicate_sample_makes_unit_unknown() -> None:
    forged = unit_sample("land.service", "active", ',type="simple"')
    facts = parsed(node_page({"land.service": "inactive"}, extra=forged))
    assert "land" not in facts.units


@pytest.mark.parametrize("labels", ['{name="file_backup@etc.timer"}', '{name="file_backup@etc.timer",x="1"}'])
def test_a_timer_that_is_listed_twice_is_unknown(labels: str) -> None:
    forged = f"node_systemd_timer_last_trigger_seconds{labels} {BOOTED + 7000}"
    facts = parsed(node_page(triggers={"file_backup@etc.timer": BOOTED + 60}, extra=forged))
    is_ignored = "x=" in labels
    assert ("file_backup@etc" in facts.units) == is_ignored
    assert not is_ignored or facts.units["file_backup@etc"].ended == BOOTED + 60


def test_text_file_with_extra_labels_changes_no_disk() -> None:
    forged = "\n".join(disk_samples(mount, ',x="1"') for mount in FULL)
    facts = parsed(node_page(mounts=FULL, extra=forged))
    assert [disk.used_percent for disk in facts.disks] == [99, 99]
    assert facts.unmeasured == ()


@pytest.mark.parametrize("free", [0, 99])
def test_duplicate_file_system_has_worst_figures(free: int) -> None:
    forged = "\n".join(disk_samples(mount, free=free) for mount in FULL)
    facts = parsed(node_page(mounts=FULL, extra=forged))
    assert all(disk.used_percent >= 99 for disk in facts.disks)
    assert len(facts.disks) == 2
    assert facts.unmeasured == ("/", "/srv/backups")


def test_forged_mount_point_hides_no_parent() -> None:
    facts = parsed(node_page(mounts=FULL, extra=disk_samples("/srv/backups")))
    assert {disk.path: disk.used_percent for disk in facts.disks}["/srv"] == 99


@pytest.mark.parametrize("labels", ["", '{x="1"}'])
def test_a_clock_that_is_listed_twice_is_unknown(labels: str) -> None:
    facts = parsed(node_page(extra=f"node_time_seconds{labels} 1"))
    assert (facts.clock_skew is None) == (labels == "")


@pytest.mark.parametrize("name", ["node_time_seconds", "node_boot_time_seconds"])
@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_captured_exporter_makes_no_host_well(name: str, value: str) -> None:
    own = node_page(triggers={"file_backup@etc.timer": BOOTED + 60})
    lines = [line for line in own.splitlines() if not line.startswith(f"{name} ")]
    facts = parsed("\n".join([*lines, f"{name} {value}", ""]))
    assert not facts.has_answered or "file_backup@etc" not in facts.units


def test_facts_list_what_the_host_is_asked_for() -> None:
    facts = parsed(node_page())
    assert (facts.services, facts.runs, facts.exporters) == (HOST.units, HOST.runs, ("land",))


def test_a_host_without_an_answer_has_the_reason() -> None:
    scrape = HostScrape(pages={}, errors={"node": "Connection refused", "land": "Connection refused"})
    facts = HostFacts.parse(HOST.name, host_facts(HOST, scrape))
    assert not facts.has_answered
    assert "Connection refused" in facts.error


@pytest.mark.parametrize(
    ("common_names", "is_expected"),
    [(["monitoring-lake"], True), (["connect-lake"], False), ([], False), (["monitoring-lake", "x"], False)],
)
def test_only_monitoring_certificate_is_accepted_for_host(common_names: list[str], is_expected: bool) -> None:
    certificate = {
        "subject": (*((("commonName", name),) for name in common_names), (("organizationName", "o"),))
    }
    error = principal_error(certificate, "monitoring-lake")
    assert (not error) == is_expected
    assert is_expected or error.startswith("[exporter-principal-wrong] ")
    assert principal_error(None, "monitoring-lake")


def test_another_file_is_refused() -> None:
    for source in ({}, [], {"exporters": [{}]}, {"version": 1, "declared": [], "hosts": {}}):
        with pytest.raises(Refused) as refused:
            read_estate(source)
        assert refused.value.id == "estate-file-invalid"


# With exporters that answer by mutual TLS.

Pages = Mapping[str, str | None]  # by path; None: no answer ever comes
NOW = 0.0  # as the clock of a page: the time at which it is served


@contextmanager
def exporter(authority: Authority, principal: str, pages: Pages, *, readers: str) -> Iterator[int]:
    """Serve pages as the role `monitoring` does; yield the port."""
    is_over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert isinstance(self.connection, ssl.SSLSocket)
            subject = dict(pair for [pair] in (self.connection.getpeercert() or {}).get("subject", ()))
            page = pages.get(self.path, "")
            if subject.get("commonName") != readers:
                self.send_error(HTTPStatus.FORBIDDEN)
            elif page is None:
                is_over.wait()
            elif not page:
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                served = page.replace(f"node_time_seconds {NOW:.9e}", f"node_time_seconds {time.time():.9e}")
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Length", str(len(served)))
                self.end_headers()
                self.wfile.write(served.encode())

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(authority.issue(principal, days=300))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            is_over.set()
            server.shutdown()


Ask = Callable[..., tuple[int, dict[str, Any]]]
UNITS = {
    "pro-kafka-1": ("kafka", "diode_upstream@lake-pro", "backup"),
    "lake-kafka-1": ("kafka", "mirror_maker@pro", "connect", "diode_downstream@pro", "dedup@pro"),
    "lake-land-1": ("land",),
}
METRICS = {
    "pro-kafka-1": ("diode_upstream@lake-pro", "backup"),
    "lake-kafka-1": ("diode_downstream@pro",),
    "lake-land-1": ("land",),
}


def host_pages(host: str, **states: str) -> dict[str, str | None]:
    """Return the pages of a sound host, in which units have other states."""
    units = {f"{unit}.service": "active" for unit in UNITS[host]} | {"file_backup@etc.service": "inactive"}
    triggers = {"file_backup@etc.timer": time.time() - 60}
    node = node_page(units | states, triggers, clock=NOW)
    own = {
        "/diode_upstream@lake-pro": metrics(diode_upstream_lag=0),
        "/diode_downstream@pro": 'aqueduct_diode_downstream_beat_age{sender="a",kind="live"} 1.5\n',
        "/land": metrics(land_round_time=time.time()),
        "/backup": metrics(backup_left_out=0, backup_gaps=0),
    }
    return {"/node": node, **own}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


@pytest.fixture
def ask(tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """Start an exporter for each host that has pages, and ask them by the command."""
    with ExitStack() as exporters:

        def asked(
            pages: Mapping[str, Pages],
            *options: str,
            principal: str = "",
            with_cluster: bool = False,
            **document: Any,
        ) -> tuple[int, dict[str, Any]]:
            hosts = [
                ScrapedHost(
                    name=host,
                    site=host.partition("-")[0],
                    address=f"127.0.0.1:{port}",
                    exporters=("node", *METRICS[host]),
                    units=UNITS[host],
                    runs=("file_backup@etc",) if host == "lake-land-1" else (),
                    folders=(),
                )
                for host, own in pages.items()
                for port in [
                    exporters.enter_context(
                        exporter(
                            authority,
                            principal or f"monitoring-{host.partition('-')[0]}",
                            own,
                            readers="monitoring-lake",
                        )
                    )
                ]
            ]
            # Nothing listens at port 1; a client takes 5 seconds to report that.
            cluster = ScrapedCluster(
                site="pro", bootstrap_servers="127.0.0.1:1", brokers=(1,), hosts=("pro-kafka-1",)
            )
            estate = EstateFile(
                document=report.estate_document(DECLARED, {}, []) | document,
                hosts=tuple(hosts),
                clusters=(cluster,) if with_cluster else (),
            )
            file = tmp_path / "estate.json"
            file.write_text(json.dumps(estate.text_fields()))
            code = main(["status", "--estate", str(file), "--json", *options])
            return code, json.loads(capsys.readouterr().out)

        yield asked


def states(document: dict[str, Any], kind: str) -> dict[str, str]:
    return {status["name"]: status["state"] for status in document["objects"] if status["kind"] == kind}


def reasons(document: dict[str, Any], kind: str, name: str) -> str:
    [status] = [status for status in document["objects"] if (status["kind"], status["name"]) == (kind, name)]
    return " ".join(f"[{finding['id']}] {finding['sentence']}" for finding in status["findings"])


def test_status_works_with_base_packages_only(authority: Authority, tmp_path: Path) -> None:
    """The role monitoring installs no others. Nothing listens at port 1, so all is unknown."""
    host = replace(HOST, address="127.0.0.1:1")
    file = tmp_path / "estate.json"
    estate = EstateFile(document=report.estate_document(DECLARED, {}, []), hosts=(host,), clusters=())
    file.write_text(json.dumps(estate.text_fields()))
    pins = re.findall(r"^([a-z0-9-]+)==", (ROOT / "locks/base.txt").read_text(), re.MULTILINE)
    script = (
        "import sys; from importlib.metadata import packages_distributions as names\n"
        f"names = [name for name, of in names().items() if not {{*of}} & {{*{pins}, 'aqueduct-estate'}}]\n"
        "sys.modules |= dict.fromkeys(names)\n"
        "from aqueduct.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    config = str(authority.client_config("monitoring-lake"))
    options = ("status", "--estate", str(file), "--command-config", config, "--json", "--patience", "30")
    run = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True)
    assert run.returncode == ExitCode.FAILED, run.stderr
    assert json.loads(run.stdout)["hosts"] == {"asked": 3, "answered": 0}


def test_estate_is_queried_by_monitoring_principal(ask: Ask, authority: Authority) -> None:
    pages = {host: host_pages(host) for host in UNITS}
    pages["lake-kafka-1"] = host_pages("lake-kafka-1", **{"mirror_maker@pro.service": "failed"})
    config = str(authority.client_config("monitoring-lake"))
    code, document = ask(pages, "--command-config", config, "--patience", "60", with_cluster=True)
    assert code == ExitCode.INCOMPLETE
    assert document["hosts"] == {"asked": 3, "answered": 3}
    assert states(document, "host") == {
        "lake-kafka-1": "needs action",
        "lake-land-1": "well",
        "pro-kafka-1": "well",
    }
    assert states(document, "flow") == {"pro to lake": "needs action"}
    assert "[unit-not-active]" in reasons(document, "flow", "pro to lake")
    assert states(document, "backup")["files etc at lake-land-1"] == "well"
    assert states(document, "backup")["topics of pro at pro-kafka-1"] == "unknown"
    assert states(document, "landing") == {"lake/a.flights": "unknown"}
    assert states(document, "cluster") == {"lake": "unknown", "pro": "unknown"}
    certificates = states(document, "certificate")
    assert {state for name, state in certificates.items() if name.startswith("kafka-")} == {"unknown"}
    assert {state for name, state in certificates.items() if name.startswith("monitoring-")} == {"well"}
    assert document["objects"][0]["state"] == "needs action"


def test_exporters_show_what_a_backup_skips(ask: Ask, authority: Authority) -> None:
    config = str(authority.client_config("monitoring-lake"))
    name = "topics of pro at pro-kafka-1"
    for page, state, id_ in (
        (metrics(backup_left_out=7, backup_gaps=0), "needs action", "[backup-skips]"),
        (metrics(backup_left_out=0), "unknown", "[object-not-answered]"),
        ("", "unknown", "[object-not-answered]"),  # its exporter does not answer
    ):
        pages = {"pro-kafka-1": {**host_pages("pro-kafka-1"), "/backup": page}}
        _, document = ask(pages, "--command-config", config, "--patience", "60")
        assert states(document, "backup")[name] == state
        assert id_ in reasons(document, "backup", name)
        assert "serves no metrics" in reasons(document, "backup", name) or state != "unknown"


def test_an_exporter_that_freezes_ends_with_the_patience(ask: Ask, authority: Authority) -> None:
    frozen = {**host_pages("pro-kafka-1"), "/diode_upstream@lake-pro": None}
    pages = {"pro-kafka-1": frozen, "lake-land-1": {"/node": None, "/land": None}}
    config = str(authority.client_config("monitoring-lake"))
    began = time.monotonic()
    code, document = ask(pages, "--command-config", config, "--patience", "3", with_cluster=True)
    assert time.monotonic() - began < 30  # not the hours that an exporter may take
    assert code == ExitCode.INCOMPLETE
    assert states(document, "host") == {
        "lake-kafka-1": "unknown",
        "lake-land-1": "unknown",
        "pro-kafka-1": "well",
    }
    assert "monitoring" in reasons(document, "host", "lake-kafka-1")
    assert states(document, "link") == {"pro to lake": "unknown"}


def test_a_single_run_does_not_claim_since_when(ask: Ask, authority: Authority) -> None:
    config = str(authority.client_config("monitoring-lake"))
    _, document = ask({"lake-land-1": host_pages("lake-land-1")}, "--command-config", config)
    findings = [finding for status in document["objects"] for finding in status["findings"]]
    assert findings
    assert {finding["since"] for finding in findings} == {None}


def test_who_may_not_read_metrics_knows_nothing(ask: Ask, authority: Authority) -> None:
    pages = {host: host_pages(host) for host in UNITS}
    config = str(authority.client_config("kafka-lake"))
    code, document = ask(pages, "--command-config", config, "--patience", "60")
    assert code == ExitCode.FAILED
    assert "403" in reasons(document, "host", "lake-land-1")


def test_hosts_of_another_authority_are_unknown(ask: Ask, authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    config = str(authority.client_config("monitoring-lake", trust=other))
    code, document = ask({host: host_pages(host) for host in UNITS}, "--command-config", config)
    assert code == ExitCode.FAILED
    assert set(states(document, "host").values()) == {"unknown"}
    assert "certificate" in reasons(document, "host", "lake-land-1")


@pytest.mark.parametrize("principal", ["connect-lake", "monitoring-pro", "monitoring-lake-land-1"])
def test_another_service_of_the_host_answers_for_none(ask: Ask, authority: Authority, principal: str) -> None:
    """Its certificate is of the host's name, too, and it may listen at the port."""
    config = str(authority.client_config("monitoring-lake"))
    options = ("--command-config", config, "--patience", "60", "--site", "lake")
    _, document = ask({"lake-land-1": host_pages("lake-land-1")}, *options, principal=principal)
    assert document["hosts"]["answered"] == 0
    assert states(document, "host")["lake-land-1"] == "unknown"
    assert states(document, "landing") == {"lake/a.flights": "unknown"}
    assert "[exporter-principal-wrong]" in reasons(document, "host", "lake-land-1")


def test_one_host_with_another_principal_is_unknown(ask: Ask, authority: Authority) -> None:
    """`pro-kafka-1` shows the certificate of another site."""
    pages = {host: host_pages(host) for host in ("pro-kafka-1", "lake-land-1")}
    config = str(authority.client_config("monitoring-lake"))
    code, document = ask(pages, "--command-config", config, "--patience", "60", principal="monitoring-lake")
    assert code == ExitCode.INCOMPLETE
    assert states(document, "host")["pro-kafka-1"] == "unknown"
    assert states(document, "host")["lake-land-1"] == "well"


def test_one_site_is_asked_alone(ask: Ask, authority: Authority) -> None:
    pages = {host: host_pages(host) for host in UNITS}
    config = str(authority.client_config("monitoring-lake"))
    options = ("--command-config", config, "--patience", "60")
    _, document = ask(pages, *options, "--site", "lake", with_cluster=True)
    assert document["hosts"] == {"asked": 2, "answered": 2}
    assert {status["site"] for status in document["objects"]} == {"lake", ""}
    _, document = ask(pages, *options, with_cluster=True, unreachable=["pro"])
    assert document["hosts"] == {"asked": 2, "answered": 2}
    assert states(document, "cluster")["pro"] == "not asked from here"


def test_a_certificate_is_needed(ask: Ask) -> None:
    code, document = ask({})
    assert (code, document["error"]["id"]) == (ExitCode.REFUSED, "usage-error")


# What a cluster answers in the place of its hosts.


def of(status: EstateStatus, kind: ObjectKind, name: str) -> ObjectStatus:
    return next(each for each in status.objects if (each.declared.kind, each.declared.name) == (kind, name))


def test_cluster_of_unmonitored_host_is_known() -> None:
    health = {
        "brokers": [1],
        "controllers": {"leader": 1, "behind": {"1": 0}},
        "partitions": 4,
        "offline": 0,
        "under_replicated": 0,
        "problems": [],
    }
    raw = {
        "error": "it is not in the group monitoring",
        "answers": {"cluster": {"code": 0, "output": json.dumps(health), "error": ""}},
    }
    source = report.facts_document(DECLARED, {"pro-kafka-1": raw}, 1_780_000_000_000, {}, [])
    declared, facts, _ = report.read_facts(source)
    status = evaluate(declared, facts)
    assert of(status, ObjectKind.CLUSTER, "pro").state == ObjectState.WELL
    assert of(status, ObjectKind.BROKER, "pro-kafka-1").state == ObjectState.UNKNOWN
    assert of(status, ObjectKind.HOST, "pro-kafka-1").state == ObjectState.UNKNOWN
    assert status.answered == 0
