"""Settings for a flow's classic mirror (`kafka.tools.MirrorMaker` of Kafka 3.9.2) that lose no records.

It commits offsets after all records before them are acknowledged. If it cannot send a record, it ends without
a commit, and its service starts it again. Records that were not committed are then sent again: delivery is at
least once. It sets the `client.id` of its consumers itself (`<group>-<thread>`), so only the `client.id` of
the producer identifies the host.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aqueduct.estate.model import Flow

MAIN = "kafka.tools.MirrorMaker"
HANDLER = "SamePartition"  # roles/mirror_maker/files
# Milliseconds without progress after which the process ends and is started again. After the same time, its
# group assigns the partitions to other members. Without a limit, a batch with a record that is too large for
# its topic would be split and sent again for ever.
PATIENCE = 300_000

# -1: the kernel sizes the buffers. A fixed buffer, such as the 64 KiB of Kafka's consumers, limits a line
# with a long round-trip time to one buffer per round trip. `tuning` can set other sizes.
BUFFERS = {"receive.buffer.bytes": "-1", "send.buffer.bytes": "-1"}

# Settings that prevent lost records. `tuning` cannot change them.
CONSUMER = {
    # New topics, and partitions whose next offset was deleted, are read from their start. The option `start`
    # of a flow applies only once, before its first run; `latest` here would skip records later.
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "exclude.internal.topics": "true",
    # When a host joins or leaves, only its partitions move, and the other hosts continue (KIP-429).
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "3000",
    "max.poll.interval.ms": str(PATIENCE),
}
PRODUCER = {
    "acks": "all",
    # Keeps the order with several requests in flight. The tool's default keeps it with only one.
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "5",
    "retries": str(2**31 - 1),
    "delivery.timeout.ms": str(PATIENCE),
    "max.block.ms": str(PATIENCE),
}


def consumer(
    flow: Flow, servers: str, access: Mapping[str, Any], tuning: Mapping[str, Any], refresh_seconds: int
) -> dict[str, Any]:
    """Return the properties of the consumers. `access`: client properties for the source."""
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
    """Return the properties of the producer on one host. `access`: client properties for the target."""
    name = f"{flow.group}-{host}"
    return {**BUFFERS, **tuning, **access, **PRODUCER, "bootstrap.servers": servers, "client.id": name}


def arguments(flow: Flow, folder: str, commit_seconds: int) -> list[str]:
    """Return the main class and the arguments of MirrorMaker. `folder`: contains its property files."""
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
    """Return the text of a file for `java @FILE`: one quoted argument a line."""
    return "".join(f"{json.dumps(argument, ensure_ascii=False)}\n" for argument in arguments)
