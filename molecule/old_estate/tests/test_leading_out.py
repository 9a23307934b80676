"""The site is migrated to KRaft, rolled back, and migrated to Kafka 4.3, while clients use it.

These tests come last (conftest.py), one after another: each begins where the one before it ended.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from lab import PLAIN, Lab, wait_until
from old_site import BROKERS, ENSEMBLE, JARS, KAFKA, LAKE, LOG, SECOND, OldSite
from traffic import Traffic

from demo.offsets import watermarks

pytestmark = pytest.mark.long
CONTROLLER, PARTITIONS = "old-controller-1", 4
MOVE, NODES = "migrate_to_kraft", (*BROKERS, CONTROLLER)


def values(lab: Lab, host: str = ENSEMBLE) -> dict[int, list[bytes | None]]:
    return {number: [record.value for record in found] for number, found in lab.read(host, "flights").items()}


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[int, list[bytes | None]]:
    return values(lab)


@pytest.fixture(scope="module")
def traffic(lab: Lab, before: dict[int, list[bytes | None]]) -> Iterator[Traffic]:
    """Yield clients that never stop."""
    servers = ",".join(lab.address(host) for host in BROKERS)
    client = {**lab.client(ENSEMBLE, "dispatch"), "bootstrap.servers": servers}
    found = Traffic(client, "flights", "dispatch-on-the-way", PARTITIONS, sum(map(len, before.values())))
    found.start()
    yield found
    if found.is_alive():
        found.finish()


def said(done: subprocess.CompletedProcess[str]) -> str:
    return re.sub(r"\s+", " ", done.stdout)


def lead(lab: Lab, *arguments: str, **variables: object) -> str:
    """Run the playbook for the site; what it says."""
    done = lab.play(MOVE, *arguments, site="old", **variables)
    assert done.returncode == 0, done.stdout[-6000:]
    return said(done)


def refused(lab: Lab, playbook: str = MOVE, *arguments: str, **variables: object) -> str:
    done = lab.play(playbook, *arguments, **variables)
    assert done.returncode != 0, done.stdout[-6000:]
    return said(done)


def znode(site: OldSite, path: str) -> str:
    """Return what a znode has, or why there is nothing."""
    return site.shell("get", path)


def settings(lab: Lab, host: str) -> str:
    return lab.run(host, "cat", f"{KAFKA}/server.properties", check=False).stdout


def records_of_migration(lab: Lab) -> list[str]:
    """Return the states that the controller's metadata log has, in order, as Kafka's own tool reads it.

    2: before the migration; 1: dual write; 3: after it (ZkMigrationState).
    """
    folder = f"{LOG}/__cluster_metadata-0"
    tool = (
        f"java -XX:TieredStopAtLevel=1 -cp '{JARS}' kafka.tools.DumpLogSegments --cluster-metadata-decoder "
        f"--files $(ls {folder}/*.log | paste -sd,)"
    )
    found = lab.run(CONTROLLER, "sh", "-c", tool).stdout
    return re.findall(
        r'"type":"ZK_MIGRATION_STATE_RECORD","version":0,"data":\{"zkMigrationState":(\d)', found
    )


@pytest.mark.usefixtures("traffic")
def test_a_plan_does_nothing(lab: Lab, site: OldSite) -> None:
    started = site.started("kafka")
    plan = lead(lab)
    assert "Site old: the metadata is in ZooKeeper." in plan
    assert "Next step: -e to=dual_write." in plan
    assert "changed=0" in plan
    assert not re.search(r"changed=[1-9]", plan)
    assert "[migration-step-refused] Site old is not in dual-write mode" in refused(
        lab, site="old", to="kraft", confirm="old"
    )
    assert "Site lake keeps its metadata in KRaft" in refused(lab, site="lake", to="dual_write")
    assert "[migration-broker-unfit] Kafka 4.3.1 " in refused(
        lab, site="old", to="dual_write", kafka_version="4.3.1"
    )
    assert site.started("kafka") == started


def test_migration_reports_under_replication_and_restarts_no_broker(lab: Lab, site: OldSite) -> None:
    """The other one is away, so no broker may restart."""
    lab.run(SECOND, "systemctl", "stop", "kafka")
    try:
        started = site.started("kafka")[ENSEMBLE]
        stopped = refused(lab, site="old", to="dual_write", kafka_ready_seconds=60)
        assert re.search(r"Waited 60 s: \d+ partitions are under-replicated", stopped), stopped[-3000:]
        assert site.started("kafka")[ENSEMBLE] == started
    finally:
        lab.run(SECOND, "systemctl", "start", "kafka")
    wait_until("broker 12", lambda: site.ids() == {11, 12})


def interrupted(lab: Lab, until: str, **variables: object) -> None:
    """Run the playbook until it says something, and kill it."""
    extra = [f"--extra-vars={name}={value}" for name, value in {"site": "old", **variables}.items()]
    command = ["ansible-playbook", f"--inventory={lab.inventory}", *extra, f"playbooks/{MOVE}.yml"]
    process = subprocess.Popen(
        command,
        cwd=lab.inventory.parents[2],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **PLAIN},
    )
    assert process.stdout
    for line in process.stdout:
        if until in line:
            time.sleep(1)
            break
    else:
        raise AssertionError(f"it never said {until!r}")
    process.kill()
    process.wait()
    process.stdout.close()
    time.sleep(3)  # what it had begun on a host


def test_killed_migration_run_resumes_to_dual_write(lab: Lab, site: OldSite) -> None:
    interrupted(lab, "Restart the node", to="dual_write")
    assert "zookeeper.metadata.migration.enable=true" in settings(lab, ENSEMBLE)
    assert "back to ZooKeeper, is not complete" in lead(lab)
    assert "Site old is in dual-write mode" in lead(lab, to="dual_write")
    assert all("process.roles=broker" in settings(lab, host) for host in BROKERS)
    assert '"brokerid":101' in znode(site, "/controller")
    assert records_of_migration(lab)[-1:] == ["1"]
    assert site.ids() == {*BROKERS.values()}
    again = lead(lab, to="dual_write")
    assert not re.search(r"changed=[1-9]", again), again[-2000:]


def test_what_is_made_now_is_in_zookeeper_too(lab: Lab, site: OldSite) -> None:
    lab.run(
        *(ENSEMBLE, "java", "-XX:TieredStopAtLevel=1", "-cp", JARS, "org.apache.kafka.tools.TopicCommand"),
        *("--bootstrap-server", f"{ENSEMBLE}:9092", "--command-config", f"{KAFKA}/tls/client.properties"),
        *("--create", "--topic", "made-on-the-way", "--partitions", "2", "--replication-factor", "2"),
    )
    wait_until("the topic's znode", lambda: "made-on-the-way" in site.shell("ls", "/brokers/topics"), every=2)


def test_files_of_the_inventory_are_not_written_meanwhile(lab: Lab, site: OldSite) -> None:
    """They would have the brokers be ZooKeeper's at once, beside a quorum that leads."""
    started = site.started("kafka")
    stopped = refused(lab, "kafka", "--limit", "site_old")
    assert "this node keeps its metadata in KRaft" in stopped
    assert "keeps its metadata in KRaft" in refused(lab, "restore_zookeeper", "--limit", "site_old")
    assert "keeps its metadata in KRaft" in refused(lab, "repair_broker_ids", site="old")
    assert site.started("kafka") == started
    assert all("process.roles=broker" in settings(lab, host) for host in BROKERS)


def test_the_way_back(lab: Lab, site: OldSite) -> None:
    """A topic of the time between is still there."""
    interrupted(lab, "Let the brokers elect a controller in ZooKeeper", to="zookeeper")
    assert "keeps its metadata in ZooKeeper, as before" in lead(lab, to="zookeeper")
    assert all("process.roles" not in settings(lab, host) for host in BROKERS)
    assert not any("migration" in settings(lab, host) for host in BROKERS)
    assert settings(lab, CONTROLLER) == ""
    assert lab.run(CONTROLLER, "systemctl", "is-active", "kafka", check=False).stdout.strip() == "inactive"
    assert re.search(r'"brokerid":1[12],', znode(site, "/controller"))
    assert "NoNode" in znode(site, "/migration") or "does not exist" in znode(site, "/migration")
    done = lab.play("kafka", "--limit", "site_old")
    assert done.returncode == 0, done.stdout[-3000:]
    assert not re.search(r"changed=[1-9]", done.stdout), done.stdout[-2000:]
    assert {"flights", "made-on-the-way"} <= set(lab.admin(ENSEMBLE).list_topics(timeout=60).topics)


def test_it_leaves_for_good(lab: Lab, site: OldSite) -> None:
    lead(lab, to="dual_write")
    assert "add -e confirm=old." in refused(lab, site="old", to="kraft")
    assert records_of_migration(lab)[-1:] == ["1"]
    interrupted(lab, "Restart the node", to="kraft", confirm="old")
    assert "The migration of site old is finished." in lead(lab, to="kraft", confirm="old")
    assert records_of_migration(lab)[-1:] == ["3"]
    assert "Site old cannot return to ZooKeeper" in refused(lab, site="old", to="zookeeper")
    lab.run(ENSEMBLE, "systemctl", "disable", "--now", "zookeeper")
    assert site.ids() == {*BROKERS.values()}


@pytest.fixture(scope="module")
def today(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an inventory to be read beside the scenario's, as the playbook asked for it."""
    folder = tmp_path_factory.mktemp("today")
    (folder / "group_vars").mkdir()
    (folder / "hosts.yml").write_text("kafka: {children: {kraft_controllers: }}\n")
    (folder / "group_vars/kraft_controllers.yml").write_text("kafka_roles: [controller]\n")
    (folder / "group_vars/site_old.yml").write_text("kafka_metadata: kraft\nkafka_version: 4.3.1\n")
    return str(folder)


def unit(lab: Lab, host: str) -> str:
    return lab.run(host, "systemctl", "show", "--property=Description,ActiveState", "kafka").stdout


def test_it_comes_to_the_kafka_of_today(lab: Lab, site: OldSite, today: str) -> None:
    done = lab.play("kafka", "--inventory", today, "--limit", "site_old")
    assert done.returncode == 0, done.stdout[-6000:]
    for host in NODES:
        assert "Kafka 4.3.1" in unit(lab, host)
        assert "ActiveState=active" in unit(lab, host)
        assert (
            "/opt/aqueduct/kafka-4.3.1/libs"
            in lab.run(
                host, "sh", "-c", "cat /proc/$(systemctl show --property=MainPID --value kafka)/cmdline"
            ).stdout
        )
    again = lab.play("kafka", "--inventory", today, "--limit", "site_old")
    assert again.returncode == 0, again.stdout[-3000:]
    assert not re.search(r"changed=[1-9]", again.stdout), again.stdout[-3000:]


def test_its_features_are_raised_last(lab: Lab, site: OldSite, today: str) -> None:
    started = site.started("kafka")
    plan = lab.play("upgrade_features", "--inventory", today, site="old")
    assert plan.returncode == 0, plan.stdout[-3000:]
    assert re.search(r"metadata.version: from 21 to \d\d", said(plan))
    assert "Nothing was done." in said(plan)
    assert level(lab) == "3.9-IV0"
    done = lab.play("upgrade_features", "--inventory", today, site="old", confirm="old")
    assert done.returncode == 0, done.stdout[-3000:]
    assert level(lab).startswith("4.3")
    again = lab.play("upgrade_features", "--inventory", today, site="old", confirm="old")
    assert "already has the highest level" in said(again)
    assert site.started("kafka") == started


def level(lab: Lab) -> str:
    """Return the metadata version, as Kafka's own tool names it."""
    found = lab.run(
        *(
            ENSEMBLE,
            "java",
            "-cp",
            "/opt/aqueduct/kafka-4.3.1/libs/*",
            "org.apache.kafka.tools.FeatureCommand",
        ),
        *("--bootstrap-server", f"{ENSEMBLE}:9092", "--command-config", f"{KAFKA}/tls/client.properties"),
        "describe",
    ).stdout
    [line] = [line for line in found.splitlines() if "metadata.version" in line]
    return re.search(r"FinalizedVersionLevel: (\S+)", line)[1]  # type: ignore[index]


def test_nothing_was_lost_or_doubled(
    lab: Lab, site: OldSite, before: dict[int, list[bytes | None]], traffic: Traffic, today: str
) -> None:
    traffic.finish()
    whole = {number: [*before[number], *traffic.sent[number]] for number in before}
    assert values(lab) == whole
    assert values(lab, SECOND) == whole
    assert traffic.values() == whole
    consumer = Consumer({**lab.client(ENSEMBLE, "dispatch"), "group.id": "dispatch-on-the-way"})
    places = [TopicPartition("flights", number) for number in whole]
    committed = {place.partition: place.offset for place in consumer.committed(places, timeout=60)}
    assert {
        number: watermarks(consumer, TopicPartition("flights", number))[1] for number in whole
    } == committed
    consumer.close()
    many = sum(map(len, whole.values()))
    wait_until("all in the lake", lambda: sum(map(len, values(lab, LAKE).values())) >= many, every=2)
    assert {number: sorted(filter(None, found)) for number, found in values(lab, LAKE).items()} == {
        number: sorted(filter(None, found)) for number, found in whole.items()
    }
    doctor = lab.play("doctor", "--inventory", today)
    assert doctor.returncode == 0, doctor.stdout[-3000:]
