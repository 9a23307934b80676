"""A record that a sink cannot process goes to the dead-letter topic; later records arrive."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sandboxes
from lab import wait_until
from lake import (
    BROKER,
    CONFIG,
    GOOD,
    POISON,
    TO_DATABASE,
    TO_FILES,
    WORKERS,
    Site,
    flight,
)

from aqueduct.control_node import certificates
from demo import canaries


def test_every_service_is_in_its_sandbox(site: Site) -> None:
    sandboxes.check(site.lab)


def test_no_secret_is_told(site: Site) -> None:
    """Neither by hosts, nor by REST, nor by a play that would change one."""
    known = canaries.secrets(site.lab.pki)
    assert "warehouse" in known
    kept, told = canaries.search(site.lab, known)
    assert kept  # a search that finds nothing proves nothing
    assert told == []
    answers = [site.ask(path) for path in ("/connectors?expand=info&expand=status", "/connector-plugins")]
    answers += [site.ask(f"/connectors/{name}/tasks") for name in (TO_DATABASE, TO_FILES)]
    assert [status for status, _ in answers] == [200] * 4
    assert canaries.in_text(known, "".join(answer for _, answer in answers)) == []
    others = {"warehouse_password": "a-canary-that-is-sent", "other": "a-canary-that-is-new"}
    shown = site.lab.play("connect", "-vvv", "--check", "--diff", connect_secrets=others)
    assert shown.returncode == 0, shown.stdout
    assert canaries.in_text({**known, **others}, shown.stdout) == []


def test_what_comes_after_a_poison_record_arrives(poisoned: Site) -> None:
    wait_until("every good flight in the database", lambda: len(poisoned.rows()) >= 2 * GOOD)
    assert sorted(poisoned.rows()) == list(range(2 * GOOD))
    wait_until("both good notes in files", lambda: len(poisoned.notes()) >= 2)
    assert sorted(poisoned.notes()) == ["after", "before"]


@pytest.mark.parametrize(
    ("connector", "topic", "offset"), [(TO_DATABASE, "flights", GOOD), (TO_FILES, "notes", 1)]
)
def test_dead_letter_record_has_source_and_error_headers(
    poisoned: Site, connector: str, topic: str, offset: int
) -> None:
    [letter] = wait_until("a dead-letter record", lambda: poisoned.letters(connector))
    assert letter.value == POISON
    story = {name.removeprefix("__connect.errors."): value for name, value in letter.headers}
    assert (story["topic"], story["partition"], story["offset"]) == (topic.encode(), b"0", b"%d" % offset)
    assert story["connector.name"] == connector.encode()
    assert story["exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert b"JsonConverter" in (story["exception.stacktrace"] or b"")


def test_memory_and_cpu_stay_bounded_under_poison_records(poisoned: Site) -> None:
    """With KAFKA-4090 each dead-letter record waits in memory for ever."""
    before = {host: poisoned.show(host, "MainPID", "NRestarts") for host in WORKERS}
    known = len(poisoned.letters(TO_FILES))
    poisoned.write("notes", [POISON + b" " * 10_000] * 2_000)
    wait_until("all of it as dead-letter records", lambda: len(poisoned.letters(TO_FILES)) >= known + 2_000)
    for host in WORKERS:
        shown = poisoned.show(host, "MainPID", "NRestarts", "MemoryCurrent", "MemoryMax")
        assert shown.items() >= before[host].items()
        assert int(shown["MemoryCurrent"]) < int(shown["MemoryMax"]) < 1 << 30
        assert "java.lang.OutOfMemoryError" not in poisoned.journal(host)
    # One that turns in circles never is idle; one that has just ended work may not be at once.
    with ThreadPoolExecutor() as pool:
        wait_until(
            "idle workers", lambda: max(pool.map(lambda host: measure_cpu(poisoned, host), WORKERS)) < 0.5
        )


def measure_cpu(site: Site, host: str) -> float:
    """The share of one processor that an idle worker takes, over ten seconds."""
    program = (
        "pid=$(systemctl show --property=MainPID --value connect); "
        'used() { cut -d" " -f14,15 /proc/$pid/stat; }; '
        "used; sleep 10; used; getconf CLK_TCK"
    )
    *times, ticks = map(int, site.lab.run(host, "sh", "-c", program).stdout.split())
    return (sum(times[2:]) - sum(times[:2])) / ticks / 10


def test_rest_wants_a_client_certificate(site: Site) -> None:
    """Neither no certificate nor one of a stranger is enough; ours is."""
    assert site.ask("/connectors")[0] == 200
    stranger = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=admin "
        "-keyout /tmp/key.pem -out /tmp/certificate.pem 2>/dev/null; "
        "cat /tmp/key.pem /tmp/certificate.pem >/tmp/stranger.pem"
    )
    site.lab.run(WORKERS[0], "sh", "-c", stranger)
    for certificate in ("", "/tmp/stranger.pem"):
        refused = site.request("/connectors", certificate=certificate)
        assert refused.returncode == 1
        assert "alert" in refused.stderr


@pytest.mark.parametrize("host", WORKERS)
def test_rest_answers_connect_and_admin_alone(site: Site, tmp_path: Path, host: str) -> None:
    """Whoever it is, and wherever: also services of the same host, whose name is in their certificates."""
    authority, now = certificates.load_authority(site.lab.pki / "ca"), certificates.utc_now()
    for principal, status in {
        "admin": 200,
        "mirror-lake": 403,
        "reconcile-lake": 403,
        "connect-other": 403,
        "connect-lake-": 403,
        "writer": 403,
    }.items():
        wanted = certificates.Wanted(
            principal=principal, names=WORKERS, usages=certificates.SERVICE, validity_days=1, renewal_days=0
        )
        certificates.have_client(tmp_path, wanted, authority, site.lab.pki / "ca/ca.pem", now)
        pem = (tmp_path / f"{principal}.pem").read_text()
        site.lab.run(host, "sh", "-c", f"umask 077; cat >/tmp/{principal}.pem", stdin=pem)
        for path, method in (("/connectors", "GET"), ("/health", "GET"), ("/connectors/x/pause", "PUT")):
            done = site.request(path, method, certificate=f"/tmp/{principal}.pem", host=host)
            assert done.returncode == 0, done.stderr
            answered, said = json.loads(done.stdout)
            if status == 403:
                assert (answered, "only connect-lake, admin may use REST" in said) == (403, True), principal
            else:
                assert answered != 403, said
    said = wait_until(
        "the refusal in the proxy's log",
        lambda: '"mirror-lake" of' in (said := site.lab.journal(WORKERS[0], "--unit=connect_rest")) and said,
    )
    assert '"admin" of' not in said
    own = site.request("/connectors", host=host)
    assert json.loads(own.stdout)[0] == 200


def test_another_host_cannot_connect_to_worker_port(site: Site) -> None:
    refused = site.request("/health", worker=WORKERS[0], host=WORKERS[1], port=18083)
    assert "Connection refused" in refused.stderr


def test_follower_worker_forwards_configuration_request_to_leader(site: Site) -> None:
    config = site.rest(f"/connectors/{TO_FILES}/config")
    for worker in WORKERS:  # one of them is not the leader
        assert site.rest(f"/connectors/{TO_FILES}/config", "PUT", config, worker)["config"] == config


def test_without_a_folder_there_is_no_file_connector(site: Site) -> None:
    """The folder of this lab is named; so the unit is tried as it would be without one."""
    unit = site.lab.run(WORKERS[0], "systemctl", "cat", "connect.service").stdout
    [(home, version)] = set(re.findall(r"(/opt/aqueduct/kafka-([\d.]+))/", unit))
    name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    java = ("java", "-cp", f"{home}/libs/*", name)  # it has no main()
    for hidden, said in (
        (False, "Main method not found"),
        (True, f"Could not find or load main class {name}"),
    ):
        off = [f"--property=InaccessiblePaths={home}/libs/connect-file-{version}.jar"] if hidden else []
        unit = ("systemd-run", "--quiet", "--wait", "--pipe", "--property=User=connect", *off, "--", *java)
        assert said in site.lab.run(WORKERS[0], *unit, check=False).stderr


def test_no_secret_is_shown(site: Site) -> None:
    """Not by REST, not in a log, not in Connect's own topics; on the host only the service reads it."""
    secret = (site.lab.pki / "passwords/warehouse").read_text().strip()
    assert len(secret) == 24
    reference = f"${{file:{CONFIG}/secrets.properties:warehouse_password}}"
    assert site.rest(f"/connectors/{TO_DATABASE}/config")["connection.password"] == reference
    shown = [
        json.dumps(site.rest(path))
        for path in ("/connectors?expand=info", f"/connectors/{TO_DATABASE}/tasks")
    ]
    shown += [site.journal(host) for host in WORKERS]
    shown += [
        str(record)
        for topic in ("configs", "offsets", "status")
        for records in site.lab.read(BROKER, f"aqueduct-connect-lake-{topic}").values()
        for record in records
    ]
    assert all(shown)
    assert [text for text in shown if secret in text] == []
    stat = site.lab.run(WORKERS[0], "stat", "--format=%a %U", f"{CONFIG}/secrets.properties", CONFIG)
    assert stat.stdout.splitlines() == ["600 connect", "750 root"]
    assert secret in site.file(WORKERS[0], f"{CONFIG}/secrets.properties")


def test_the_figures_are_for_this_host_alone(site: Site) -> None:
    site.wait_until_all_run(*WORKERS)
    runs = f'kafka_connect_task_status{{connector="{TO_DATABASE}",status="running",task="0"}}'
    read = "kafka_connect_sink_task_metrics_sink_record_read{"

    def told() -> bool:
        found = {name for host in WORKERS for name in site.figures(host)}
        return runs in found and any(name.startswith(read) for name in found)

    wait_until("the figures of a task that runs", told)
    for host in WORKERS:
        connect = f"import socket; socket.create_connection(('{host}', 9404), 10)"
        refused = site.lab.run(BROKER, "python3", "-c", connect, check=False)
        assert "Connection refused" in refused.stderr


def test_tasks_of_killed_worker_move_without_data_loss(poisoned: Site) -> None:
    lines = [f"line {number}" for number in range(2_000)]
    put_lines(poisoned, lines[:1_000])
    poisoned.wait_until_all_run(*WORKERS)
    first = min(poisoned.rows(), default=0) + 10_000
    poisoned.write("flights", map(flight, range(first, first + 2_000)))
    # Not even its systemd brings it back, so that what it had must go elsewhere.
    [[_, victim], *_] = poisoned.states(TO_DATABASE)
    survivor = next(host for host in WORKERS if host != victim)
    poisoned.lab.kill(victim, "connect")
    poisoned.lab.run(victim, "systemctl", "stop", "connect")
    try:
        poisoned.write("flights", map(flight, range(first + 2_000, first + 4_000)))
        put_lines(poisoned, lines[1_000:])
        poisoned.wait_until_all_run(survivor, worker=survivor)
        wait_until("every flight", lambda: set(range(first, first + 4_000)) <= poisoned.rows().keys())
        wait_until("every line", lambda: len(written_lines(poisoned)) >= len(lines))
        assert written_lines(poisoned) == lines
    finally:
        poisoned.lab.run(victim, "systemctl", "start", "connect")
    wait_until("the worker back", lambda: poisoned.ask("/health", worker=victim)[0] == 200)


def put_lines(site: Site, lines: list[str]) -> None:
    """At the end of the source's file, which both hosts have, as if it were on storage that they share."""
    text = "".join(f"{line}\n" for line in lines)
    for host in WORKERS:
        site.lab.run(host, "sh", "-c", "cat >>/srv/connect/lines", stdin=text)


def written_lines(site: Site) -> list[str]:
    return [(record.value or b"").decode() for record in site.lab.read(BROKER, "lines")[0]]


def test_renewed_certificates_reach_both_workers_with_tasks_running(poisoned: Site) -> None:
    before = {host: (poisoned.serial(host), poisoned.show(host, "MainPID")) for host in WORKERS}
    first = 100_000
    poisoned.write("flights", map(flight, range(first, first + 1_000)))
    done = poisoned.lab.play("connect", certificates_renewal_days=400, certificates_validity_days=500)
    assert done.returncode == 0, done.stdout
    poisoned.write("flights", map(flight, range(first + 1_000, first + 2_000)))
    after = {host: (poisoned.serial(host), poisoned.show(host, "MainPID")) for host in WORKERS}
    assert [host for host in WORKERS if set(map(str, before[host])) & set(map(str, after[host]))] == []
    assert "Restart a worker" in done.stdout
    wait_until("every flight", lambda: set(range(first, first + 2_000)) <= poisoned.rows().keys())
    poisoned.wait_until_all_run(*WORKERS)
