"""The inventory check judges a topic's settings as a real broker does."""

from collections.abc import Iterator
from pathlib import Path

from aqueduct.errors import AqueductError
from aqueduct.estate.check.settings import Definitions, Setting
from aqueduct.kafka import topics
from aqueduct.kafka.admin.topics import apply_topics
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from servers.broker import Broker
from servers.process import binary

[CLIENTS] = Path(binary("AQUEDUCT_KAFKA_JARS")).glob("kafka-clients-*.jar")  # of the brokers here
VERSION = CLIENTS.stem.removeprefix("kafka-clients-")
FILE = Path(__file__).parents[2] / f"artifacts/kafka-{VERSION}.configs.json"
# Here a broker judges by more than the ConfigDef tells: by its own storage, by other settings, by plain code.
UNTOLD = {"remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"}
UNTOLD |= {"compression.gzip.level", "follower.replication.throttled.replicas"}
UNTOLD |= {"leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms"}


def values(setting: Setting) -> Iterator[str]:
    """Yield some values that are right, and some that are wrong, by the definition."""
    yield from ("7d", "1", "0", "-1", "-3", "1.5", "true", "True", "yes", "", str(1 << 31), str(1 << 63))
    for limit in (setting.least, setting.most):
        yield from (str(limit), f"{limit}0", str(limit - 1), str(limit + 1)) if limit is not None else ()
    if setting.words:
        yield from (
            setting.words[0],
            setting.words[0].upper(),
            ",".join(setting.words),
            " , ".join(setting.words),
        )


def test_it_says_what_a_broker_says(brokers: list[Broker]) -> None:
    known = Definitions.parse(FILE.read_text()).topic
    different = []
    with connect(End("cluster", brokers[0].plaintext), "test") as client:

        def takes(name: str, value: str) -> bool:
            declared = topics.parse([{"name": "tried", "partitions": 1, "config": {name: value}}])
            try:
                apply_topics(client, topics.plan(declared, {}), check_only=True)
            except AqueductError:
                return False
            return True

        assert takes("retention.ms", "1000")
        assert not takes("retention.mss", "1000")
        for name in known.keys() - UNTOLD:
            different += [
                (name, value, known[name].fault(name, value))
                for value in values(known[name])
                if takes(name, value) == bool(known[name].fault(name, value))
            ]
    assert sorted(different) == []
