"""A sender of a link whose key is in wrong hands: it sends what the link is not for."""

from pathlib import Path

import pytest
from kit import clients
from kit.links import Link, linked
from kit.raw_topic import ID, RawTopic, frames

from aqueduct.link.dedup import sorting
from aqueduct.link.wire.frame import Announcement, Frame
from servers.broker import Broker

Said = pytest.CaptureFixture[str]
LAST = (1 << 63) - 1


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
        said = "is not a topic of this link"
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


@pytest.mark.parametrize("forged", ["a frame", "an announcement"])
def test_dedup_reports_forged_offsets_beyond_log_end(
    forged: str, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """Who has the sender's key says that all has crossed; then its owner has it again, and sends."""
    monkeypatch.setattr(sorting, "OVERTAKEN_SECONDS", 0)  # as if a minute had passed
    crossed = RawTopic(brokers[0])
    topic, other = crossed.topics
    crossed.bring(
        Frame(topic=topic, topic_id=ID, partition=1, first=0, last=LAST, batches=b"")
        if forged == "a frame"
        else Announcement(topic=topic, topic_id=ID, partition=1, first=0, end=LAST, compacted=False),
        *frames(other, numbers=[1]),
    )
    crossed.dedup()
    assert "in contradiction to the ledger" not in capsys.readouterr().out
    ends = [
        Announcement(topic=name, topic_id=ID, partition=1, first=0, end=10, compacted=False)
        for name in (topic, other)
    ]
    crossed.bring(*frames(topic, numbers=[1]), *ends, *ends)
    crossed.dedup(code=3)
    said = capsys.readouterr().out
    assert "2 announcements in contradiction to the ledger" in said
    known = LAST + (forged == "a frame")
    assert said.count(f"{topic}-1: the sender announces a log that ends before offset {known}, ") == 1
    assert f"{other}-1" not in said


def test_an_announcement_that_was_overtaken_contradicts_nothing(brokers: list[Broker], capsys: Said) -> None:
    crossed = RawTopic(brokers[0])
    topic, _ = crossed.topics
    crossed.bring(*frames(topic, numbers=[1]), *frames(topic, 10, 19, [1]))
    crossed.dedup()
    crossed.bring(
        *(
            Announcement(topic=topic, topic_id=ID, partition=1, first=0, end=end, compacted=False)
            for end in (10, 20)
        )
    )
    crossed.dedup()
    assert "in contradiction to the ledger" not in capsys.readouterr().out
