"""The topics that the sending end of a link looks for."""

import re
import uuid

import pytest
from kit import clients

from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.link import feed as feed_module
from aqueduct.link.feed import Feed
from servers.broker import Broker


def test_unmatched_pattern_is_logged_only_on_change(
    brokers: list[Broker], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "REFRESH_SECONDS", 0.0)  # in each round
    broker, topic = brokers[0], f"link.{uuid.uuid4().hex[:8]}"
    end = End("source", broker.plaintext)

    def warnings() -> list[str]:
        told = [each.getMessage() for each in caplog.records if topic in each.getMessage()]
        caplog.clear()
        return told

    with connect(end, "sender") as client, connect(end, "sender") as following:
        feed = Feed(
            client,
            following,
            topic,
            lambda name: re.fullmatch(rf"{topic}\..*", name) is not None,
            session=1,
            shift=0,
            largest=1 << 20,
            from_time=None,
            asked=rf"{topic}\..*",
        )
        feed.begin()
        [said] = warnings()
        assert said.startswith("[pattern-matches-nothing] ")
        for _ in range(3):
            list(feed.poll(0.1))
        assert warnings() == []
        clients.create(broker, f"{topic}.a")

        def crosses() -> bool:
            list(feed.poll(0.1))
            return any("now match a topic" in said for said in warnings())

        clients.wait_for("the topic to be found", crosses)
        clients.delete(broker, f"{topic}.a")

        def is_gone() -> bool:
            list(feed.poll(0.1))
            return any(said.startswith("[pattern-matches-nothing]") for said in warnings())

        clients.wait_for("the warning again", is_gone)


def test_each_unmatched_pattern_is_named_beside_matched_ones(
    brokers: list[Broker], caplog: pytest.LogCaptureFixture
) -> None:
    broker, topic = brokers[0], f"link.{uuid.uuid4().hex[:8]}"
    clients.create(broker, f"{topic}.a")
    asked = rf"{topic}\.a|{topic}\.(b|c)|{topic}\.[|]d"
    end = End("source", broker.plaintext)
    with connect(end, "sender") as client, connect(end, "sender") as following:
        feed = Feed(
            client,
            following,
            topic,
            lambda name: re.fullmatch(asked, name) is not None,
            session=1,
            shift=0,
            largest=1 << 20,
            from_time=None,
            asked=asked,
        )
        feed.begin()
    [said] = [each.getMessage() for each in caplog.records if "[pattern-" in each.getMessage()]
    assert rf"{topic}\.(b|c), {topic}\.[|]d matches" in said
    assert feed.unmatched == 2
