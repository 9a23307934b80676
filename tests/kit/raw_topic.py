"""The topics of a link in a broker: a raw topic that is written frame by frame, a ledger, clean topics."""

import time
from collections import Counter
from collections.abc import Iterable
from uuid import UUID, uuid4

from kit import clients

from aqueduct.cli import main
from aqueduct.kafka import client as kafka
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.link.ledger import gap_topic
from aqueduct.link.ledger.arrivals import bucket
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Announcement, Frame
from servers.broker import Broker

PARTITIONS = 2
ID = UUID(int=1)


class RawTopic:
    """A raw topic, a ledger, and clean topics in one cluster."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.servers = broker, broker.plaintext
        self.end = End("cluster", self.servers)
        mark = uuid4().hex[:8]
        self.raw, self.gaps = f"raw.{mark}", f"gaps.{mark}"
        # Of two topics, each with a partition in every bucket.
        self.topics = [f"one.{mark}", f"other.{mark}"]
        clients.create(broker, self.raw, PARTITIONS)
        clients.create(broker, self.gaps, PARTITIONS, cleanup_policy="compact")
        self.brought: set[str] = set()  # of these
        for each in self.topics:
            clients.create(broker, each, 4)

    def bring(self, *all_of: Frame | Announcement, partitions: int = PARTITIONS, ago: float = 0) -> None:
        """Write frames and announcements to the raw topic, with times `ago` seconds before now."""
        self.brought.update(each.topic for each in all_of if each.topic in self.topics)
        at = int((time.time() - ago) * 1000)
        written = [
            {"value": frame.pack(each), "key": frame.key(each), "timestamp": at}
            | {"partition": bucket(each.topic, each.partition, partitions)}
            for each in all_of
        ]
        clients.produce(self.broker, self.raw, written)

    def dedup(self, *options: str, code: int = 0) -> None:
        argv = ["dedup", "--bootstrap-server", self.servers]
        argv += ["--raw-topics", self.raw, "--gap-topic", self.gaps]
        topics = ",".join(sorted(self.brought) or self.topics)
        names = [] if "--retire" in options else ["--topics", topics, "--gap-grace", "0s"]
        assert main([*argv, *names, *(options or ["--until-caught-up"])]) == code
        if code in (0, 3):
            clients.settle(self.broker, self.gaps, *range(PARTITIONS))  # else the ledger is that of before

    def knows(self, topics: dict[str, int]) -> None:
        """Wait until the ledger has so many partitions of each topic that is not retired.

        Entries that were just committed may appear later.
        """
        with kafka.connect(self.end, "test") as client:
            clients.wait_for(f"{topics} in the ledger", lambda: self._known(client) == topics)

    def _known(self, client: Client) -> Counter[str]:
        ledger = gap_topic.whole(client, self.gaps)
        return Counter(topic for (topic, _), of in ledger.items() if not of.closed)


def frames(topic: str, first: int = 0, last: int = 9, numbers: Iterable[int] = range(4)) -> list[Frame]:
    rows = [Record(1_700_000_000_000, offset, body(b"k", b"v")) for offset in range(first, last + 1)]
    data = bytes(build(Records.listed(rows)))
    return [
        Frame(topic=topic, topic_id=ID, partition=number, first=first, last=last, batches=data)
        for number in numbers
    ]
