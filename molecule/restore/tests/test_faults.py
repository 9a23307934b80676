"""Backups and restores are killed, or read damaged data, or run twice. Their reports are correct."""

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from backed_up import NUMBERS_SINCE, kill_while_it_writes
from confluent_kafka import TopicPartition
from estate import SITE, STORE, Estate
from lab import Record, wait_until

pytestmark = pytest.mark.usefixtures("outcome")

# One seed of each class of fault in CI; `script/scenario restore --all` runs them all.
ALL = bool(os.environ.get("AQUEDUCT_ALL_SEEDS"))
SEEDS = range(1, 6) if ALL else range(1, 2)
PARTITIONS, RECORDS = 6, 4_000
KILLS = 3 if ALL else 1
# A backup that takes about a minute, and writes its first segments long before its end.
SLOWLY = ("--segment-records", "250", "--rate-limit-bytes", "100000")


@pytest.fixture(scope="module")
def topic(estate: Estate) -> str:
    estate.make("numbers", PARTITIONS)
    estate.write_numbers("numbers", RECORDS, PARTITIONS)
    return "numbers"


def url(name: str) -> str:
    return f"s3://scratch/{name}"


def backed_up(estate: Estate, topic: str, name: str) -> str:
    code, said = estate.aqueduct("backup", "--store", url(name), "--topics", topic)
    assert code == 0, said
    return url(name)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_backup_that_is_killed_again_and_again(estate: Estate, topic: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    name = f"killed-{seed}"
    for _ in range(KILLS):
        kill_while_it_writes(
            lambda: estate.start("backup", "--store", url(name), "--topics", topic, *SLOWLY),
            lambda: estate.written(name),
            chance,
        )
        code, said = estate.aqueduct("verify", "--store", url(name))
        assert (code, "[snapshot-missing] " in said) == (2, True), f"it had committed: {said}"
    store = backed_up(estate, topic, name)
    assert estate.aqueduct("verify", "--store", store)[0] == 0
    target = f"killed-backup-{seed}"
    code, said = estate.aqueduct("restore", "--store", store, "--topics", f"{topic}:{target}")
    assert code == 0, said
    assert estate.lab.read(SITE, target) == estate.lab.read(SITE, topic)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restore_that_is_killed_again_and_again(estate: Estate, topic: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    store = backed_up(estate, topic, "for-killed-restores")
    target = f"killed-restore-{seed}"
    arguments = ("--store", store, "--topics", f"{topic}:{target}")
    # It is too fast for a blow in the middle, so the broker slows it down.
    estate.quota("--alter", "--add-config", "producer_byte_rate=50000", user="admin")
    try:
        for _ in range(KILLS):
            kill_while_it_writes(
                lambda: estate.start("restore", *arguments), lambda: estate.end(target), chance
            )
            there = sum(map(len, estate.lab.read(SITE, target).values()))
            print(f"{there:,} of {PARTITIONS * RECORDS:,} records are there")
            assert there < PARTITIONS * RECORDS
    finally:
        estate.quota("--alter", "--delete-config", "producer_byte_rate", user="admin")
    code, said = estate.aqueduct("restore", *arguments)
    assert code == 0, said
    assert estate.lab.read(SITE, target) == estate.lab.read(SITE, topic)
    code, said = estate.aqueduct("restore", *arguments)  # it is done, and says so
    assert code == 0, said
    assert estate.lab.read(SITE, target) == estate.lab.read(SITE, topic)


DAMAGES: dict[str, Callable[[Estate, Path], object]] = {
    "flipped": lambda estate, path: estate.flip(path),
    "truncated": lambda estate, path: estate.lab.run(STORE, "truncate", "--size=-1", str(path)),
    "missing": lambda estate, path: estate.lab.run(STORE, "rm", str(path)),
}


LIKE_IT = [pytest.param(each, marks=pytest.mark.long) for each in ("truncated", "missing")]


@pytest.mark.parametrize("damage", ["flipped", *LIKE_IT])
def test_damage_is_found_before_anything_is_written(estate: Estate, topic: str, damage: str) -> None:
    store = backed_up(estate, topic, damage)
    assert estate.aqueduct("verify", "--store", store)[0] == 0
    path = estate.objects(damage)[random.Random(1).randrange(PARTITIONS)]  # noqa: S311
    DAMAGES[damage](estate, path)
    code, said = estate.aqueduct("verify", "--store", store)
    assert (code, path.name in said) == (1, True), said
    code, said = estate.aqueduct("restore", "--store", store, "--topics", f"{topic}:{damage}")
    assert (code, path.name in said) == (1, True), said
    assert damage not in estate.lab.admin(SITE).list_topics().topics


def test_retention_that_outruns_the_reader_is_a_gap(estate: Estate, tmp_path: Path) -> None:
    estate.make("outrun")
    estate.write_numbers("outrun", 100)
    store = backed_up(estate, "outrun", "outrun")
    estate.write_numbers("outrun", 100)
    admin = estate.lab.admin(SITE)  # one that is collected drops its requests
    [deleted] = admin.delete_records([TopicPartition("outrun", 0, 150)]).values()
    deleted.result()
    report = tmp_path / "report.json"
    code, said = estate.aqueduct("backup", "--store", store, "--topics", "outrun", "--report", str(report))
    assert code == 3, said
    assert json.loads(report.read_text())["gaps"] == [
        {"topic": "outrun", "partition": 0, "from": 100, "to": 150}
    ]


def test_the_object_store_dies_and_comes_back(estate: Estate, topic: str) -> None:
    process = estate.start(
        "backup", "--store", url("outage"), "--topics", topic, "--rate-limit-bytes", "300000"
    )
    wait_until("the first segment", lambda: estate.objects("outage"))
    estate.lab.kill(STORE, "object_store")
    said, _ = process.communicate(timeout=900)
    assert process.returncode == 0, said
    assert estate.aqueduct("verify", "--store", url("outage"))[0] == 0


@pytest.mark.long  # tests of the store's snapshots have all orders of two writers
def test_of_two_backups_at_once_one_wins(estate: Estate, topic: str) -> None:
    slow = estate.start("backup", "--store", url("two"), "--topics", topic, *SLOWLY)
    wait_until("the first segment", lambda: estate.objects("two"))
    backed_up(estate, topic, "two")
    said, _ = slow.communicate(timeout=900)
    assert (slow.returncode, "[snapshot-number-taken]" in said) == (1, True), said
    assert estate.aqueduct("verify", "--store", url("two"))[0] == 0


def test_backup_to_full_disk_fails_and_commits_nothing(estate: Estate, topic: str, tmp_path: Path) -> None:
    full = "/dev/full-disk"
    estate.lab.run(SITE, "sh", "-c", f"mkdir -p {full} && mount -t tmpfs -o size=512k tmpfs {full}")
    command = [
        "/opt/aqueduct/spark/bin/aqueduct",
        "backup",
        "--store",
        f"file://{full}/store",
        "--topics",
        topic,
    ]
    cluster = [
        "--bootstrap-server",
        f"{SITE}:9092",
        "--command-config",
        "/etc/aqueduct/kafka/tls/client.properties",
    ]
    done = estate.lab.run(SITE, *command, *cluster, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[store-request-failed]" in done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert (
        estate.lab.run(SITE, "sh", "-c", f"ls {full}/store/snapshots 2>/dev/null", check=False).stdout == ""
    )


def test_a_point_in_time(estate: Estate, topic: str) -> None:
    store = backed_up(estate, topic, "point")
    first, last = NUMBERS_SINCE + 500, NUMBERS_SINCE + 2_000
    window = ("--from-time", str(first), "--to-time", "2023-11-14T22:13:22Z")
    code, said = estate.aqueduct("restore", "--store", store, "--topics", f"{topic}:point", *window)
    assert code == 0, said
    whole = estate.lab.read(SITE, topic)
    assert estate.lab.read(SITE, "point") == {
        partition: [record for record in records if first <= record.timestamp <= last]
        for partition, records in whole.items()
    }


def rewritten(keys: int, round_: int) -> list[Record]:
    """Records of so many keys, whose values no other round has."""
    return [Record(b"%d" % key, b"%d of round %d" % (key, round_), (), NUMBERS_SINCE) for key in range(keys)]


def test_one_complete_generation_exists_at_every_moment(estate: Estate) -> None:
    """What is restored is what the topic held at one moment, whatever was written while generations were."""
    estate.make("generations", cleanup_policy="compact")
    log = rewritten(500, 0)
    estate.write("generations", log)
    store = url("generations")
    process = estate.start(
        *("backup", "--store", store, "--topics", "generations"),
        *("--compacted-generation-hours", "0.0001", "--every", "1s"),
    )
    try:
        wait_until("a first snapshot", lambda: estate.aqueduct("snapshots", "--store", store)[0] == 0)
        seen: set[int] = set()
        deadline = time.monotonic() + 900
        while len(seen) < 4:
            assert time.monotonic() < deadline, f"only generations {seen} were seen"
            estate.write("generations", new := rewritten(50, len(log)))
            log += new
            code, said = estate.aqueduct("snapshots", "--store", store, "--json")
            assert code == 0, said
            newest = json.loads(said)[-1]
            [active] = [each["instance"] for each in newest["generations"] if each["state"] == "ACTIVATE"]
            seen.add(active)
            assert newest["records"] >= 500
    finally:
        process.terminate()
        process.communicate(timeout=900)
    states = [{record.key: record.value for record in log[:length]} for length in range(500, len(log) + 1)]
    in_the_middle = restored_generation(estate, store, "in-the-middle")
    assert in_the_middle in states[50:], "it is of no moment, or of one before the newest generation"

    estate.write("generations", new := rewritten(50, len(log)))
    code, said = estate.aqueduct(
        *("backup", "--store", store, "--topics", "generations", "--compacted-generation-hours", "0.0001")
    )
    assert code == 0, said
    last = {record.key: record.value for record in log + new}
    assert restored_generation(estate, store, "last") == last, "it is of the generation before"


def restored_generation(estate: Estate, store: str, name: str) -> dict[bytes | None, bytes | None]:
    """Restore the newest snapshot of the topic, and return what it says of each key."""
    code, said = estate.aqueduct("restore", "--store", store, "--topics", f"generations:{name}")
    assert code == 0, said
    return {record.key: record.value for record in estate.lab.read(SITE, name)[0]}


def test_restore_reports_group_with_members_and_completes_rest(estate: Estate, topic: str) -> None:
    from confluent_kafka import Consumer

    estate.commit("live", topic, 100)
    store = backed_up(estate, topic, "live")
    consumer = Consumer(estate.lab.client(SITE) | {"group.id": "live", "auto.offset.reset": "latest"})
    consumer.subscribe([topic])
    try:
        wait_until("a member of the group", lambda: (consumer.poll(1), consumer.assignment())[1])
        code, said = estate.aqueduct("restore", "--store", store, "--topics", f"{topic}:live-again")
        assert (code, "live" in said) == (3, True), said
    finally:
        consumer.close()
    assert estate.lab.read(SITE, "live-again") == estate.lab.read(SITE, topic)


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "sentence"),
    [
        ("backup", ["--store", "s3://scrach/x", "--topics", "numbers"], 2, "scrach"),
        ("backup", ["--store", url("x"), "--topics", "nope"], 2, "nope"),
        ("verify", ["--store", url("nowhere")], 2, " has no backup"),
        ("restore", ["--store", url("point"), "--topics", "numbers:flights"], 2, "partitions"),
        ("restore", ["--store", url("point"), "--topics", "numbers:killed-restore-1"], 2, "--append"),
        ("restore", ["--store", url("point"), "--from-time", "yesterday"], 2, "yesterday"),
        ("restore", ["--store", url("point"), "--snapshot", "99"], 2, "99"),
    ],
)
def test_bad_input_is_refused(
    estate: Estate, verb: str, arguments: list[str], code: int, sentence: str
) -> None:
    found, said = estate.aqueduct(verb, *arguments)
    assert (found, sentence in said, "Traceback" in said) == (code, True, False), said
