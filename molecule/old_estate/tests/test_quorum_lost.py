"""A controller loses its metadata. A new quorum is formed from the backup, and the logs are kept."""

import base64
import re

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka.record import MemoryRecords
from lab import Lab, wait_until
from old_site import LAKE, LAKE_SECOND, LOG

METADATA = f"{LOG}/__cluster_metadata-0"
LAKES = LAKE, LAKE_SECOND
STORE = "/srv/quorum/metadata"
SIGNATURE_BYTES = 108  # at the end of a signed snapshot
# Has a data folder's lock from when its broker is stopped until this is told to end. A broker that is stopped
# removes the file, also of one that waits for it (FileLock.destroy).
HOLD = f"""
import fcntl, os, select, sys
file = None
while not select.select([sys.stdin], [], [], 0.02)[0]:
    if file is None or not os.path.exists("{LOG}/.lock") or os.fstat(file.fileno()).st_nlink == 0:
        file = open("{LOG}/.lock", "a")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file = None
"""
AS_KAFKA = "setpriv", "--reuid=kafka", "--regid=kafka", "--clear-groups"


def said(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def values(lab: Lab, topic: str) -> list[bytes | None]:
    return [record.value for records in lab.read(LAKE, topic).values() for record in records]


def write(lab: Lab, topic: str, begin: str) -> list[bytes]:
    producer = lab.producer(LAKE, "admin")
    written = [f"{begin}-{number}".encode() for number in range(100)]
    for each in written:
        producer.produce(topic, each, partition=0)
    assert producer.flush(300) == 0
    return written


def make(lab: Lab, topic: str) -> None:
    admin = lab.admin(LAKE)  # whose answers don't come when it is gone
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    wait_until(f"the topic {topic}", lambda: topic in admin.list_topics(timeout=60).topics)


def position(lab: Lab, commit: int | None = None) -> int:
    settings = {**lab.client(LAKE, "admin"), "group.id": "readers", "enable.auto.commit": False}
    if commit is not None:
        lab.commit(settings, [TopicPartition("known", 0, commit)])
    consumer = Consumer(settings)
    [found] = consumer.committed([TopicPartition("known", 0)], timeout=60)
    consumer.close()
    return int(found.offset)


@pytest.mark.long
def test_a_quorum_is_formed_anew_from_its_backup(lab: Lab) -> None:
    make(lab, "known")
    first = write(lab, "known", "first")
    assert position(lab, 41) == 41
    done = lab.run(LAKE, "systemctl", "start", "--wait", "quorum_backup", check=False)
    journal = lab.journal(LAKE, "--unit=quorum_backup")
    assert done.returncode == 0, journal
    kept = re.findall(r"Snapshot (\d+) of cluster \S+, by node 1: \d+ topics", journal)
    assert kept, journal
    make(lab, "later")
    later, second = write(lab, "later", "later"), write(lab, "known", "second")
    flights = sorted(filter(None, values(lab, "flights")))

    refused = lab.play("restore_quorum", site="lake", confirm="lake")
    assert refused.returncode != 0
    assert "[controller-metadata-exists] " in said(refused.stdout), refused.stdout
    assert values(lab, "known") == first + second, "nothing was stopped"

    lab.run(LAKE, "sh", "-c", f"systemctl stop kafka && rm -r {METADATA}")
    planted = f"{STORE}/{int(kept[-1]) + 1:020}.zst"
    lab.run(LAKE, "sh", "-c", f"head --bytes=-{SIGNATURE_BYTES} {STORE}/{int(kept[-1]):020}.zst > {planted}")
    newest = lab.play("restore_quorum", site="lake")
    lab.run(LAKE, "rm", planted)
    assert newest.returncode != 0
    assert "Used: the copy of node 2" in said(newest.stdout), newest.stdout
    assert "No backup is used: [snapshot-not-trusted]" in said(newest.stdout), newest.stdout
    assert "NOT known" not in said(newest.stdout)
    older = {"site": "lake", "snapshot": kept[-1]}
    planned = lab.play("restore_quorum", **older)
    assert planned.returncode != 0
    assert "NOT known: later-0" in said(planned.stdout), planned.stdout
    assert "Nothing was done to the cluster." in said(planned.stdout)
    assert lab.run(LAKE, "test", "-e", METADATA, check=False).returncode == 1

    other = lab.play("restore_quorum", site="lake", confirm="lake")
    assert other.returncode != 0
    assert "[quorum-plan-changed] The metadata end at offset" in said(other.stdout), other.stdout
    assert lab.run(LAKE_SECOND, "systemctl", "is-active", "kafka").stdout.strip() == "active"

    holder = lab.start(LAKE_SECOND, *AS_KAFKA, "python3", "-c", HOLD)
    broken = lab.play("restore_quorum", **older, confirm="lake")
    holder.communicate()
    assert broken.returncode != 0
    assert f"[broker-running] A broker uses {LOG}." in said(broken.stdout), broken.stdout

    # It goes on with what the controller has begun with, and not with a copy that was not set aside.
    formed = lab.play("restore_quorum", site="lake", confirm="lake")
    assert "with all that was committed" in said(formed.stdout), formed.stdout
    assert "NOT known: later-0" in said(formed.stdout)
    assert formed.returncode != 0, "it fails at its end, for later is not known"
    assert values(lab, "known") == first + second
    assert sorted(filter(None, values(lab, "flights"))) == flights
    assert position(lab) == 41
    assert "later" not in lab.admin(LAKE).list_topics(timeout=60).topics
    strays = ("find", LOG, "-maxdepth", "1", "-name", "later-0.*-stray")
    [(host, stray)] = [(host, each) for host in LAKES for each in lab.run(host, *strays).stdout.split()]
    content = lab.run(host, "base64", f"{stray}/{0:020}.log").stdout
    batches = MemoryRecords(base64.b64decode(content))
    assert [each.value for batch in iter(batches.next_batch, None) for each in batch] == later
    lab.run(host, "rm", "-r", stray)  # as is done when all is well: the doctor names it
    assert lab.run(LAKE, "test", "-e", "/run/aqueduct-quorum", check=False).returncode == 1
    again = lab.play("site", "--limit", "site_lake")
    assert again.returncode == 0, again.stdout
