"""The receiving end's refusals, warnings and logs, beside real brokers."""

import os
import signal
import socket

import pytest
from confluent_kafka.admin import AclOperation
from kit import clients
from kit.clients import wait_for
from kit.identifiers import assert_printed
from kit.links import PARTITIONS, SECONDS, Link

from aqueduct.errors import ExitCode


def downstream(link: Link, **more: str) -> ExitCode:
    """Run the receiving end in this process: only one that refuses to begin ends."""
    return link.run("downstream", link.receiving | more)


def end_of(link: Link, topic: str) -> int:
    return sum(clients.ends(link.target, topic, *PARTITIONS))


def test_raw_topic_too_small_for_frames_is_refused(link: Link, capsys: pytest.CaptureFixture[str]) -> None:
    small = clients.create(link.target, f"{link.raw}.small", 2, max_message_bytes="400000")
    assert downstream(link, rawTopic=small) == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert f"[raw-topic-limit-small] Raw topic {small} has max.message.bytes=400000" in said
    assert f"kafka-configs --alter --topic {small} --add-config max.message.bytes=16778216" in said


def test_raw_topic_rejection_is_reported_with_its_fix(link: Link) -> None:
    topic = link.topic
    narrow = clients.create(link.target, f"{link.raw}.narrow", 2, max_message_bytes="600000")
    link.downstream(rawTopic=narrow)
    repair = f"kafka-configs --alter --topic {narrow} --add-config max.message.bytes=16778216"
    assert f"raw topic {narrow} has max.message.bytes=600000" in link.said("downstream")
    assert repair in link.said("downstream")
    for size in (1000, 300_000, 900_000):
        clients.produce(link.source, topic, [os.urandom(size)], 1)
    link.upstream()
    refused = f"{topic}-1: offsets 2 to 2 are not in raw topic {narrow}, "
    wait_for("being refused", lambda: refused in link.said("downstream"))
    assert repair in link.said("downstream").split(refused)[1]
    # Frames that fit are not refused for being written together.
    with link.target.process.silent():
        for _ in range(12):
            clients.produce(link.source, topic, [os.urandom(300_000)], 1)
        link.wait_until_sent()
    wait_for("arriving", lambda: end_of(link, narrow) >= 14)
    assert link.said("downstream").count("are not in raw topic") == 1
    link.check()


def test_raw_topic_with_unreadable_limit_is_still_written(link: Link) -> None:
    target = link.target
    clients.allow(target, "writer", link.raw, AclOperation.DESCRIBE, AclOperation.WRITE)
    link.downstream(
        bootstrapServers=target.tls,
        certFile=str(target.authority.issue("writer")),
        caFile=str(target.authority.certificate),
    )
    link.upstream()
    link.write(10)
    wait_for("arriving", lambda: end_of(link, link.raw) > 0)
    link.check()
    assert f"max.message.bytes of raw topic {link.raw} cannot be checked" in link.said("downstream")


def test_two_receivers_do_not_share_their_memory(link: Link, capsys: pytest.CaptureFixture[str]) -> None:
    one = link.downstream()
    assert downstream(link) == ExitCode.REFUSED
    assert_printed(capsys.readouterr().err, "lock-held", "link 7", link.state)
    link.kill(one)
    assert one.wait(SECONDS) == -signal.SIGKILL
    link.downstream()
    # A stranger is told of, in our words.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"EVIL\nERROR forged line", ("127.0.0.1", link.port))
    wait_for("a word of it", lambda: "dropped 1 datagrams (not_of_the_link)" in link.said("downstream"))
    assert "EVIL" not in link.said("downstream")
    link.check()


def test_a_receiver_ends_while_kafka_is_away(link: Link) -> None:
    down, up = link.downstream(), link.upstream()
    link.write(100)
    wait_for("arriving", lambda: end_of(link, link.raw) > 0)
    with link.target.process.silent():
        before = link.counted("values")
        link.write(100, seed=1)
        wait_for("more", lambda: link.counted("values") > before)
        link.stop(up)
        down.send_signal(signal.SIGTERM)
        assert down.wait(SECONDS) == ExitCode.FAILED
    assert "that had arrived were not written" in link.said("downstream")
    link.kill(down)
