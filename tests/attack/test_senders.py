"""A sender of a link whose key is in wrong hands: it sends what the link is not for."""

from pathlib import Path

import clients
import pytest
from links import Link, linked

from servers.broker import Broker


@pytest.mark.parametrize("mode", ["raw", "record"])
def test_nothing_of_another_topic_is_written(
    mode: str, source: Broker, target: Broker, tmp_path: Path
) -> None:
    name, other = clients.unique("mine"), clients.unique("others")
    for broker in (source, target):
        for topic in (name, other):
            clients.create(broker, topic, 2)
    clients.produce(source, other, ["not mine to write"] * 5)
    clients.produce(source, name, ["mine"] * 5)
    with linked(tmp_path, source, target, name) as link:
        link.downstream(topics=name, **({} if mode == "raw" else {"mode": "record", "rawTopic": ""}))
        link.upstream(topic="", topics=f"{name}|{other}")
        said = "comes over the link and does not cross it"
        clients.wait_for("a word of it", lambda: said in link.said("downstream"))
        clients.wait_for("it is counted", lambda: link.counted("foreign"))
        if mode == "record":
            clients.wait_for("the link's own", lambda: clients.ends(target, name, 0, 1) == [5, 0])
        else:
            clients.wait_for("the link's own", lambda: of_topic(link, name))
            assert not of_topic(link, other)
        assert clients.ends(target, other, 0, 1) == [0, 0]
        link.check()


def of_topic(link: Link, topic: str) -> int:
    """Return how many of a link's raw records are of a topic, by their keys."""
    return sum(
        (each.key() or b"").startswith(topic.encode()) for each in clients.read(link.target, link.raw, 0, 1)
    )
