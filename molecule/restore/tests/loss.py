"""The site is lost, data and all, and comes back from the object store alone."""

import json
import subprocess
from dataclasses import dataclass, field

from estate import COMPACTED, EDGE, LAKE, LONGEST, SITE, TRANSACTIONS, Estate
from lab import Record, wait_until

from demo.offsets import watermarks

Topic = dict[int, list[Record]]

# group: topic, partition
GROUPS = {
    "at-the-beginning": (EDGE, 0),
    "inside": (EDGE, 0),
    "at-the-end": (EDGE, 0),
    "of-an-empty-partition": (EDGE, 1),
    "in-a-hole": (COMPACTED, 0),
    "at-an-aborted-record": (TRANSACTIONS, 0),
    "at-the-end-of-transactions": (TRANSACTIONS, 0),
    "far-in-flights": ("flights", 2),
    "of-the-longest-name": (LONGEST, 1),
}


@dataclass
class Outcome:
    """What was there before the loss, and after the restore."""

    before: dict[str, Topic] = field(default_factory=dict)
    after: dict[str, Topic] = field(default_factory=dict)
    next_before: dict[str, Record | None] = field(default_factory=dict)
    next_after: dict[str, Record | None] = field(default_factory=dict)
    settings: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    backup_said: str = ""
    restore_said: str = ""
    left_out: list[tuple[str, str]] = field(default_factory=list)


def lose_and_restore(estate: Estate) -> Outcome:
    lab, outcome = estate.lab, Outcome()
    estate.fill()
    commit_groups(estate)
    in_step(estate)
    grant(estate)
    topics = [name for name in lab.admin(SITE).list_topics().topics if not name.startswith("__")]
    outcome.before = {topic: lab.read(SITE, topic) for topic in topics}
    outcome.next_before = {group: estate.next_record(group, *place) for group, place in GROUPS.items()}
    before = {topic: settings(estate, topic) for topic in topics}
    with_open_transaction = estate.open_transaction()
    done = lab.play("backup")
    assert done.returncode == 0, done.stdout
    outcome.backup_said = done.stdout
    del with_open_transaction

    subprocess.run(
        ["docker", "rm", "--force", "--volumes", lab.container(SITE)], check=True, capture_output=True
    )
    for playbook in ("lab_up", "site"):
        made = lab.play(playbook)
        assert made.returncode == 0, made.stdout
    assert sum(map(len, lab.read(SITE, "flights").values())) == 0, "the lost site came back with its data"
    done = lab.play("restore", site="pro1", acls=True, acls_of="app")
    assert "pro1 is restored, but items were skipped" in done.stdout, done.stdout  # one ACL
    outcome.restore_said = done.stdout
    told = json.loads((lab.reports / "restore-pro1.json").read_text())
    outcome.left_out = [(each["id"], each["what"]) for each in told["left_out"]]
    outcome.after = {topic: lab.read(SITE, topic) for topic in topics}
    outcome.next_after = {group: estate.next_record(group, *place) for group, place in GROUPS.items()}
    outcome.settings = {topic: (before[topic], settings(estate, topic)) for topic in topics}
    return outcome


def commit_groups(estate: Estate) -> None:
    lab = estate.lab
    end = {topic: last(estate, topic) for topic in (EDGE, TRANSACTIONS)}
    compacted = [offset for offset, _ in lab.read_offsets(SITE, COMPACTED)[0]]
    hole = next(at for at in range(compacted[0], compacted[-1]) if at not in compacted)
    offsets = {
        "at-the-beginning": 0,
        "inside": 3,
        "at-the-end": end[EDGE],
        "of-an-empty-partition": 0,
        "in-a-hole": hole,
        "at-an-aborted-record": 9,  # seven committed, their marker, and one of the aborted
        "at-the-end-of-transactions": end[TRANSACTIONS],
        "far-in-flights": len(lab.read(SITE, "flights")[2]) - 10,
        "of-the-longest-name": 5,
    }
    for group, (topic, partition) in GROUPS.items():
        estate.commit(group, topic, offsets[group], partition, metadata=f"of {group}")


def last(estate: Estate, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(estate.lab.client(SITE) | {"group.id": "watermarks"})
    try:
        return watermarks(consumer, TopicPartition(topic, 0))[1]
    finally:
        consumer.close()


def in_step(estate: Estate) -> None:
    """The lake has what the site has."""
    flights = estate.lab.read(SITE, "flights")
    wait_until("flights in the lake", lambda: estate.lab.read(LAKE, "flights") == flights)


def settings(estate: Estate, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

    admin = estate.lab.admin(SITE)
    [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in future.result().items() if entry.source == own}


def grant(estate: Estate) -> None:
    """ACLs and a quota that no inventory knows: of `app`, and of somebody who is not to have them back."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    acls = [
        AclBinding(
            *(ResourceType.TOPIC, EDGE, ResourcePatternType.LITERAL, f"User:{who}", "*"),
            *(AclOperation.READ, AclPermissionType.ALLOW),
        )
        for who in ("app", "planted")
    ]
    admin = estate.lab.admin(SITE)
    for future in admin.create_acls(acls).values():
        future.result()
    estate.quota("--alter", "--add-config", "producer_byte_rate=1234567", user="app")
