"""A real MirrorMaker 2 between two brokers, with the configuration of the role except TLS."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from servers.broker import Broker
from servers.process import QUICK, Process, java

PROPERTIES = """
clusters={flow},lake
{flow}.bootstrap.servers={source}
lake.bootstrap.servers={target}
{flow}->lake.enabled=true
{flow}->lake.topics={topics}
lake->{flow}.emit.heartbeats.enabled=false
emit.heartbeats.enabled=false
emit.checkpoints.enabled=false
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor=1
refresh.topics.interval.seconds=2
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset-syncs.topic.replication.factor=1
offset-syncs.topic.location=target
lake.exactly.once.source.support=enabled
lake.session.timeout.ms=6000
lake.heartbeat.interval.ms=2000
lake.scheduled.rebalance.max.delay.ms=2000
lake.plugin.discovery=service_load
dedicated.mode.enable.internal.rest=true
"""
ANY_PORT = "listeners=http://127.0.0.1:0\n"


@contextmanager
def mirror_maker(
    source: Broker,
    target: Broker,
    directory: Path,
    *,
    topics: str,
    flow: str = "pro1",
    jvm: Sequence[str] = QUICK,
    rest: str = ANY_PORT,
) -> Iterator[None]:
    """Run a flow of the topics that match the pattern. `rest`: properties of its REST listener."""
    properties = directory / "mm2.properties"
    escaped = topics.replace("\\", "\\\\")
    properties.write_text(
        PROPERTIES.format(flow=flow, source=source.plaintext, target=target.plaintext, topics=escaped) + rest
    )
    command = java("org.apache.kafka.connect.mirror.MirrorMaker", properties, "--clusters", "lake", jvm=jvm)
    with Process(command, directory / "mm2.log", lambda: True).running():
        yield
