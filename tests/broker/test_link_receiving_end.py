"""The receiving end's refusals, warnings and logs, beside real brokers."""

import os
import signal
import socket

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from relay import Relay
from test_link import (  # noqa: F401  # fixtures
    SECONDS,
    Ends,
    create,
    end_of,
    ends,
    raw,
    relay,
    sent_all,
    source,
    target,
    topic,
    wait_for,
    write,
)

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker


def downstream(ends: Ends, **more: str) -> ExitCode:  # noqa: F811
    """Run the receiving end in this process: only one that refuses to begin ends."""
    options = ends.downstream_options | more
    return ExitCode(main(["diode", "downstream", *(f"--{name}={value}" for name, value in options.items())]))


def test_a_raw_topic_that_takes_no_frames_is_refused(
    target: Broker,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = create(target, f"{raw}.small", 2, {"max.message.bytes": "400000"})
    assert downstream(ends, rawTopic=small) == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert (
        f"Raw topic {small} has max.message.bytes=400000, and what crosses comes in frames of up to" in said
    )
    assert f"kafka-configs --alter --topic {small} --add-config max.message.bytes=16778216" in said


def test_a_record_that_the_raw_topic_refuses_is_named_with_the_remedy(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
) -> None:
    narrow = create(target, f"{raw}.narrow", 2, {"max.message.bytes": "600000"})
    ends.downstream(rawTopic=narrow)
    mend = f"kafka-configs --alter --topic {narrow} --add-config max.message.bytes=16778216"
    assert f"raw topic {narrow} has max.message.bytes=600000" in ends.said("downstream")
    assert mend in ends.said("downstream")
    producer = Producer({"bootstrap.servers": source.plaintext})
    for size in (1000, 300_000, 900_000):
        producer.produce(topic, os.urandom(size), partition=1)
        assert producer.flush(SECONDS) == 0
    ends.upstream()
    refused = f"{topic}-1: offsets 2 to 2 are not in raw topic {narrow}, and stay a gap: "
    wait_for(lambda: refused in ends.said("downstream"), "being refused")
    assert mend in ends.said("downstream").split(refused)[1]
    # Frames that fit are not refused for being written together.
    with target.process.silent():
        for _ in range(12):
            producer.produce(topic, os.urandom(300_000), partition=1)
            assert producer.flush(SECONDS) == 0
        wait_for(sent_all(source, topic, ends), "sending")
    wait_for(lambda: end_of(target, narrow) >= 14, "arriving")
    assert ends.said("downstream").count("are not in raw topic") == 1
    ends.check()


def test_a_raw_topic_whose_limit_it_may_not_see_is_written_all_the_same(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
) -> None:
    rights = [
        AclBinding(
            *(ResourceType.TOPIC, raw, ResourcePatternType.LITERAL, "User:CN=writer", "*", each),
            AclPermissionType.ALLOW,
        )
        for each in (AclOperation.DESCRIBE, AclOperation.WRITE)
    ]
    admin = AdminClient({"bootstrap.servers": target.plaintext})
    for done in admin.create_acls(rights).values():
        done.result(SECONDS)
    ends.downstream(
        bootstrapServers=target.tls,
        certFile=str(target.authority.issue("writer")),
        caFile=str(target.authority.certificate),
    )
    ends.upstream()
    write(source, topic, 10)
    wait_for(lambda: end_of(target, raw) > 0, "arriving")
    ends.check()
    assert f"the max.message.bytes of raw topic {raw} can't be checked" in ends.said("downstream")


def test_two_receivers_do_not_share_their_memory(
    ends: Ends,  # noqa: F811
    relay: Relay,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = ends.downstream()
    assert downstream(ends) == ExitCode.REFUSED
    assert f"Another receiving end of link 7 runs with stateDir {ends.state}" in capsys.readouterr().err
    ends.kill_one(one)
    assert one.wait(SECONDS) == -signal.SIGKILL
    ends.downstream()
    # A stranger is told of, in our words.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"EVIL\nERROR forged line", ("127.0.0.1", relay.target))  # type: ignore[attr-defined]
    wait_for(lambda: "dropped 1 datagrams (not_of_the_link)" in ends.said("downstream"), "a word of it")
    assert "EVIL" not in ends.said("downstream")
    ends.check()


def test_a_receiver_ends_while_kafka_is_away(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
) -> None:
    down = ends.downstream()
    up = ends.upstream()
    write(source, topic, 100)
    wait_for(lambda: end_of(target, raw) > 0, "arriving")
    with target.process.silent():
        write(source, topic, 100, seed=1)
        ends.stop(up)
        down.send_signal(signal.SIGTERM)
        assert down.wait(SECONDS) == ExitCode.FAILED
    assert "that had arrived are not written" in ends.said("downstream")
    ends.kill_one(down)
