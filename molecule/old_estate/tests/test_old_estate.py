"""A site with ZooKeeper is deployed, used and backed up. Its faults are detected."""

import base64
import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sandboxes
from confluent_kafka import Consumer, KafkaError, TopicPartition
from lab import Lab, wait_until
from old_site import BROKER_KEY, BROKERS, ENSEMBLE, LAKE, LOG, RECORDS, SECOND, OldSite, read, write

from aqueduct.recovery.zookeeper import snapshots
from aqueduct.recovery.zookeeper.znodes import Right, Znode
from aqueduct.store import signing

STORE = "/srv/znodes"
LAST = 10**20 - 1  # the last number that there can be
PLANTED = Znode("/planted", b"", (Right(31, "world", "anyone"),), 0)
OF_BROKERS = ("/brokers/topics/flights", "/cluster/id", "/config/topics/flights", "/kafka-acl/Topic/flights")
ONLY_BROKERS = "'x509,'CN=kafka-old\n: cdrwa\n"
TO_READ = "'world,'anyone\n: r\n"


def test_every_service_is_in_its_sandbox(lab: Lab) -> None:
    sandboxes.check(lab)


def test_records_written_over_mutual_tls_reach_lake(lab: Lab) -> None:
    values = write(lab, "first")
    assert sorted(filter(None, read(lab, SECOND))) == sorted(values)
    # A mirror of this kind may double what a member of its group had not committed when another one joined.
    wait_until("all records in the lake", lambda: {*read(lab, LAKE)} >= {*values})
    assert {*read(lab, LAKE)} == {*values}


def test_group_keeps_position_and_other_principal_is_denied(lab: Lab) -> None:
    place = TopicPartition("flights", 1, 7)
    settings = {"group.id": "dispatch-1", "enable.auto.commit": False}
    lab.commit({**lab.client(ENSEMBLE, "dispatch"), **settings}, [place])
    consumer = Consumer({**lab.client(ENSEMBLE, "dispatch"), **settings})
    [committed] = consumer.committed([TopicPartition("flights", 1)], timeout=60)
    consumer.close()
    assert committed.offset == 7
    stranger = Consumer({**lab.client(ENSEMBLE, "stranger"), **settings})
    found = stranger.list_topics("flights", timeout=60).topics["flights"]
    stranger.close()
    assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_brokers_have_the_ids_of_the_inventory(site: OldSite) -> None:
    assert site.ids() == {*BROKERS.values()}
    assert {host: int(site.meta(host)["broker.id"]) for host in BROKERS} == BROKERS
    assert "node.id" not in site.meta(ENSEMBLE)
    assert site.znode("/cluster/id")["id"] == site.meta(SECOND)["cluster.id"]


@pytest.mark.parametrize("path", ["/", "/zookeeper", *OF_BROKERS])
def test_znode_acl_gives_brokers_all_and_others_read(site: OldSite, path: str) -> None:
    said = site.shell("getAcl", path)
    assert said.endswith((ONLY_BROKERS + TO_READ, TO_READ + ONLY_BROKERS)), said


def test_what_only_brokers_may_read_is_theirs_alone(site: OldSite) -> None:
    """Users' credentials would be below it."""
    assert site.shell("getAcl", "/config/users").endswith(ONLY_BROKERS)


def test_stranger_with_valid_certificate_cannot_change_znodes(site: OldSite) -> None:
    stranger = site.with_key_of("stranger")
    assert "11" in site.shell("ls", "/brokers/ids", key=stranger), "it must come as far as reading"
    for command in (
        ("create", "/mine", "x"),
        ("create", "/zookeeper/mine", "x"),
        ("create", "/brokers/topics/mine", "x"),
        ("set", "/config/topics/flights", "{}"),
        ("delete", "/kafka-acl/Topic/flights"),
        ("setAcl", "/", "world:anyone:cdrwa"),
        ("ls", "/config/users"),
    ):
        assert re.search("Insufficient permission|NoAuth", site.shell(*command, key=stranger)), command
    site.shell("create", "/brokers/of-a-broker", "x", key=BROKER_KEY)
    assert "of-a-broker" in site.shell("ls", "/brokers"), "the same by a broker's key goes"
    site.shell("delete", "/brokers/of-a-broker")


def test_who_has_no_certificate_is_not_let_in(site: OldSite, lab: Lab) -> None:
    """Neither over TLS, nor at ZooKeeper's usual plain port, which is closed."""
    address = lab.run(ENSEMBLE, "hostname", "-i").stdout.split()[0]
    context = ssl.create_default_context(cafile=str(lab.pki / "ca/ca.pem"))

    def asked() -> bytes:
        try:
            with (
                socket.create_connection((address, 2182), 60) as plain,
                context.wrap_socket(plain, server_hostname=ENSEMBLE) as there,
            ):
                there.sendall(b"srvr")
                return there.recv(1000)
        except OSError:
            return b""

    assert asked() == b""
    context.load_cert_chain(lab.pki / "clients/stranger.pem")
    assert b"Mode: standalone" in asked()
    listening = lab.run(ENSEMBLE, "ss", "--listening", "--tcp", "--numeric", "--no-header").stdout
    assert ":2182 " in listening
    assert ":2181 " not in listening
    assert re.search(r"127\.0\.0\.1\]?:8080 ", listening), listening
    assert not re.search(r"(\*|0\.0\.0\.0|\[::\]):8080 ", listening), listening


@contextlib.contextmanager
def changed(site: OldSite, name: str, value: str) -> Iterator[None]:
    before = site.meta(SECOND)[name]
    site.write_meta(SECOND, name, value)
    try:
        yield
    finally:
        site.write_meta(SECOND, name, before)


def test_logs_of_another_broker_are_refused_before_start(site: OldSite, lab: Lab) -> None:
    before = site.started("kafka")
    with changed(site, "broker.id", "13"):
        done = lab.play("kafka", "--limit", SECOND)
        assert done.returncode != 0
        said = re.sub(r"\s+", " ", done.stdout)
        assert f"{LOG} contains the logs of broker 13, but this host is configured as broker 12." in said
    assert site.started("kafka") == before


def test_another_server_s_data_folder_is_refused(site: OldSite, lab: Lab) -> None:
    lab.run(ENSEMBLE, "sh", "-c", "echo 2 > /var/lib/zookeeper/myid")
    try:
        done = lab.play("zookeeper")
        assert done.returncode != 0
        said = re.sub(r"\s+", " ", done.stdout)
        assert "has the data of server 2, but zookeeper_id is 1. Set zookeeper_id to 2" in said
    finally:
        lab.run(ENSEMBLE, "sh", "-c", "echo 1 > /var/lib/zookeeper/myid")


def test_doctor_passes_healthy_site_and_reports_stopped_broker(site: OldSite, lab: Lab) -> None:
    well = lab.play("doctor")
    assert well.returncode == 0, well.stdout
    lab.run(SECOND, "systemctl", "stop", "kafka")
    try:
        ill = lab.play("doctor", "--limit", f"{ENSEMBLE},{LAKE}")
        assert ill.returncode != 0
        assert "[partitions-short-of-replicas]" in re.sub(r"\s+", " ", ill.stdout), ill.stdout
    finally:
        lab.run(SECOND, "systemctl", "start", "kafka")
    wait_until("both brokers and all replicas", site.is_whole)


def test_a_backup_is_made_and_verified(lab: Lab) -> None:
    done = lab.play("backup")
    assert done.returncode == 0, done.stdout
    verified = lab.run(
        *(SECOND, "/opt/aqueduct/spark/bin/aqueduct", "verify", "--store", "file:///srv/backup"),
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    written = sum(len(read(lab, ENSEMBLE, topic)) for topic in ("flights", "departures", "bookings"))
    assert f"{written} records" in verified.stdout.replace(",", "")


def test_changed_setting_restarts_ensemble_but_no_broker(site: OldSite, lab: Lab) -> None:
    ensemble, brokers = site.started("zookeeper")[ENSEMBLE], site.started("kafka")
    done = lab.play("zookeeper", zookeeper_settings={"syncLimit": 7})
    assert done.returncode == 0, done.stdout
    assert site.started("zookeeper")[ENSEMBLE] != ensemble
    assert site.started("kafka") == brokers
    wait_until("both brokers and all replicas", site.is_whole)
    assert len(write(lab, "after", SECOND)) == RECORDS


def test_brokers_restart_one_after_another_and_keep_all(site: OldSite, lab: Lab) -> None:
    before, values = site.started("kafka"), sorted(filter(None, read(lab, ENSEMBLE)))
    done = lab.play("rolling_restart", "--limit", "site_old", kafka_restart_all=True)
    assert done.returncode == 0, done.stdout
    after = site.started("kafka")
    assert all(before[host] != after[host] for host in BROKERS)
    wait_until("both brokers and all replicas", site.is_whole)
    assert site.ids(SECOND) == {*BROKERS.values()}
    assert sorted(filter(None, read(lab, SECOND))) == values


def stored(number: int) -> str:
    return f"{STORE}/{snapshots.ZnodeSnapshots.path(number)}"


def numbers(lab: Lab) -> list[int]:
    paths = lab.run(ENSEMBLE, "sh", "-c", f"ls {STORE}/znodes").stdout.split()
    return sorted(int(path.partition(".")[0]) for path in paths)


def plant(lab: Lab, like: int, *free: int) -> None:
    """Write unsigned copies of a snapshot, as anyone with write access to the store can."""
    packed = base64.b64decode(lab.run(ENSEMBLE, "base64", stored(like)).stdout)
    snapshot = snapshots.decode(signing.split(packed).manifest)
    znodes = {**snapshot.znodes, PLANTED.path: PLANTED}
    for number in free:
        forged = snapshots.encode(replace(snapshot, number=number, znodes=znodes))
        write_it = ("sh", "-c", f"base64 --decode > {stored(number)}")
        lab.run(ENSEMBLE, *write_it, stdin=base64.b64encode(forged).decode())


def test_znode_restore_recovers_cluster_after_zookeeper_data_loss(
    site: OldSite, lab: Lab, request: pytest.FixtureRequest
) -> None:
    """A broker that would start beside the empty ensemble is refused, for it would make a new cluster."""
    values, cluster = sorted(filter(None, read(lab, ENSEMBLE))), site.meta(SECOND)["cluster.id"]
    rights = site.shell("get", "/kafka-acl/Topic/flights").splitlines()[-1]
    done = lab.run(ENSEMBLE, "systemctl", "start", "--wait", "zookeeper_backup", check=False)
    said = lab.journal(ENSEMBLE, "--unit=zookeeper_backup")
    assert done.returncode == 0, said
    assert re.search(r"Snapshot \d+ of old-kafka-1:2182 \(cluster ", said), said
    first = numbers(lab)[-1]
    planted = (first + 1, LAST)
    request.addfinalizer(lambda: lab.run(ENSEMBLE, "rm", "--force", *map(stored, planted)))
    plant(lab, first, *planted)
    lab.run(ENSEMBLE, "systemctl", "start", "--wait", "zookeeper_backup", check=False)
    code = lab.run(ENSEMBLE, "systemctl", "show", "--property=ExecMainStatus", "--value", "zookeeper_backup")
    said = lab.journal(ENSEMBLE, "--unit=zookeeper_backup")
    assert code.stdout.strip() == "3", said
    assert "[snapshot-unusable]" in said, said
    newest = first + 2
    assert {*numbers(lab)} >= {first, *planted, newest}, "the good ones stay"
    lab.run(ENSEMBLE, "systemctl", "stop", "kafka")
    # The snapshot has both in sync, and the one that lacks these starts first.
    values = sorted([*values, *write(lab, "alone", SECOND)])
    lab.run(SECOND, "systemctl", "stop", "kafka")
    lab.run(ENSEMBLE, "sh", "-c", "systemctl stop zookeeper && rm -r /var/lib/zookeeper/version-2")
    lab.run(ENSEMBLE, "systemctl", "start", "zookeeper")
    refused = lab.play("kafka", "--limit", SECOND)
    assert refused.returncode != 0
    assert ("contains no cluster. Restore its znodes first") in re.sub(r"\s+", " ", refused.stdout), (
        refused.stdout
    )
    distrusted = lab.play("restore_zookeeper", "--limit", "site_old")
    assert distrusted.returncode != 0
    assert "[snapshot-not-trusted]" in distrusted.stdout, distrusted.stdout
    for path in ("/cluster/id", PLANTED.path):
        assert "Node does not exist" in site.shell("get", path), "nothing was written"
    tried = lab.play("restore_zookeeper", "--limit", "site_old", dry_run=True, snapshot=newest)
    assert tried.returncode == 0, tried.stdout
    assert f"Snapshot {newest} would create" in tried.stdout, tried.stdout
    lab.run(ENSEMBLE, "rm", *map(stored, planted))
    restored = lab.play("restore_zookeeper", "--limit", "site_old")
    assert restored.returncode == 0, restored.stdout
    assert "Broker 12 has the longest logs and becomes leader of: " in re.sub(r"\s+", " ", restored.stdout)
    wait_until("both brokers and all replicas", site.is_whole)
    assert site.znode("/cluster/id")["id"] == cluster
    assert "Node does not exist" in site.shell("get", PLANTED.path)
    assert site.shell("get", "/kafka-acl/Topic/flights").splitlines()[-1] == rights
    assert sorted(filter(None, read(lab, ENSEMBLE))) == values
    consumer = Consumer({**lab.client(ENSEMBLE, "dispatch"), "group.id": "dispatch-1"})
    [committed] = wait_until(
        "the group's coordinator", lambda: consumer.committed([TopicPartition("flights", 1)], timeout=60)
    )
    consumer.close()
    assert committed.offset == 7
    written = write(lab, "restored", SECOND)
    wait_until("what came after it in the lake", lambda: written[-1] in read(lab, LAKE))
    assert site.shell("getAcl", "/").endswith((ONLY_BROKERS + TO_READ, TO_READ + ONLY_BROKERS))
    wait_until("both brokers and all replicas", site.is_whole)
    well = lab.play("doctor")
    assert well.returncode == 0, well.stdout
