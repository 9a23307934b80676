"""A flow's classic MirrorMaker (`kafka.tools.MirrorMaker` of Kafka 3.9.2), and settings that lose nothing.

It commits offsets once all that was sent before is acknowledged, and ends without a commit where a send fails
for good or for long; its service starts it again. So what was not committed is sent again: at least once. It
sets its consumers' `client.id` itself (`<group>-<thread>`); hosts are told apart by the producer's.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aqueduct.estate.model import Flow

MAIN = "kafka.tools.MirrorMaker"
HANDLER = "SamePartition"  # roles/mirror_maker/files
# Milliseconds without progress after which a process ends, to be started again: those after which its group
# gives the partitions to others anyway. Without an end, a batch with a record that is too large for its topic
# is split and sent again for ever.
PATIENCE = 300_000

# The kernel sizes the buffers. A fixed one, such as the 64 KiB of Kafka's consumers, limits a long line to
# one window per round trip. Tuning may set others.
BUFFERS = {"receive.buffer.bytes": "-1", "send.buffer.bytes": "-1"}

# What keeps records safe; no tuning is above it.
CONSUMER = {
    # A topic that is new begins at its start, and so does what the source has cut: `start` is for the flow's
    # beginning, and is done once. `latest` here would skip records unintentionally.
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "exclude.internal.topics": "true",
    # A host that comes or goes takes or leaves its share, and the others go on (KIP-429).
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "3000",
    "max.poll.interval.ms": str(PATIENCE),
}
PRODUCER = {
    "acks": "all",
    # Keeps the order with several requests in flight, as the tool's own default does with one.
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "5",
    "retries": str(2**31 - 1),
    "delivery.timeout.ms": str(PATIENCE),
    "max.block.ms": str(PATIENCE),
}


def consumer(
    flow: Flow, servers: str, access: Mapping[str, Any], tuning: Mapping[str, Any], refresh_seconds: int
) -> dict[str, Any]:
    """Return the properties of its consumers. `access`: by which the source is reached."""
    return {
        **BUFFERS,
        **tuning,
        **access,
        **CONSUMER,
        "bootstrap.servers": servers,
        "group.id": flow.group,
        "metadata.max.age.ms": refresh_seconds * 1000,
        "isolation.level": flow.isolation,
    }


def producer(
    flow: Flow, servers: str, access: Mapping[str, Any], tuning: Mapping[str, Any], host: str
) -> dict[str, Any]:
    """Return the properties of its producer on one host. `access`: by which the target is reached."""
    name = f"{flow.group}-{host}"
    return {**BUFFERS, **tuning, **access, **PRODUCER, "bootstrap.servers": servers, "client.id": name}


def arguments(flow: Flow, folder: str, commit_seconds: int) -> list[str]:
    """Return what MirrorMaker is called with; its files are in the folder."""
    options = {
        "consumer.config": f"{folder}/consumer.cfg",
        "producer.config": f"{folder}/producer.cfg",
        "include": flow.topics_pattern,
        "num.streams": flow.threads,
        "offset.commit.interval.ms": commit_seconds * 1000,
        "abort.on.send.failure": "true",
        "message.handler": HANDLER,
        **({"message.handler.args": flow.prefix} if flow.prefix else {}),
    }
    return [MAIN, *(text for name, value in options.items() for text in (f"--{name}", str(value)))]


def argument_file(arguments: Iterable[str]) -> str:
    """Return the text of a file that `java @FILE` reads: quoted arguments, one a line (JEP 293)."""
    return "".join(f"{json.dumps(argument, ensure_ascii=False)}\n" for argument in arguments)
