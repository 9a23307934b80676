"""Topics cross from one real cluster to another, as an independent client sees both ends."""

import random
import socket
from uuid import uuid4

import pytest
from kit import clients
from kit.clients import wait_for
from kit.links import PARTITIONS, Link
from kit.relay import Faults, Relay

from aqueduct.errors import ExitCode
from servers.process import free_ports


def test_everything_crosses(link: Link) -> None:
    link.write(3000, **{"compression.type": "lz4"})
    down, up = link.downstream(), link.upstream()
    link.wait_until_sent()
    link.write(2000, seed=1)
    link.finish(down, up)
    link.assert_equal(5000)
    assert link.bundle() == {"type": "all", "results": []}
    link.dedup()  # nothing new
    link.assert_equal(5000)


def test_lost_records_are_listed_resent_and_never_doubled(link: Link) -> None:
    down, up = link.downstream(), link.following(parity="5")
    link.relay.faults = Faults(lose=0.2, double=0.05, delay=0.05, flip=0.01)
    for seed in range(10):
        link.write(400, seed=seed)
    link.wait_until_sent()
    link.relay.faults = Faults()
    link.wait_until_told()
    link.dedup()
    missing = link.missing()
    assert missing, "nothing was lost: the test proves nothing"
    for partition in PARTITIONS:
        sent = link.sent(partition)
        expected = [each for offset, each in enumerate(sent) if (partition, offset) not in missing]
        assert link.arrived(partition) == expected
    assert link.resend() == ExitCode.DONE
    wait_for("filling what was lost", link.filled)
    for partition in PARTITIONS:
        assert sorted(map(repr, link.arrived(partition))) == sorted(map(repr, link.sent(partition)))
    link.stop(up, down)


def test_a_receiver_that_is_killed_takes_nothing_twice(link: Link) -> None:
    link.relay.recorded = []
    down, up = link.downstream(), link.upstream()
    link.write(1000)
    link.wait_until_sent()
    link.wait_until_told()
    for _ in range(2):  # the first may be of before
        kept = link.kept()
        wait_for("keeping the state", lambda kept=kept: link.kept() != kept)
    link.kill(down)
    before = link.frames()
    down = link.downstream()
    wait_for("having the session's key", lambda: link.counted("keys") + link.counted("keys_repeated") > 0)
    link.relay.replay()
    link.write(1000, seed=1)
    link.finish(down, up)
    after = link.frames()
    assert len(set(after)) == len(after) > len(before)  # what is new, and nothing of the recording
    link.assert_equal(2000)


def test_a_sender_that_is_killed_goes_on(link: Link) -> None:
    down, up = link.downstream(), link.upstream()
    for seed in range(3):
        link.write(500, seed=seed)
        link.kill(up)
        up = link.upstream()
    link.finish(down, up)
    assert not link.missing()
    link.assert_equal(1500)


def test_keys_rotate_and_old_private_keys_still_open(link: Link) -> None:
    link.keys("receiver", "new")
    down = link.downstream(privateKeyFiles=f"{link.folder}/new.key,{link.folder}/down.key")
    up = link.upstream(generateNewSymmetricKeyEvery="2")
    for seed in range(4):
        link.write(300, seed=seed)
        known = link.counted("keys")
        if seed % 2:
            wait_for("another key", lambda known=known: link.counted("keys") > known)
    link.finish(down, up)
    link.assert_equal(1200)


def test_a_strangers_datagrams_and_another_receivers_are_nothing(link: Link) -> None:
    link.keys("receiver", "other")
    link.keys("sender", "stranger")
    link.write(200)
    down = link.downstream()
    for dropped, more in (
        ("keys_of_strangers", {"signingKeyFile": f"{link.folder}/stranger.key"}),
        ("keys_for_others", {"publicKeyFile": f"{link.folder}/other.pub"}),
    ):
        up = link.upstream(groupID=f"up-{uuid4()}", **more)
        wait_for(dropped, lambda dropped=dropped: link.counted(dropped) > 0)
        before = link.counted("unknown_session")
        wait_for("what it sends", lambda before=before: link.counted("unknown_session") > before)
        link.stop(up)
    assert clients.ends(link.target, link.raw, *PARTITIONS) == [0, 0]
    assert link.counted("values") == 0
    # A known one sends the same records: so the end was there to take them.
    up = link.upstream(groupID=f"up-{uuid4()}")
    wait_for("what a known sender sends", lambda: any(clients.ends(link.target, link.raw, *PARTITIONS)))
    link.stop(up, down)


def test_what_the_source_never_had_is_no_gap(link: Link) -> None:
    """Cross aborted transactions, their markers, and records that the filter withholds."""
    for number in range(10):
        value = f"{('plain', 'secret', 'other')[number % 3]} {number}"
        end = "abort" if number % 2 else "commit"
        clients.transaction(link.source, link.topic, [value], end, *PARTITIONS)
    rules = {"inputFilterRules": "deny:^secret,allow:^plain", "inputFilterDefaultAction": "deny"}
    link.finish(link.downstream(), link.upstream(**rules))
    assert not link.missing()
    for partition in PARTITIONS:
        assert [value for _, value, _, _ in link.arrived(partition)] == [b"plain 0", b"plain 6"]


def test_only_record_above_size_limit_does_not_cross(link: Link, capsys: pytest.CaptureFixture[str]) -> None:
    """Cross small records in large batches."""
    link.write(400, **{"compression.type": "zstd"})
    link.write(400, seed=1)
    clients.produce(link.source, link.topic, [random.Random(1).randbytes(5000)], 1)  # noqa: S311
    down, up = link.downstream(), link.upstream(largestRecord="3000")
    link.wait_until_sent()
    link.stop(up)
    limit = f"a record of {link.topic} may have up to 1048588 bytes (max.message.bytes)"
    assert limit in link.said("upstream")
    assert link.said("upstream").count("which is more than largestRecord") == 1
    link.wait_until_told()
    link.dedup()
    [missing] = link.bundle()["results"]
    assert (missing["partition"], missing["gaps"]) == (1, [[400, 400]])
    assert link.resend(largestRecord="3000") == ExitCode.INCOMPLETE
    assert f"{link.topic}-1: 400 to 400 cannot be sent" in capsys.readouterr().out
    assert link.resend(largestRecord="6000") == ExitCode.DONE
    wait_for("filling what was lost", link.filled)
    link.stop(down)
    link.assert_equal(801)


def test_partitions_are_shifted(link: Link) -> None:
    clients.grow(link.target, link.topic, 4)
    link.write(100)
    link.finish(link.downstream(), link.upstream(partitionStartValue="2"))
    for partition in PARTITIONS:
        assert link.arrived(partition + 2) == link.sent(partition)
        assert link.arrived(partition) == []


@pytest.mark.long  # scenario cross has two links that do
def test_two_links_lose_different_things(link: Link) -> None:
    second_raw = clients.create(link.target, clients.unique("raw"), 2)
    [port] = free_ports(1, socket.SOCK_DGRAM)
    second = Relay(port, seed=2)
    (link.folder / "state2").mkdir()
    receiving = {"rawTopic": second_raw, "stateDir": str(link.folder / "state2"), "metricsPort": ""}
    ends = link.downstream(), link.downstream(targetPort=str(port), link="8", **receiving)
    targets = f"127.0.0.1:{link.relay.port}=7,127.0.0.1:{second.port}=8"
    up = link.following(targetIP="", targets=targets, parity="0")
    link.relay.faults = second.faults = Faults(lose=0.02)
    for seed in range(10):
        link.write(400, seed=seed)
        link.wait_until_sent()  # so that each is a frame of its own
    link.relay.faults = second.faults = Faults()
    link.stop(up)
    link.wait_until_told()
    link.wait_until_told(second_raw)
    link.stop(*ends)
    second.stop()
    link.dedup()
    alone = link.missing()
    link.dedup(f"{link.raw},{second_raw}")
    both = link.missing()
    assert len(both) < len(alone)
    for partition in PARTITIONS:
        lost = sum(number == partition for number, _ in both)
        assert len(link.arrived(partition)) == len(link.sent(partition)) - lost
