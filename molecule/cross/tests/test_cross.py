"""Each sent record arrives or is listed as missing. No data flows back."""

from itertools import islice
from pathlib import Path

import pytest
import sandboxes
from crossing import DOWNSTREAM, SOURCE, TARGET, UPSTREAM, WORKERS, Crossing, count
from lab import Lab, wait_until

from demo.flights import flights
from demo.spark import logs, tasks_by_host

LINKS = ("pro1", "second", "plain")
UNITS = (
    (DOWNSTREAM, "diode_downstream@pro1"),
    (DOWNSTREAM, "dedup@pro1"),
    (UPSTREAM, "diode_upstream@enclave-pro1"),
)


def test_every_service_is_in_its_sandbox(lab: Lab) -> None:
    sandboxes.check(lab)


def test_flights_cross_once_and_in_order(crossing: Crossing) -> None:
    sent = crossing.sent()
    assert count(sent) >= 20_000
    assert crossing.arrived() == sent
    crossing.wait_until_no_gaps()


def test_dedup_metrics_show_written_records_and_lag(crossing: Crossing) -> None:
    wait_until("a round", lambda: crossing.dedup_figures()["records_total"] >= 20_000)
    found = crossing.dedup_figures()
    assert found["round_time"] >= found["committed_time"] > 0
    assert (found["missing"], found["lost"], found["malformed_total"]) == (0, 0, 0)
    wait_until("a round that left nothing", lambda: crossing.dedup_figures()["lag"] == 0)


def test_dedup_works_on_both_workers_in_one_session(crossing: Crossing) -> None:
    """By what Spark itself logged: round after round on the same executors."""
    asked = (crossing.lab, DOWNSTREAM, "aqueduct dedup")
    starts = [
        each["Timestamp"]
        for log in logs(*asked)
        for each in log
        if each["Event"] == "SparkListenerApplicationStart"
    ]
    newest = (*asked, max(starts) / 1000 - 0.01)  # one before may have ended while the estate was deployed
    # Which worker gets a task is Spark's choice, so it may take some rounds until both have had some.
    before = wait_until(
        "rounds on both workers",
        lambda: {*(found := tasks_by_host(*newest))} == {*WORKERS} and found,
        every=1,
    )
    wait_until("another round", lambda: tasks_by_host(*newest).total() > before.total(), every=1)
    assert len([*logs(*newest)]) == 1, "a session began meanwhile"


def test_plain_records_cross_without_dedup(crossing: Crossing) -> None:
    """Each at least once, into the topic of the same name, which the receiving end may write. Nothing else is
    made for such a link."""
    lab = crossing.lab
    producer = lab.producer(SOURCE, "admin")
    for number in range(500):
        producer.produce("plain", f"{number}", b"k", headers=[("h", b"1")])
    assert producer.flush(300) == 0
    sent = set(lab.read(SOURCE, "plain")[0])
    assert len(sent) >= 500
    wait_until("plain records in the enclave", lambda: set(lab.read(TARGET, "plain")[0]) == sent)
    assert "diode-raw-plain" not in lab.admin(TARGET).list_topics(timeout=60).topics


def test_nothing_flows_back(crossing: Crossing) -> None:
    before = crossing.packets_in()
    crossing.knock()
    wait_until("what was sent at the enclave's network card", lambda: crossing.packets_in() > before)
    sent = crossing.figures(UPSTREAM)["upstream_bytes_total"]
    assert sent > 100_000
    wait_until("all that was sent at the enclave's network card", lambda: crossing.bytes_in() >= sent)
    assert crossing.packets_out() == 0


def test_a_dry_run_restarts_nothing(crossing: Crossing) -> None:
    started = [crossing.started(*unit) for unit in UNITS]
    tried = crossing.lab.play("diode", "--check", "--limit=site_enclave", dedup_gap_grace_seconds=6)
    assert tried.returncode == 0, tried.stdout
    assert [crossing.started(*unit) for unit in UNITS] == started


def test_each_side_is_deployed_without_the_other(crossing: Crossing) -> None:
    """Not even the other side's private key is needed, and none is made. A changed setting restarts its unit
    alone."""
    keys = crossing.lab.pki / "diode"
    started = [crossing.started(*unit) for unit in UNITS]
    for site, others in (("site_enclave", "diode-upstream-pro1"), ("site_pro1", "diode-downstream-enclave")):
        away = (keys / f"{others}.key").rename(keys / "away")
        try:
            done = crossing.lab.play("diode", "--limit", site, dedup_gap_grace_seconds=6)
            assert done.returncode == 0, done.stdout
            assert not (keys / f"{others}.key").exists()
        finally:
            away.rename(keys / f"{others}.key")
    now = [crossing.started(*unit) for unit in UNITS]
    assert [a != b for a, b in zip(started, now, strict=True)] == [False, True, False]


@pytest.mark.long
def test_diode_play_asks_for_missing_upstream_public_key(crossing: Crossing) -> None:
    away = (public := crossing.lab.pki / "diode/diode-upstream-pro1.pub").rename(public.with_name("away"))
    try:
        done = crossing.lab.play("diode", "--limit", "site_enclave")
    finally:
        away.rename(public)
    assert done.returncode == 2
    assert "Copy it from the control node of the other side" in " ".join(done.stdout.split())


@pytest.mark.long
def test_a_key_that_others_can_read_is_refused(crossing: Crossing) -> None:
    key: Path = crossing.lab.pki / "diode/diode-upstream-pro1.key"
    key.chmod(0o640)
    try:
        done = crossing.lab.play("diode", "--limit", "site_pro1")
    finally:
        key.chmod(0o600)
    assert done.returncode == 2
    assert f"can read {key}. Run: chmod 0600 {key}" in " ".join(done.stdout.split())


@pytest.mark.parametrize("stopped", UNITS[:2], ids=["receiving_end", "dedup"])
def test_reconcile_fails_while_the_source_is_not_heard(crossing: Crossing, stopped: tuple[str, str]) -> None:
    """The second link has no announcement yet, so the playbook fails in any case: its findings decide."""

    def is_stale() -> bool:
        # A sending end announces its offsets each minute.
        compared = crossing.lab.play("reconcile", dedup_announced_within_seconds=75)
        stale = "Announcements of raw topic diode-raw-pro1 are too old" in " ".join(compared.stdout.split())
        assert not stale or (
            compared.returncode == 2 and "All announced offsets arrived" not in compared.stdout
        )
        return stale

    wait_until("a fresh announcement", lambda: not is_stale(), every=5)
    crossing.lab.run(stopped[0], "systemctl", "stop", stopped[1])
    try:
        wait_until("a finding about old announcements", is_stale, every=5)
    finally:
        crossing.lab.run(stopped[0], "systemctl", "start", stopped[1])
    wait_until("a fresh announcement", lambda: not is_stale(), every=5)


def test_without_the_rule_packets_would_flow_back(crossing: Crossing) -> None:
    """So the counter sees an answer when there is one. Without its rule the receiving end does not run."""
    lab, silent = crossing.lab, crossing.packets_out()
    lab.run(DOWNSTREAM, "systemctl", "stop", "diode_silence")
    assert (
        lab.run(DOWNSTREAM, "systemctl", "is-active", "diode_downstream@pro1", check=False).stdout
        != "active\n"
    )
    try:
        crossing.knock()
        wait_until("an answer", lambda: crossing.packets_out() > silent)
    finally:
        lab.run(DOWNSTREAM, "systemctl", "start", *(f"diode_downstream@{link}" for link in LINKS))
    answered, before = crossing.packets_out(), crossing.packets_in()
    crossing.knock()
    wait_until("what was sent at the enclave's network card", lambda: crossing.packets_in() > before + 20)
    assert crossing.packets_out() == answered


def test_link_resumes_after_restart_of_downstream_host(crossing: Crossing) -> None:
    """Without a playbook: services, the card's address and the rule that lets nothing out are there again."""
    crossing.lab.restart(DOWNSTREAM)
    # What is sent before the sender's next key can't be opened.
    wait_until("the sender's key", lambda: crossing.figures(DOWNSTREAM)["downstream_beats_total"] > 0)
    before = count(crossing.sent())
    crossing.write(islice(flights("EWR"), before, before + 2_000))
    sent = crossing.sent()
    assert count(sent) == before + 2_000
    wait_until("what was sent since", lambda: crossing.arrived() == sent)
    crossing.wait_until_no_gaps()
    crossing.knock()
    before = crossing.packets_in()
    wait_until("what was sent at the enclave's network card", lambda: crossing.packets_in() > before + 20)
    assert crossing.packets_out() == 0
