"""A broker has a new id: a consumer waits, the doctor reports the cause, and the repair restores all."""

import re
from pathlib import Path

import pytest
from changed_id import GROUPS, Site, gist, lake, of_the_guide, old
from lab import Lab, wait_until

LONG = pytest.mark.long
SILENT_SECONDS, PATIENT_SECONDS = 10, 300  # without a record; until the next one


def flat(text: str) -> str:
    """Return what Ansible printed, in one line."""
    return re.sub(r"\s+", " ", text)


@pytest.fixture
def site(request: pytest.FixtureRequest, lab: Lab) -> Site:
    made: Site = request.param(lab)
    made.fill()
    return made


def waits(site: Site) -> tuple[list[str], list[str]]:
    """Return which groups nobody coordinates, and the others."""
    waiting = site.waiting()
    others = [group for group in GROUPS if group not in waiting]
    assert waiting, "some must have had their coordinator there"
    assert others, "and some elsewhere"
    return waiting, others


@pytest.mark.parametrize("site", [old, pytest.param(lake, marks=LONG)], indirect=True)
def test_consumer_waits_silently_until_broker_id_is_restored(site: Site, tmp_path: Path) -> None:
    before = site.seen()
    site.change_id(site.node_id + 1)
    waiting, others = waits(site)
    with site.consumer(others[0]) as served, site.consumer(waiting[0]) as hanging:
        assert served.firsts(PATIENT_SECONDS, enough=1), "where somebody coordinates the group, records come"
        assert hanging.firsts(SILENT_SECONDS) == {}
        assert hanging.errors == []
        ill = site.doctor()
        print(ill.stdout)
        assert ill.returncode != 0
        said = flat(ill.stdout)
        assert f"All their replicas are on broker {site.node_id}, which does" in said
        assert f"No replica is assigned to broker {site.node_id + 1}." in said
        assert f"Affected groups in --groups: {', '.join(waiting)}" in said
        assert [
            line
            for line in of_the_guide(f"doctor.yml --limit site_{site.name}")
            if gist(line) not in gist(ill.stdout)
        ] == []
        planned = site.repair(site.node_id, tmp_path, confirm=False)
        print(planned.stdout)
        assert planned.returncode != 0
        said = flat(planned.stdout)
        assert f"{site.changed} was broker {site.node_id} and is broker {site.node_id + 1} now" in said
        assert f"give {site.changed} the id {site.node_id} again" in said
        if site.name == "old":
            shown = of_the_guide("repair_broker_ids.yml -e site=old")
            assert [line for line in shown if gist(line) not in gist(planned.stdout)] == []
        assert site.node_id + 1 in site.ids(), "a plan does nothing"
        repaired = site.repair(site.node_id, tmp_path, confirm=True)
        print(repaired.stdout)
        assert repaired.returncode == 0
        wait_until("what clients saw before", lambda: site.seen() == before)
        assert hanging.firsts(PATIENT_SECONDS) == before.positions[waiting[0]], (
            "the consumer that waited goes on by itself"
        )
    site.forget({site.node_id + 1})
    wait_until("nothing to find", lambda: site.examined() == "Nothing is wrong.\n")


@LONG
@pytest.mark.parametrize("site", [lake, old], indirect=True)
def test_an_id_that_stays_gets_the_logs(site: Site, tmp_path: Path) -> None:
    """And the one that it had gets them in the same way, when it has that again."""
    before = site.seen()
    for node_id in (site.node_id + 1, site.node_id):
        site.change_id(node_id)
        waiting, _ = waits(site)
        with site.consumer(waiting[0]) as hanging:
            assert hanging.firsts(SILENT_SECONDS) == {}
            assert hanging.errors == []
            repaired = site.repair(node_id, tmp_path, confirm=True)
            print(repaired.stdout)
            assert repaired.returncode == 0
            wait_until("what clients saw before", lambda: site.seen() == before)
            assert hanging.firsts(PATIENT_SECONDS) == before.positions[waiting[0]]
        wait_until("nothing on the id that is gone", lambda: site.assigned() == site.ids())
        again = site.repair(node_id, tmp_path, confirm=True)
        assert again.returncode == 0, again.stdout
        assert "No id was changed." in again.stdout
        wait_until("what clients saw before", lambda: site.seen() == before)
        site.forget({site.node_id, site.node_id + 1} - {node_id})
        wait_until("nothing to find", lambda: site.examined() == "Nothing is wrong.\n")


@LONG
def test_repair_reports_log_owners_when_site_is_down(lab: Lab, tmp_path: Path) -> None:
    """Nothing can be planned. What is known is said, with the remedy for a broker that refuses its folder."""
    site = old(lab)
    for host in (site.host, site.changed):
        lab.run(host, "systemctl", "stop", "kafka")
    try:
        said = site.repair(site.node_id + 1, tmp_path, confirm=False)
        assert said.returncode != 0
        assert f"{site.host} has the logs of broker 11, as in the inventory." in flat(said.stdout)
        assert f"{site.changed} has the logs of broker 12, but kafka_node_id 13 in the inventory" in flat(
            said.stdout
        )
    finally:
        for host in (site.host, site.changed):
            lab.run(host, "systemctl", "start", "kafka")
    wait_until("both brokers", lambda: site.ids() == {11, 12})
