"""Members of share groups, with Kafka's own Java client, and of streams groups, by their protocol."""

import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.schemas.load_json import _resolve_common_structs
from kit import clients

from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.client_config import End
from aqueduct.kafka.share_messages import message
from servers.broker import Broker
from servers.process import binary, java

SECONDS = 180
# Of a poll's records, no more than these are acquired, though their batch has more.
AT_MOST = "max.poll.records={number}\nshare.acquire.mode=record_limit\n"


def consume(broker: Broker, folder: Path, topic: str, group: str, offsets: int) -> list[str]:
    """Return the values of the next records of a share group, and acknowledge them.

    `offsets`: the number of offsets to acknowledge, including those of transaction markers.
    """
    with _member(broker, folder, topic, group, offsets) as member:
        said, _ = member.communicate(timeout=SECONDS)
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [each["value"] for each in events if each["name"] == "record_data"]


@contextmanager
def joined(broker: Broker, folder: Path, topic: str, group: str) -> Iterator[None]:
    """Keep a member in a share group within this context."""
    with _member(broker, folder, topic, group, -1), raw.connect(End("c", broker.plaintext), "test") as client:

        def there() -> bool:
            found = groups.list_groups(client).by_name.get(group)
            return found is not None and found.live

        clients.wait_for("a member", there)
        yield
    with raw.connect(End("c", broker.plaintext), "test") as client:
        clients.wait_for("no member", lambda: not groups.list_groups(client).by_name[group].live)


@contextmanager
def _member(
    broker: Broker, folder: Path, topic: str, group: str, number: int
) -> Iterator["subprocess.Popen[str]"]:
    config = folder / f"{group}.properties"
    config.write_text(AT_MOST.format(number=number) if number > 0 else "")
    command = java(
        "org.apache.kafka.tools.VerifiableShareConsumer",
        *("--bootstrap-server", broker.plaintext, "--topic", topic, "--group-id", group),
        *("--max-messages", str(number), "--offset-reset-strategy", "earliest"),
        *("--command-config", config, "--verbose", "--acknowledgement-mode", "sync"),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)


def streams_group(broker: Broker, group: str, topic: str) -> None:
    """Create a streams group (KIP-1071) with a member that joins and leaves."""
    kind = _kafkas("StreamsGroupHeartbeatRequest")
    _answer = _kafkas("StreamsGroupHeartbeatResponse")  # kafka-python keeps no reference
    nothing: dict[str, list[Any]] = {
        name: []
        for name in (
            *("source_topic_regex", "state_changelog_topics", "repartition_sink_topics"),
            *("repartition_source_topics", "copartition_groups"),
        )
    }
    part = kind.Topology.Subtopology(subtopology_id="0", source_topics=[topic], **nothing)
    common = {"group_id": group, "member_id": str(uuid4()), "instance_id": None, "rack_id": None}
    common |= {"endpoint_information_epoch": -1, "rebalance_timeout_ms": 60_000, "user_endpoint": None}
    common |= {"task_offsets": None, "task_end_offsets": None, "shutdown_application": False}
    tasks = ("active_tasks", "standby_tasks", "warmup_tasks", "client_tags")
    joining = {**dict.fromkeys(tasks, ()), "process_id": "p"}
    joining |= {"topology": kind.Topology(epoch=0, subtopologies=[part])}
    with raw.connect(End("c", broker.plaintext), "test") as client:
        for epoch, more in ((0, joining), (-1, dict.fromkeys(joining))):
            coordinator = client.coordinator(CoordinatorType.GROUP, group)
            answer = client.send(kind(member_epoch=epoch, **common, **more), coordinator)
            assert answer.error_code == 0, answer.error_message


def _kafkas(name: str) -> Any:
    """Return the schema of a message of Kafka, from the jar of its clients."""
    [jar] = Path(binary("AQUEDUCT_KAFKA_JARS")).glob("kafka-clients-*.jar")
    with zipfile.ZipFile(jar) as packed:
        text = packed.read(f"common/message/{name}.json").decode()
    schema = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    _resolve_common_structs(schema["fields"], {s["name"]: s["fields"] for s in schema["commonStructs"]})
    return message(schema)
