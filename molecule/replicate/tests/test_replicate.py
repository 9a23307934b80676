"""No record is lost or duplicated, and the order is kept, also if processes are killed."""

import json
import random
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab import Lab, Record, wait_until
from outage import (
    BATCHES_FLOW,
    FLOWS,
    GROUP,
    MIRRORS,
    Outcome,
    arrived,
    bookings,
    commit,
    committed,
    count,
    ends,
)
from writer import Writer

from demo.spark import tasks_by_host

MASTER, WORKERS = "lake-spark-1", ("lake-spark-2", "lake-spark-3")
ORIGINS = {"pro1-kafka-1": b"EWR", "pro2-kafka-1": b"JFK"}


def differences(sent: dict[int, list[Record]], arrived: dict[int, list[Record]]) -> list[str]:
    """What is wrong with what arrived, by partition; empty where both are the same in the same order."""
    found = []
    for partition in sorted(sent.keys() | arrived.keys()):
        here, there = sent.get(partition, []), arrived.get(partition, [])
        if here != there:
            at = next(
                (i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b),
                min(len(here), len(there)),
            )
            found.append(
                f"partition {partition}: {len(here)} sent, {len(there)} arrived, first difference at {at}"
            )
    return found


def of_origin(topic: dict[int, list[Record]], origin: bytes) -> dict[int, list[Record]]:
    return {
        p: [record for record in records if record.header("origin") == origin] for p, records in topic.items()
    }


@pytest.mark.parametrize(
    ("client", "identity"), [("Consumer", "mirror-lake-"), ("Producer", "connector-producer-MirrorSource")]
)
def test_the_kernel_sizes_a_mirror_s_buffers(lab: Lab, client: str, identity: str) -> None:
    """A fixed size limits a long line to one window a round trip (bench/README.md, At a distance)."""
    own: list[str] = []
    for host in MIRRORS:  # Connect may give all tasks that copy records to one of them
        # What Kafka wrote to the journal when the client started.
        _, *started = lab.journal(host, "--unit=mirror_maker@*").split(f"{client}Config values:")
        own += [options for options in started if f"client.id = {identity}" in options]
    assert own
    assert all("receive.buffer.bytes = -1" in options for options in own)
    assert all("send.buffer.bytes = -1" in options for options in own)


@pytest.mark.parametrize("source", ORIGINS)
def test_flights_of_each_source_arrive_once_in_order(outcome: Outcome, source: str) -> None:
    sent = outcome.sources[source, "flights"]
    assert count(sent) == outcome.acknowledged[source, "flights"] > 1000
    assert differences(sent, of_origin(outcome.lake["flights"], ORIGINS[source])) == []


def test_the_lake_holds_nothing_else(outcome: Outcome) -> None:
    assert count(outcome.lake["flights"]) == sum(
        count(outcome.sources[source, "flights"]) for source in ORIGINS
    )


def test_topic_with_added_partitions_is_mirrored_completely(outcome: Outcome) -> None:
    sent = outcome.sources["pro1-kafka-1", "bookings"]
    assert len(sent) > 2
    assert differences(sent, outcome.lake["bookings"]) == []


def test_batches_engine_delivers_records_once_and_in_order(outcome: Outcome) -> None:
    sent = outcome.sources["pro1-kafka-1", "crews"]
    assert count(sent) == outcome.acknowledged["pro1-kafka-1", "crews"] > 1000
    assert differences(sent, outcome.lake["crews"]) == []


def test_topics_that_were_created_while_mirrors_ran_arrive(outcome: Outcome) -> None:
    for topic in outcome.created:
        sent = outcome.sources["pro1-kafka-1", topic]
        assert count(sent) > 100
        assert differences(sent, outcome.lake[topic]) == []


def test_the_comparison_can_fail(outcome: Outcome) -> None:
    """A record dropped, doubled, swapped or changed is seen."""
    sent = outcome.sources["pro1-kafka-1", "bookings"]
    whole = sent[0]
    changed = Record(whole[5].key, whole[5].value, (("x", None),), whole[5].timestamp)
    for broken in (
        whole[1:],
        [whole[0], *whole],
        [whole[1], whole[0], *whole[2:]],
        [*whole[:5], changed, *whole[6:]],
    ):
        assert differences(sent, {**sent, 0: broken}) != []


def test_group_resumes_in_lake_without_skipping_records(lab: Lab, outcome: Outcome) -> None:
    here = committed(lab, "pro1-kafka-1")
    assert here, "the group has no position at its source"
    there = wait_until(
        f"positions of {GROUP} for partitions {sorted(here)} in the lake",
        lambda: (found := committed(lab, "lake-kafka-1")).keys() >= here.keys() and found,
    )
    for partition, offset in here.items():
        read_here = sum(1 for at, _ in lab.read_offsets("pro1-kafka-1", "bookings")[partition] if at < offset)
        read_there = sum(
            1 for at, _ in lab.read_offsets("lake-kafka-1", "bookings")[partition] if at < there[partition]
        )
        print(
            f"bookings-{partition}: {read_here} read at the source; in the lake it goes on after {read_there}"
        )
        assert 0 < read_there <= read_here, "a group that goes on further than it had read would skip records"


@pytest.mark.usefixtures("outcome")
def test_group_without_lag_resumes_at_next_lake_record(lab: Lab) -> None:
    """Far from near zero: what it had read does not come again, and what comes next is not skipped."""
    # The partition that was added late may have got nothing.
    whole = [partition for partition, end in ends(lab, "lake-kafka-1").items() if end > 100]
    assert len(whole) >= 2, whole
    # A mirror that ends may not have told the position of its last transaction: a record of later does.
    write_to_each(lab, whole, "the last of")
    commit(lab, "pro1-kafka-1", ends(lab, "pro1-kafka-1"))
    wait_until(
        f"{GROUP} at the end of all bookings in the lake",
        lambda: next_values(lab, whole) == dict.fromkeys(whole),
    )
    very_next = write_to_each(lab, whole, "the very next of")
    wait_until("exactly these records next in the lake", lambda: next_values(lab, whole) == very_next)


def write_to_each(lab: Lab, partitions: Iterable[int], what: str) -> dict[int, bytes]:
    """Write a record to each partition of the bookings at their source; wait until the lake has them all."""
    values = {partition: f"{what} {partition}".encode() for partition in partitions}
    producer = lab.producer("pro1-kafka-1", "bookings")
    for partition, value in values.items():
        producer.produce("bookings", value, partition=partition)
    assert producer.flush(300) == 0
    wait_until(
        f"{what} each partition in the lake",
        lambda: all(
            lab.read_offsets("lake-kafka-1", "bookings")[partition][-1][1].value == value
            for partition, value in values.items()
        ),
    )
    return values


def next_values(lab: Lab, partitions: Iterable[int]) -> dict[int, bytes | None]:
    """The value that the group gets next in the lake, by partition; None at its end."""
    at, read = committed(lab, "lake-kafka-1"), lab.read_offsets("lake-kafka-1", "bookings")
    return {
        partition: next((record.value for offset, record in read[partition] if offset >= at[partition]), None)
        for partition in partitions
    }


@pytest.mark.usefixtures("outcome")
@pytest.mark.long
def test_reconcile_says_what_a_lake_lacks(lab: Lab) -> None:
    """A mirror that stands still is found, named and, when it runs again, equal."""
    [host] = [host for host in MIRRORS if is_up(lab, host)]
    lab.run(host, "systemctl", "stop", "mirror_maker@pro1-bookings")
    producer = lab.producer("pro1-kafka-1", "bookings")
    for number in range(1000):
        producer.produce("bookings", f"late {number}", f"passenger-{number}")
    producer.flush()
    failed = lab.play("reconcile")
    assert failed.returncode != 0
    assert re.search(
        r"bookings-\d+: [\d,]+ records? of the source (is|are) not in the target", failed.stdout
    ), failed.stdout
    lab.run(host, "systemctl", "start", "mirror_maker@pro1-bookings")
    began = time.time()
    equal = wait_until(
        "both ends equal again", lambda: (run := lab.play("reconcile")).returncode == 0 and run
    )
    assert "failed=0" in equal.stdout
    # By what Spark itself logged, and by each flow's report.
    assert set(tasks_by_host(lab, MASTER, "aqueduct reconcile", began)) == {*WORKERS}
    for flow in FLOWS:
        assert set(json.loads((lab.reports / f"{flow}-lake.json").read_text())["tasks"]) == {*WORKERS}


def is_up(lab: Lab, host: str) -> bool:
    state = subprocess.run(
        ["docker", "inspect", "--format", "{{.State.Running}}", lab.container(host)],
        capture_output=True,
        text=True,
    )
    return state.stdout.strip() == "true"


@pytest.mark.parametrize("flow", FLOWS)
def test_mirror_has_only_read_rights_at_source(lab: Lab, flow: str) -> None:
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        "User:mirror-lake",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    source = "pro2-kafka-1" if flow == "pro2" else "pro1-kafka-1"
    admin = lab.admin(source)  # a client that is collected drops its requests
    found = admin.describe_acls(everything).result()
    assert found, "the mirror has no rights at all there, which is not what is tested"
    allowed = {acl.operation for acl in found}
    assert allowed <= {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}


@pytest.mark.parametrize("flow", FLOWS)
def test_positions_are_bound_while_a_flow_runs(lab: Lab, flow: str) -> None:
    """Without anyone who runs `aqueduct mirror`, and no longer than the flow runs."""
    host, unit = MIRRORS[0], f"mirror_positions@{flow}"

    def looked() -> bool:
        return "of them behind by" in lab.journal(host, f"--unit={unit}")

    wait_until("a look at the positions", looked)
    assert lab.run(host, "systemctl", "is-active", f"{unit}.timer").stdout == "active\n"
    lab.run(host, "systemctl", "stop", f"mirror_maker@{flow}")
    try:
        assert lab.run(host, "systemctl", "is-active", f"{unit}.timer", check=False).stdout == "inactive\n"
    finally:
        lab.run(host, "systemctl", "start", f"mirror_maker@{flow}")


def flows_with(engine: str) -> list[dict[str, Any]]:
    """Return the flows of the inventory, with another engine of one of them."""
    site = Path(__file__).parents[1] / "inventory/group_vars/site_lake.yml"
    declared = yaml.safe_load(site.read_text())["mirror_maker_flows"]
    return [{**flow, "engine": engine} if flow.get("name") == BATCHES_FLOW else flow for flow in declared]


@pytest.mark.usefixtures("outcome")
@pytest.mark.long
def test_flow_switches_to_mirrormaker_and_back_under_load(lab: Lab) -> None:
    switch = {"site": "lake", "flow": BATCHES_FLOW}
    refused = lab.play("mirror", mirror_maker_flows=flows_with("mm2"))
    assert "[mirror-engine-differs]" in refused.stdout, refused.stdout
    refused = lab.play("switch_mirror", **switch, mirror_maker_flows=flows_with("mm2"))
    assert "[mirror-host-uninspected]" in refused.stdout, refused.stdout  # one host was lost
    lab.restart(MIRRORS[1])
    running = ("systemctl", "is-active", f"mirror_maker@{BATCHES_FLOW}")
    wait_until("the flow on both hosts", lambda: lab.run(MIRRORS[1], *running, check=False).returncode == 0)
    chance = random.Random(1)  # noqa: S311 (a seed that can be repeated)
    writer = Writer(lab, "pro1-kafka-1", "crews", "bookings", bookings(), chance)
    writer.start()
    try:
        for engine in ("mm2", "batches"):
            variables = {**switch, "mirror_maker_flows": flows_with(engine)}
            planned = lab.play("switch_mirror", **variables)
            assert "[plan-not-confirmed]" in planned.stdout, planned.stdout
            confirmed = lab.play("switch_mirror", **variables, confirm=BATCHES_FLOW)
            assert confirmed.returncode == 0, confirmed.stdout
        again = lab.play("switch_mirror", **variables)
        assert "[mirror-switch-unneeded]" in again.stdout, again.stdout
    finally:
        writer.finish()
        lab.lose(MIRRORS[1])  # as other tests expect
    sent = lab.read("pro1-kafka-1", "crews")
    wait_until("all records of crews in the lake", lambda: arrived(lab, "crews") >= count(sent))
    assert differences(sent, lab.read("lake-kafka-1", "crews")) == []
