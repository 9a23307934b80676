"""A cluster stays available during changes. Changes that would stop it are refused."""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from calendar import timegm
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sandboxes
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from lab import Lab, wait_until

EAST = ("east-kafka-1", "east-kafka-2", "east-kafka-3")
WEST = "west-broker-1"
CONFIG = "/etc/aqueduct/kafka"
ROOT = Path(__file__).resolve().parents[3]
HOSTS = (*EAST, "west-controller-1", WEST)


class Ledger(threading.Thread):
    """Writes numbered records with acks=all until it is stopped; remembers those that were acknowledged."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[bytes] = set()
        self.failures: list[str] = []
        servers = ",".join(lab.address(host) for host in EAST)
        self._producer = lab.producer(EAST[0], "ledger", servers=servers)
        self._stop_asked = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._stop_asked.is_set():
            value = b"%d-%d" % (id(self), number)

            def delivered(error: object, _: object, value: bytes = value) -> None:
                if error:
                    self.failures.append(str(error))
                else:
                    self.acknowledged.add(value)

            self._producer.produce("ledger", value, on_delivery=delivered)
            self._producer.poll(0.01)
            number += 1
        self._producer.flush(300)

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(timeout=600)
        assert not self.is_alive()


@contextmanager
def writing(lab: Lab) -> Iterator[None]:
    """While the body runs, a client writes; afterwards, all that was acknowledged is there, once."""
    ledger = Ledger(lab)
    ledger.start()
    wait_until("the first records", lambda: len(ledger.acknowledged) > 10)
    yield
    ledger.finish()
    assert ledger.failures == []
    found = [record.value for records in lab.read(EAST[0], "ledger").values() for record in records]
    own = [value for value in found if value and value.startswith(b"%d-" % id(ledger))]
    assert len(own) == len(set(own)), "records were doubled"
    assert set(own) == ledger.acknowledged, "acknowledged records are missing"


def processes(lab: Lab, hosts: tuple[str, ...]) -> dict[str, str]:
    show = ("systemctl", "show", "--property=MainPID,ActiveEnterTimestampMonotonic", "kafka")
    return {host: lab.run(host, *show).stdout for host in hosts}


def started(lab: Lab, host: str) -> float:
    shown = lab.run(
        host, "systemctl", "show", "--property=ActiveEnterTimestamp", "--timestamp=us+utc", "--value", "kafka"
    )
    return timegm(time.strptime(shown.stdout.split(".")[0], "%a %Y-%m-%d %H:%M:%S"))


def setting(lab: Lab, host: str, node_id: int, name: str) -> str:
    admin = lab.admin(host)
    [answer] = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node_id))]).values()
    return str(answer.result(60)[name].value)


def test_every_service_is_in_its_sandbox(lab: Lab) -> None:
    sandboxes.check(lab)


def test_dry_run_of_estate_shows_only_changed_setting(lab: Lab, tmp_path: Path) -> None:
    """What is converged stays unmentioned: four hosts have no change, and the fifth has this one alone."""
    changed = {"all": {"hosts": {EAST[1]: {"kafka_settings": {"log.cleaner.backoff.ms": 14000}}}}}
    (tmp_path / "changed.yml").write_text(json.dumps(changed))
    before = processes(lab, EAST)
    tried = lab.play("site", "--check", "--diff", "--inventory", str(tmp_path / "changed.yml"))
    said = re.sub(r"\x1b\[[0-9;]*m", "", tried.stdout)  # its colours
    assert tried.returncode == 0, said
    recap = re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0", said, re.MULTILINE)
    assert {host: int(count) for host, count in recap} == {**dict.fromkeys(HOSTS, 0), EAST[1]: 1}, said
    assert re.findall(r"^[-+](?![-+]).*", said, re.MULTILINE) == ["+log.cleaner.backoff.ms=14000"]
    assert processes(lab, EAST) == before


def test_a_broker_whose_every_default_is_changed_serves(lab: Lab) -> None:
    metadata = lab.admin("west-broker-1").list_topics(timeout=60)
    assert list(metadata.brokers) == [7]
    assert len(metadata.topics["ledger"].partitions) == 2
    assert setting(lab, "west-broker-1", 7, "log.retention.hours") == "24"
    assert setting(lab, "west-broker-1", 7, "log.dirs") == "/srv/kafka/log"
    limits = lab.run(
        "west-broker-1", "sh", "-c", "cat /proc/$(systemctl show -P MainPID kafka)/limits"
    ).stdout
    assert "15000" in next(line for line in limits.splitlines() if line.startswith("Max open files"))


def test_replicas_are_spread_over_racks(lab: Lab) -> None:
    """Two brokers share a rack. Without racks some of six partitions would have both replicas there."""
    admin = lab.admin(EAST[0])
    new = NewTopic("spread", 6, 2, config={"min.insync.replicas": "1"})
    admin.create_topics([new])["spread"].result(60)
    try:
        partitions = wait_until(
            "six partitions", lambda: admin.list_topics("spread", timeout=60).topics["spread"].partitions
        )
        racks = {1: "a", 2: "a", 3: "b"}
        spread = {number: {racks[each] for each in of.replicas} for number, of in partitions.items()}
        assert spread == {number: {"a", "b"} for number in range(6)}
    finally:
        admin.delete_topics(["spread"])["spread"].result(60)


def test_changed_setting_restarts_only_affected_host(lab: Lab) -> None:
    before = processes(lab, EAST)
    with writing(lab):
        done = lab.play("kafka", "--limit", "east-kafka-2", kafka_settings={"log.cleaner.backoff.ms": 14000})
        assert done.returncode == 0, done.stdout
    after = processes(lab, EAST)
    assert [host for host in EAST if before[host] != after[host]] == ["east-kafka-2"]
    assert setting(lab, "east-kafka-2", 2, "log.cleaner.backoff.ms") == "14000"


def keys(lab: Lab) -> dict[str, str]:
    """Return the brokers' private keys, as digests."""
    own = f"openssl pkey -in {CONFIG}/tls/kafka-east.pem -pubout | sha256sum"
    return {host: lab.run(host, "sh", "-c", own).stdout for host in EAST}


def answered(lab: Lab, ca: Path, clients: Path, seconds: float = 60) -> bool:
    """Tell if a broker answers in time who trusts this authority, and has this key."""
    pem = str(clients / "ledger.pem")
    settings = {"ssl.ca.location": str(ca), "ssl.certificate.location": pem, "ssl.key.location": pem}
    admin = AdminClient({**lab.client(EAST[0]), **settings, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=seconds).brokers)
    except KafkaException:
        return False


@pytest.mark.long
def test_certificate_renewal_restarts_brokers_in_turn_under_load(lab: Lab) -> None:
    before, began = keys(lab), time.time()
    renewal = {"certificates_renewal_days": 400, "certificates_validity_days": 500}
    with writing(lab):
        done = lab.play("kafka", "--limit", "site_east", **renewal)
        assert done.returncode == 0, done.stdout
    for host in EAST:
        asked = ("openssl", "x509", "-in", f"{CONFIG}/tls/kafka-east.pem", "-noout", "-checkend")
        assert "will not expire" in lab.run(host, *asked, str(450 * 86400)).stdout
    assert keys(lab) == before, "a renewed certificate is of the same key"
    order = sorted(EAST, key=lambda host: started(lab, host))
    assert len({started(lab, host) for host in EAST}) == 3, "one after another"
    controllers = active_controllers(lab, began, started(lab, order[0]))
    print(f"restarted in the order {order}; the active controller was {controllers}")
    assert order[-1] in controllers, "the active controller is the last to restart"


@pytest.mark.long
def test_authority_replacement_under_load_refuses_old_keys_afterwards(lab: Lab, tmp_path: Path) -> None:
    def step(name: str) -> None:
        done = lab.play("authority", step=name)
        assert done.returncode == 0, done.stdout

    shutil.copytree(lab.pki / "clients", tmp_path / "clients")
    shutil.copy(lab.pki / "ca/ca.pem", tmp_path / "ca.pem")
    before = keys(lab)
    with writing(lab):
        step("introduce")
    assert keys(lab) == before
    with writing(lab):  # by a client that trusts both
        step("switch")
        assert answered(lab, lab.pki / "ca/ca.pem", tmp_path / "clients"), "who has no new key yet"
    switched = keys(lab)
    assert all(switched[host] != before[host] for host in EAST)
    refused = lab.play("authority", step="introduce")
    assert refused.returncode != 0
    assert "[authority-step-early]" in refused.stdout, refused.stdout
    with writing(lab):  # by one that has a new key
        step("retire")
    assert answered(lab, lab.pki / "ca/ca.pem", lab.pki / "clients")
    for ca, folder in (
        (lab.pki / "ca/ca.pem", tmp_path / "clients"),  # an old key
        (tmp_path / "ca.pem", lab.pki / "clients"),  # who trusts the old authority
    ):
        assert not answered(lab, ca, folder, 8)
    assert keys(lab) == switched


@pytest.mark.long
def test_cluster_changes_broker_principal_under_load(lab: Lab) -> None:
    """As the guide says it, there from `kafka`, which all sites once shared; here to it and back."""

    def play(**variables: object) -> None:
        done = lab.play("kafka", "--limit", "site_east", **variables)
        assert done.returncode == 0, done.stdout

    with writing(lab):
        play(kafka_former_principals=["kafka"])
        play(kafka_principal="kafka", kafka_former_principals=["kafka"])
        assert lab.run(EAST[0], "ls", "/etc/aqueduct/kafka/tls/kafka.pem").stdout
        play(kafka_former_principals=["kafka"])
        play()
    assert setting(lab, EAST[0], 1, "super.users") == "User:kafka-east;User:admin"


def active_controllers(lab: Lab, since: float, until: float) -> set[str]:
    """Return who was the active controller between two times: one, if none was elected meanwhile."""
    said = ("journalctl", "--unit=kafka", "--output=short-unix", "--grep=Becoming the active controller")
    elected = sorted(
        (float(line.split()[0]), host)
        for host in EAST
        for line in lab.run(host, *said, check=False).stdout.splitlines()  # of one that never was, nothing
        if line[0].isdigit()
    )
    before = [host for at, host in elected if at <= since]
    return {*before[-1:], *(host for at, host in elected if since < at < until)}


def test_a_broker_that_dies_comes_back(lab: Lab) -> None:
    with writing(lab):
        before = processes(lab, EAST)["east-kafka-3"]
        lab.kill("east-kafka-3", "kafka")
        wait_until(
            "another process",
            lambda: "MainPID=0" not in (now := processes(lab, EAST)["east-kafka-3"]) and now != before,
        )
        wait_until("all replicas in sync", lambda: in_sync(lab))


def in_sync(lab: Lab) -> bool:
    topics = lab.admin(EAST[0]).list_topics(timeout=60).topics
    partitions = [each for topic in topics.values() for each in topic.partitions.values()]
    return "ledger" in topics and all({*each.isrs} == {*each.replicas} for each in partitions)


def test_node_rejoins_cluster_with_vote_after_disk_loss(lab: Lab) -> None:
    """It has the id that the other hosts have, and makes none of its own; and it has a vote (KIP-853)."""
    meta = "/var/lib/kafka/log/meta.properties"
    before = lab.run(EAST[0], "grep", "cluster.id", meta).stdout
    asked = lab.play("kafka", "--limit", "site_east")  # a test before this one left a setting on one of them
    assert asked.returncode == 0, asked.stdout
    with writing(lab):
        lab.run(EAST[2], "sh", "-c", "systemctl stop kafka && rm -r /var/lib/kafka/log")
        done = lab.play("kafka", "--limit", "site_east")
        assert done.returncode == 0, done.stdout
        wait_until("all replicas in sync", lambda: in_sync(lab))
    assert lab.run(EAST[2], "grep", "cluster.id", meta).stdout == before
    wait_until("its vote", lambda: voters(lab) == {1, 2, 3})


def voters(lab: Lab) -> set[int]:
    """Return the ids of controllers that have a vote and are there, as Kafka's own tool has them."""
    tool = ("java", "-XX:TieredStopAtLevel=1", "-cp", "/opt/aqueduct/kafka-4.3.1/libs/*")
    asked = ("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", f"{EAST[0]}:9092")
    config = ("--command-config", "/etc/aqueduct/kafka/tls/client.properties", "describe", "--replication")
    rows = [line.split() for line in lab.run(EAST[0], *tool, *asked, *config).stdout.splitlines()]
    return {int(row[0]) for row in rows if row[-1] in ("Leader", "Follower") and int(row[3]) < 10}


def test_no_broker_is_stopped_while_another_is_down(lab: Lab) -> None:
    """Two of three must stay in sync, so the second one may not go."""
    wait_until("all replicas in sync", lambda: in_sync(lab))
    lab.run("east-kafka-3", "systemctl", "stop", "kafka")
    before = processes(lab, EAST[:2])
    refused = lab.play(
        "rolling_restart",
        "--limit",
        "east-kafka-1,east-kafka-2",
        kafka_restart_all=True,
        kafka_ready_seconds=45,
    )
    assert refused.returncode != 0
    assert "min.insync.replicas" in refused.stdout or "under-replicated" in refused.stdout, refused.stdout
    assert processes(lab, EAST[:2]) == before
    lab.run("east-kafka-3", "systemctl", "start", "kafka")
    wait_until("all replicas in sync", lambda: in_sync(lab))


# Runs in a host: a client that speaks plaintext, which TLS refuses, and that comes again and again until its
# input ends: the doctor reads the journal of the last two minutes.
PLAINTEXT = """
import contextlib, select, socket, sys
while not select.select([sys.stdin], [], [], 0.2)[0]:
    with contextlib.suppress(OSError), socket.create_connection((sys.argv[1], 9092), 10) as client:
        client.sendall(bytes.fromhex('0000000a00120000000000010000'))
        client.recv(100)
"""


def test_the_doctor_names_a_broker_that_is_down(lab: Lab) -> None:
    """And a client that never gets in, by the broker's journal."""
    wait_until("all replicas in sync", lambda: in_sync(lab))
    wait_until("all votes", lambda: voters(lab) == {1, 2, 3})
    well = lab.play("doctor")
    assert well.returncode == 0, well.stdout
    said = re.sub(r"\s+", " ", well.stdout)
    assert re.search(r"Listener CLIENT \(SSL, port 9092\): [1-9]\d* connections? from ", said)
    lab.run("east-kafka-3", "systemctl", "stop", "kafka")
    plaintext = lab.start(EAST[1], "python3", "-c", PLAINTEXT, EAST[0])
    try:
        ill = lab.play("doctor", consumer_groups="anyone")
    finally:
        plaintext.communicate(timeout=60)
        lab.run("east-kafka-3", "systemctl", "start", "kafka")
    assert ill.returncode != 0
    told = ill.stdout.partition("[ERROR]: ")[2].partition("Origin:")[0]
    assert (
        re.sub(r"\s+", " ", told).count("east: [cluster-node-unhealthy] Broker 3 is registered but fenced")
        == 1
    ), "each host says it, and it is told once"
    assert "/var/lib/kafka/log contains logs of " in re.sub(r"\s+", " ", told)
    mismatch = r"east: \[client-protocol-mismatch\] .* failed TLS handshakes .* CLIENT \(SSL, port 9092\)"
    assert re.search(mismatch, re.sub(r"\s+", " ", told))
    assert "west: " not in told
    wait_until("all replicas in sync", lambda: in_sync(lab))


def test_the_doctor_reports_a_dead_cluster_once(lab: Lab) -> None:
    nodes = (WEST, "west-controller-1")
    for node in nodes:
        lab.run(node, "systemctl", "stop", "kafka")
    try:
        ill = lab.play("doctor")
    finally:
        for node in nodes:
            lab.run(node, "systemctl", "start", "kafka")
    assert ill.returncode != 0
    told = ill.stdout.partition("[ERROR]: ")[2].partition("Origin:")[0]
    assert told.count("west: ") == 1
    assert "did not answer" in told
    wait_until("the cluster of west answers", lambda: bool(lab.admin(WEST).list_topics(timeout=60).brokers))


def test_kafka_s_own_tools_ask_the_cluster(lab: Lab) -> None:
    tool = "/opt/aqueduct/bin/kafka-metadata-quorum.sh"
    options = (
        "--bootstrap-server",
        lab.address(EAST[0]),
        "--command-config",
        f"{CONFIG}/tls/client.properties",
    )
    said = lab.run(EAST[0], tool, *options, "describe", "--status").stdout
    assert re.search(r"^LeaderId: +\d+$", said, re.MULTILINE)


def test_undeclared_broker_is_reported_after_topics_and_acls(lab: Lab, tmp_path: Path) -> None:
    """As after its host was replaced, with a new id. Only the last play runs: hosts stay as they are."""
    (tmp_path / "replaced.yml").write_text(json.dumps({"all": {"hosts": {WEST: {"kafka_node_id": 8}}}}))
    compact = {"name": "ledger", "partitions": 2, "config": {"cleanup.policy": "compact"}}
    right = {"principal": "visitor", "resource": "topic", "name": "arrived", "operations": ["read"]}
    applied = lab.play(
        *("kafka", "--limit", "site_west", "--inventory", str(tmp_path / "replaced.yml")),
        *("--start-at-task", "Create topics and ACLs of the site"),
        kafka_topics=[compact, {"name": "arrived", "partitions": 1}],
        kafka_acls=[right],
    )
    assert applied.returncode != 0, applied.stdout
    told = re.sub(r"\s+", " ", applied.stdout)
    assert "Broker 7 is not in the inventory, and runs. The broker has replicas of " in told, applied.stdout
    admin = lab.admin(WEST)
    on_arrived = AclBindingFilter(
        *(ResourceType.TOPIC, "arrived", ResourcePatternType.LITERAL, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    assert [acl.operation for acl in admin.describe_acls(on_arrived).result(60)] == [AclOperation.READ]
    admin.delete_acls([on_arrived])[on_arrived].result(60)
    admin.delete_topics(["arrived"])["arrived"].result(60)  # it was created


def test_host_without_java_17_is_refused_for_lake(lab: Lab) -> None:
    assert "trixie" in lab.run(EAST[0], "cat", "/etc/os-release").stdout
    kinds = ("users", "folders", "kafka", "hadoop", "environments", "versitygw", "files")
    needs = {kind: [] for kind in kinds} | {"packages": ["openjdk-17-jre-headless"]}
    arguments = {
        "needs": needs,
        "repository": str(ROOT),
        "root": "/opt/aqueduct",
        "cache": "/nowhere",
        "kafka_source": "maven",
        "versitygw_source": "go",
    }
    module = ("--module-name", "aqueduct.estate.host_software", "--args", json.dumps(arguments), "--become")
    command = ("ansible", "--inventory", str(lab.inventory), *module, EAST[0])
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    told = re.sub(r"\s+", " ", refused.stdout + refused.stderr)
    assert refused.returncode != 0
    assert f"{EAST[0]} has no package openjdk-17-jre-headless" in told
    assert "Debian 12" in told


@pytest.mark.long
def test_topics_grow_and_never_shrink(lab: Lab) -> None:
    grown = lab.play("kafka", "--limit", "site_east", kafka_topics=[{"name": "ledger", "partitions": 8}])
    assert grown.returncode == 0, grown.stdout
    assert len(lab.admin(EAST[0]).list_topics(timeout=60).topics["ledger"].partitions) == 8
    refused = lab.play("kafka", "--limit", "site_east")
    assert refused.returncode != 0
    assert "ledger (8, declared 6)" in refused.stdout
    assert len(lab.admin(EAST[0]).list_topics(timeout=60).topics["ledger"].partitions) == 8


# Runs in a host, and prints what Kafka says to a first request with each certificate; "" is none.
ASK = """
import json, socket, ssl, struct, sys
host, port, authority, *certificates = json.loads(sys.argv[1])
said = []
for certificate in certificates:
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False
    if certificate:
        context.load_cert_chain(certificate)
    # ApiVersions, version 0, number 7, of a client without a name: answered to whoever is let in.
    request = struct.pack('>hhih', 18, 0, 7, -1)
    try:
        with socket.create_connection((host, port), 60) as plain, context.wrap_socket(plain) as tls:
            tls.sendall(struct.pack('>i', len(request)) + request)
            answer = tls.recv(8)
            said.append('answers' if answer[4:] == struct.pack('>i', 7) else f'says {answer!r}')
    except (ssl.SSLError, ConnectionError) as error:
        said.append(f'refuses: {error}')
print(json.dumps(said))
"""


@pytest.mark.parametrize("host", HOSTS)
def test_every_listener_demands_a_client_certificate(lab: Lab, host: str) -> None:
    """The certificate is the only difference: with one a listener answers, without it refuses."""
    listening = lab.run(host, "ss", "--listening", "--tcp", "--numeric", "--no-header").stdout
    addresses = {line.split()[3] for line in listening.splitlines()}
    ports = {address.rpartition(":")[2] for address in addresses if "127.0.0." not in address}
    ports -= {"9464", "22"}  # of metrics, see test_monitoring.py; of the host whose files are backed up
    properties = lab.run(host, "cat", f"{CONFIG}/server.properties").stdout
    [listeners] = re.findall(r"^listeners=(.*)$", properties, re.MULTILINE)
    assert ports == set(re.findall(r":(\d+)", listeners))
    for port in ports:
        pem = f"{CONFIG}/tls/kafka-{host.partition('-')[0]}.pem"
        asked = json.dumps([host, int(port), f"{CONFIG}/tls/ca.pem", pem, ""])
        with_it, without = json.loads(lab.run(host, "python3", "-c", ASK, asked).stdout)
        assert with_it == "answers", port
        assert re.match(r"refuses: .*(CERTIFICATE_REQUIRED|BAD_CERTIFICATE)", without), (port, without)


def test_site_with_provided_certificates_trusts_no_other_authority(lab: Lab) -> None:
    """Its broker, its controller and this client have what prepare.yml made, which nothing of ours signed."""
    producer = lab.producer(WEST, "admin")
    sent = [b"%d %d" % (time.time_ns(), number) for number in range(100)]
    for value in sent:
        producer.produce("ledger", value, value, partition=0)
    assert producer.flush(300) == 0
    assert [record.value for record in lab.read(WEST, "ledger")[0]][-100:] == sent
    provided, own = lab.pki / "provided", lab.pki / "clients/admin.pem"
    assert own.is_file()
    port = lab.variables[WEST]["lab_published_port"]
    asked = json.dumps(["localhost", port, *map(str, (provided / "ca.pem", provided / "admin.pem", own))])
    said = subprocess.run([sys.executable, "-c", ASK, asked], check=True, capture_output=True, text=True)
    with_provided, with_own = json.loads(said.stdout)
    assert with_provided == "answers"
    assert re.match(r"refuses: .*(UNKNOWN_CA|CERTIFICATE_UNKNOWN|BAD_CERTIFICATE)", with_own), with_own
