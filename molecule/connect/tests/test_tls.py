"""A worker with a client without TLS is refused. A test shows how such a worker would hang."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from lab import wait_until
from lake import CONFIG, POISON, TO_DATABASE, TO_FILES, WORKERS, Site, flight

BROKEN = f"{CONFIG}/broken.properties"
HOST, OTHER = WORKERS
DROP_IN = "/etc/systemd/system/connect.service.d/broken.conf"
# MiB. A TLS alert that is read as a length asks for 352 MiB, for each producer.
HEAPS = (256, 2048)

Start = Callable[[str], None]


def without(site: Site, block: str) -> None:
    """A copy of the worker's properties where one block, `producer.`, has no TLS."""
    lines = site.file(HOST, f"{CONFIG}/worker.properties").splitlines()
    settings = (f"{block}security.protocol", f"{block}ssl.")
    kept = [line for line in lines if not line.startswith(settings)]
    assert len(lines) - len(kept) == 5
    write = f"cat >{BROKEN} && chown connect {BROKEN}"
    site.lab.run(HOST, "sh", "-c", write, stdin="\n".join(kept) + "\n")


@pytest.mark.parametrize(
    ("block", "name"),
    [("", "worker"), ("consumer.", "consumer"), ("producer.", "producer"), ("admin.", "admin")],
)
def test_a_block_without_tls_is_named(site: Site, block: str, name: str) -> None:
    without(site, block)
    try:
        said = site.doctor(BROKEN)
    finally:
        site.lab.run(HOST, "rm", BROKEN)
    assert said.returncode == 1
    [sentence] = [line for line in said.stdout.splitlines() if name in line and "KAFKA-4090" in line]
    assert BROKEN in sentence


def test_a_whole_configuration_is_found_right(site: Site) -> None:
    said = site.doctor(f"{CONFIG}/worker.properties")
    assert (said.returncode, said.stdout) == (0, "Nothing is wrong.\n")


@pytest.fixture(scope="module")
def start_otherwise(site: Site) -> Iterator[Start]:
    """One worker only, whose producer has no TLS, and that is started with other lines in its unit."""
    without(site, "producer.")
    site.lab.run(OTHER, "systemctl", "stop", "connect")

    def start(lines: str) -> None:
        write = f"mkdir -p $(dirname {DROP_IN}) && cat >{DROP_IN}"
        site.lab.run(HOST, "sh", "-c", write, stdin=f"[Service]\n{lines}")
        site.lab.run(HOST, "systemctl", "daemon-reload")
        site.lab.run(HOST, "systemctl", "restart", "connect", check=False)

    try:
        yield start
    finally:
        site.lab.run(HOST, "rm", "-r", DROP_IN.rpartition("/")[0], BROKEN)
        site.lab.run(HOST, "systemctl", "daemon-reload")
        site.lab.run(HOST, "systemctl", "restart", "connect")
        site.lab.run(OTHER, "systemctl", "start", "connect")
        site.wait_until_all_run(*WORKERS)


@pytest.fixture(scope="module")
def held_back() -> list[str]:
    """Good notes behind a poison one."""
    return []


@pytest.fixture
def unit(site: Site, start_otherwise: Start) -> str:
    """With the broken properties; as it is before any drop-in."""
    whole = site.file(HOST, "/etc/systemd/system/connect.service")
    return whole.replace("worker.properties", "broken.properties")


def test_worker_does_not_start_if_producer_lacks_tls(site: Site, unit: str, start_otherwise: Start) -> None:
    [check] = [line for line in unit.splitlines() if line.startswith("ExecStartPre=")]
    start_otherwise(f"ExecStartPre=\n{check}\nRestart=no\n")
    assert site.show(HOST, "ActiveState") == {"ActiveState": "failed"}
    assert "KAFKA-4090" in site.journal(HOST)


@pytest.mark.long
@pytest.mark.parametrize("heap", HEAPS)
def test_without_preflight_poison_hangs_connector_that_reports_running(
    site: Site, unit: str, start_otherwise: Start, held_back: list[str], heap: int
) -> None:
    """So the check earns its place. With a small heap the producer's thread dies of it, unnoticed."""
    command = unit.split("ExecStart=", 1)[1].split("\nSuccess", 1)[0].replace("384m", f"{heap}m")
    command = command.replace("-XX:+ExitOnOutOfMemoryError", "")
    start_otherwise(f"ExecStartPre=\nExecStart=\nExecStart={command}\nMemoryMax=infinity\n")
    site.wait_until_all_run(HOST, connectors=[TO_DATABASE, TO_FILES])
    known = len(site.letters(TO_FILES))
    after = f"after {uuid4()}"
    held_back.append(after)
    site.write("notes", [b'"before"', POISON, f'"{after}"'.encode()])
    wait_until("a dead-letter record asked for", lambda: asked_for_letters(site) > 0)
    # Time goes by, and the worker works: whole records that are written later go into the database.
    later = max(site.rows()) + 1
    site.write("flights", map(flight, range(later, later + 5_000)))
    wait_until("what came later", lambda: later + 4_999 in site.rows())
    assert {state for state, _ in site.states(TO_FILES)} == {"RUNNING"}
    assert len(site.letters(TO_FILES)) == known
    assert after not in site.notes()
    died = "java.lang.OutOfMemoryError: Java heap space" in site.journal(HOST)
    assert died == (heap == HEAPS[0])


@pytest.mark.long
def test_with_tls_again_what_was_held_back_arrives(
    site: Site, start_otherwise: Start, held_back: list[str]
) -> None:
    known = len(site.letters(TO_FILES))
    site.lab.run(HOST, "rm", DROP_IN)
    site.lab.run(HOST, "systemctl", "daemon-reload")
    site.lab.run(HOST, "systemctl", "restart", "connect")
    wait_until("what it held back", lambda: {*held_back} <= {*site.notes()})
    assert len(held_back) == len(HEAPS)
    assert len(site.letters(TO_FILES)) == known + len(HEAPS)


def asked_for_letters(site: Site) -> float:
    figures = site.figures(HOST)
    name = "kafka_connect_task_error_metrics_deadletterqueue_produce_requests"
    return sum(value for key, value in figures.items() if key.startswith(name) and TO_FILES in key)
