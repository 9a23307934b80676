"""A receiver's handling of strangers, replays, restarts, several sessions, rotation, and floods."""

import dataclasses
import random
import re
import struct

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from kit.identifiers import raises
from kit.link_ends import (
    DROPPED,
    LINK,
    RECEIVER,
    SENDER,
    SHARD,
    TAKEN,
    datagrams,
    keys,
    killed,
    pair,
    receive,
    receiver,
    restarted,
    rises,
    session,
    settings,
    shard_of,
    type_of,
    value,
)

from aqueduct.common.keys import Algorithm, ReceiverKey, SenderKey
from aqueduct.errors import Failed, Refused
from aqueduct.link.wire import key_frame
from aqueduct.link.wire.datagram import BEAT, FIELDS, HEADER, MAGIC, NONCE, Type
from aqueduct.link.wire.key_frame import KeyRing, Kind
from aqueduct.link.wire.receiver import Receiver, ReceiverLimits
from aqueduct.link.wire.sender import Session
from aqueduct.link.wire.state import loads, loads_unfinished


def sent(of: Session, *values: bytes) -> list[bytes]:
    """Send each value in a block of its own."""
    return datagrams(send for each in values for send in [*of.add(each, 0.0), *of.flush()])


def data_of(all_of: list[bytes]) -> list[bytes]:
    """Return the datagrams without the parity."""
    return [each for each in all_of if shard_of(each)[1] < shard_of(each)[2]]


# Whoever is not the sender.


def test_a_strangers_session_is_nothing() -> None:
    by = receiver()
    stranger = session(sender=SenderKey.generate())
    for each in keys(stranger):
        assert rises(by, each) == {"keys_of_strangers"}
    for each in sent(stranger, value(1)):
        assert rises(by, each) == {"unknown_session"}
    assert by.sessions() == []


def test_a_sender_that_seals_for_another_receiver() -> None:
    by = Receiver([ReceiverKey.generate(Algorithm.X25519)], [SENDER.public], LINK)
    for each in keys(session()):
        assert rises(by, each) == {"keys_for_others"}


def test_public_key_holder_cannot_set_key() -> None:
    sending, receiving = pair()
    (good, _) = keys(sending, 50.0)
    forger = SenderKey.generate()
    (forged, _) = keys(session(sender=forger, start=9000))
    forged = forged.replace(forger.public.fingerprint, SENDER.public.fingerprint)
    assert rises(receiving, forged) == {"keys_badly_signed"}
    assert rises(receiving, good) == {"keys_repeated"}


def test_another_link_version_and_protocol() -> None:
    sending, receiving = pair()
    (good, *_) = sent(sending, value(1))
    other_link = session(settings(link=LINK + 1))
    for each in keys(other_link) + sent(other_link, value(1)):
        assert rises(receiving, each) == {"other_link"}
    assert rises(receiving, good[:2] + b"\x02" + good[3:]) == {"other_version"}
    for each in (b"", MAGIC, good[:31], b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"):
        assert rises(receiving, each) == {"not_of_the_link"}
    assert (
        rises(receiving, good[:32])
        == rises(receiving, good[:40])
        == rises(receiving, good[:-1])
        == {"bad_tag"}
    )
    assert receive(receiving, [good]) == [value(1)]


@examples(deadline=None)
@given(st.lists(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: MAGIC + b"\x01" + rest)))
def test_noise(noise: list[bytes]) -> None:
    sending, receiving = pair()
    known = sent(sending, value(1))[0][: HEADER.size - 12]
    for each in noise:
        assert receive(receiving, [each, known + each]) == []
    assert receiving.counters.shards == 0


@pytest.mark.parametrize("seed", range(4))
def test_fuzzed_datagrams_neither_stop_receiver_nor_pass(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    sending, receiving = pair(settings(interleave=1))
    limits = ReceiverLimits(key_frames=5)
    receiving._limits = limits
    values = [value(number, 500) for number in range(200)]
    good = datagrams(sending.due(1.0, 5000)) + sent(sending, *values)
    found: list[bytes] = []
    for number, each in enumerate(good):
        for _ in range(5):
            bad = bytearray(chance.choice(good[max(0, number - 20) : number + 20]))
            for _ in range(chance.randint(1, 3)):
                match chance.randint(0, 3):
                    case 0:
                        at = chance.randrange(len(bad) or 1)
                        bad[at : at + 1] = bytes([bad[at] ^ chance.randint(1, 255)]) if bad else b""
                    case 1:
                        bad = bad[: chance.randint(0, len(bad))]
                    case 2:
                        bad += chance.randbytes(chance.randint(1, 40))
                    case 3:
                        at = chance.randint(0, min(31, len(bad)))
                        bad[at : at + 4] = chance.randbytes(4)
            if bytes(bad) not in good:
                before = receiving.counters.shards, receiving.counters.beats, receiving.counters.keys
                found += receive(receiving, [bytes(bad)], number / 100)
                assert before == (
                    receiving.counters.shards,
                    receiving.counters.beats,
                    receiving.counters.keys,
                )
        if number % 50 == 0:
            receiving.tick(number / 100)
        found += receive(receiving, [each], number / 100)
    assert found == values
    counters = dataclasses.asdict(receiving.counters)
    assert sum(counters[name] for name in TAKEN | DROPPED) == counters["datagrams"]
    assert counters["bad_tag"] > 500
    assert counters["keys_over_rate"] > 0 or counters["keys_badly_signed"] < 100


def authentic(of: Session, kind: int, shard: int, k: int, m: int, counter: int, content: bytes) -> bytes:
    """Build what a sender with a mistake might send."""
    header = of._head() + FIELDS.pack(kind, shard, k, m, counter)
    return header + of._current.cipher.encrypt(header[NONCE], content, header)


@pytest.mark.parametrize(
    "fields",
    [
        (Type.DATA, 0, 0, 1, 0, bytes(16)),
        (Type.DATA, 0, 201, 1, 0, bytes(16)),
        (Type.DATA, 0, 200, 56, 0, bytes(16)),
        (Type.DATA, 3, 2, 1, 0, bytes(16)),
        (Type.DATA, 0, 2, 1, 0, b""),
        (Type.DATA, 0, 2, 1, 0, bytes(17)),
        (Type.BEAT, 0, 0, 0, 9, bytes(BEAT.size - 1)),
        (9, 0, 0, 0, 9, bytes(SHARD)),
    ],
)
def test_what_is_authentic_and_wrong(fields: tuple[int, int, int, int, int, bytes]) -> None:
    sending, receiving = pair()
    assert rises(receiving, authentic(sending, *fields)) == {"malformed"}
    assert receive(receiving, sent(sending, value(1))) == [value(1)]


def test_shards_that_do_not_fit_their_block() -> None:
    sending, receiving = pair()
    receive(receiving, [authentic(sending, Type.DATA, 0, 3, 1, 5, bytes(16))])
    for k, m, length in ((4, 1, 16), (3, 2, 16), (3, 1, 32)):
        assert rises(receiving, authentic(sending, Type.DATA, 1, k, m, 5, bytes(length))) == {"malformed"}


def test_an_authentic_block_of_anything() -> None:
    sending, receiving = pair()
    for number, content in enumerate((b"\xff" * 32, bytes(32))):
        receive(receiving, [authentic(sending, Type.DATA, 0, 1, 0, number, content)])
    assert (receiving.counters.blocks, receiving.counters.blocks_malformed) == (2, 1)


def test_a_value_that_is_no_frame() -> None:
    sending, receiving = pair()
    assert receive(receiving, sent(sending, b"no frame", value(1))) == [value(1)]
    assert receiving.counters.values_malformed == 1


# Replays and restarts.


def test_a_recording_played_again_yields_nothing() -> None:
    sending, receiving = pair()
    recording = keys(sending, 50.0)
    values = [value(number, 700) for number in range(50)]
    recording += sent(sending, *values) + datagrams(sending.due(51.0, 5000))
    assert receive(receiving, recording) == values
    for by in (receiving, killed(receiving), killed(killed(receiving))):
        before = by.counters.beats
        assert receive(by, recording) == []
        assert by.counters.beats == before
    receive(receiving, datagrams(sending.end(5000)))
    receiving.tick(1000.0)
    for by in (receiving, killed(receiving)):
        assert by.sessions() == []
        assert rises(by, recording[0]) == {"keys_old"}
        assert receive(by, recording) == []


def test_a_killed_receiver_goes_on_with_the_session() -> None:
    sending, receiving = pair()
    first = sent(sending, value(1, 1000), value(2, 1000), value(3, 1000))
    lost = [each for each in first if shard_of(each)[0] == 1]
    assert receive(receiving, [each for each in first if each not in lost]) == [
        value(1, 1000),
        value(3, 1000),
    ]
    again = killed(receiving)
    assert receive(again, sent(sending, value(4))) == [value(4)]  # the key was known
    assert rises(again, keys(sending, 50.0)[0]) == {"keys_repeated"}
    assert receive(again, first) == [value(2, 1000)]


def test_session_of_removed_key_is_unknown_after_restart() -> None:
    sending, receiving = pair()
    state = loads(receiving.state().dumps(), "s", LINK)
    for of_receiver, of_sender in (
        (RECEIVER, SenderKey.generate()),
        (ReceiverKey.generate(Algorithm.X25519), SENDER),
    ):
        again = Receiver([of_receiver], [of_sender.public], LINK, state=state)
        assert rises(again, sent(sending, value(1))[0]) == {"unknown_session"}


@examples(deadline=None)
@given(sizes=st.lists(st.integers(100, 9_000), min_size=1, max_size=12), data=st.data())
def test_a_restart_loses_nothing(sizes: list[int], data: st.DataObject) -> None:
    """Wherever it comes, however often, and with another key since."""
    sending, by = pair(settings(rotate=2.0))
    wire: list[bytes] = []
    values = [value(number, size) for number, size in enumerate(sizes)]
    for number, each in enumerate(values):
        wire += datagrams([*sending.add(each, float(number)), *sending.due(float(number), 5000)])
    wire += datagrams(sending.flush())
    cuts = data.draw(st.lists(st.integers(0, len(wire)), max_size=3))
    found: list[bytes] = []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(wire)], strict=True):
        found += receive(by, wire[start:stop])
        by, complete = restarted(by)
        found += complete
    assert sorted(found) == sorted(values)
    assert by.counters.malformed == by.counters.blocks_lost == by.counters.values_incomplete == 0
    assert list(by.unfinished()) == [] or all(left[1:] == ((), b"") for left in by.unfinished())


def test_what_is_left_unfinished_and_damaged() -> None:
    sending, receiving = pair()
    receive(receiving, sent(sending, value(1, 5000))[:3])
    [left] = receiving.unfinished()
    assert len(left.datagrams) == 3
    whole = b"".join(left.dumps())
    assert list(loads_unfinished(memoryview(whole))) == [left]
    for size in range(1, len(whole)):
        with pytest.raises((ValueError, struct.error)):
            list(loads_unfinished(memoryview(whole)[:size]))


def test_a_state_of_another_link_or_none() -> None:
    state = pair()[1].state().dumps()
    assert b'"key":2' in state
    with raises(Refused, "link-state-mismatch") as refused:
        loads(state, "s", 8)
    assert re.findall(r"\d+", str(refused.value)) == ["7", "8"]
    line = SENDER.public.fingerprint.hex().encode() + b"/live"
    for damaged in (
        b"",
        b"{}",
        state[:-1],
        state.replace(b'"version":1', b'"version":2'),
        state.replace(line, b"another/live", 1),
        state.replace(line, b"dead"),
        state.replace(b'"session":"', b'"session":"00'),
        state.replace(b'"frames":["', b'"frames":["*'),
    ):
        assert damaged != state
        with raises(Failed, "link-state-unreadable"):
            loads(damaged, "s", LINK)


def test_older_session_is_refused_and_newer_accepted() -> None:
    sending, receiving = pair()
    for start in (999, 1000):
        assert rises(receiving, keys(session(start=start))[0]) == {"keys_old"}
    newer = session(start=1001)
    assert receive(receiving, keys(newer)) == []
    # The older one's last datagrams may still be on their way.
    assert receive(receiving, sent(sending, value(1)) + sent(newer, value(2))) == [value(1), value(2)]
    receiving.tick(1.0 + 5.0)
    (sight,) = receiving.sessions()
    assert sight.start == 1001
    assert rises(receiving, sent(sending, value(3))[0]) == {"unknown_session"}
    assert rises(receiving, keys(sending, 50.0)[0]) == {"keys_old"}


def test_a_replaced_session_after_a_restart() -> None:
    first, receiving = pair()
    second = session(start=1001)
    receive(receiving, keys(second))
    again = killed(receiving)
    again.tick(100.0)
    assert receive(again, keys(first, 50.0) + sent(first, value(1)), 101.0) == [value(1)]
    again.tick(105.9)
    assert len(again.sessions()) == 2
    again.tick(106.0)
    assert [sight.start for sight in again.sessions()] == [1001]


def test_what_a_replaced_session_left_open_is_lost() -> None:
    first, receiving = pair(settings(shards=2))
    wire = sent(first, value(1), value(2), value(3, 1000))
    receive(receiving, [each for each in wire if shard_of(each)[0] not in (0, 3)])
    for start in range(1001, 1005):
        receive(receiving, keys(session(start=start)))
    assert len(receiving.sessions()) == 4
    assert (receiving.counters.blocks_lost, receiving.counters.values_incomplete) == (2, 1)


def test_sender_crash_loop_uses_limited_memory() -> None:
    receiving = receiver(ReceiverLimits(key_frames=1000))
    for start in range(100):
        receive(receiving, keys(session(start=start)))
    assert len(receiving.sessions()) == 4
    assert len(receiving._keys) == 8


def test_live_and_resend_leave_each_other_alone() -> None:
    """Check this with any clock of the resending machine."""
    for start in (1, 1000, 10**15):
        live, receiving = pair()
        resend = session(settings(kind=Kind.RESEND), start=start)
        receive(receiving, keys(resend))
        mixed = [
            each for two in zip(sent(live, value(1)), sent(resend, value(2)), strict=True) for each in two
        ]
        assert receive(receiving, mixed) == [value(1), value(2)]
        receive(receiving, datagrams(resend.end(5000)))
        receiving.tick(100.0)
        assert [sight.kind for sight in receiving.sessions()] == [Kind.LIVE]
        assert receive(killed(receiving), keys(resend, 50.0) + sent(resend, value(3))) == []
        assert receive(receiving, sent(live, value(4))) == [value(4)]


def test_two_senders() -> None:
    other = SenderKey.generate()
    receiving = Receiver([RECEIVER], [SENDER.public, other.public], LINK)
    mine, others = session(start=5), session(start=1, sender=other)
    receive(receiving, keys(mine) + keys(others))
    assert receive(receiving, sent(others, value(1)) + sent(mine, value(2))) == [value(1), value(2)]


# Keys.


@examples(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_rotation_in_mid_stream_with_reorder(chance: random.Random) -> None:
    sending, receiving = pair(settings(rotate=2.0))
    values = [value(number, 300) for number in range(40)]
    wire = []
    for number, each in enumerate(values):
        now = number * 0.5
        wire += datagrams([*sending.due(now, 5000), *sending.add(each, now), *sending.flush()])
    assert sending.key_number == 10
    wire += datagrams(sending.end(5000))
    # Nothing is moved by more than half the life of a key.
    order = sorted(range(len(wire)), key=lambda at: at + chance.uniform(0, 6))
    assert sorted(receive(receiving, [wire[at] for at in order])) == values
    assert receiving.counters.unknown_session == 0
    assert len(receiving._keys) == 3


def test_old_keys_are_forgotten() -> None:
    sending, receiving = pair(settings(rotate=2.0))
    first = keys(sending, 1.0)
    early = sent(sending, value(1))
    for now in range(3, 12):
        receive(receiving, keys(sending, float(now)))
    assert receiving.sessions()[0].key > 4
    (of,) = receiving._sessions.values()
    assert len(of.frames) == len(of.created) == 3
    assert rises(receiving, early[0]) == {"unknown_session"}
    assert rises(receiving, first[0]) == {"keys_old"}


def test_old_keys_stay_refused_after_restart() -> None:
    sending, receiving = pair(settings(rotate=2.0))
    first = keys(sending, 1.0)
    for now in range(3, 12):
        receive(receiving, keys(sending, float(now)))
    again = killed(receiving)
    assert rises(again, first[0]) == {"keys_old"}
    assert rises(again, keys(sending, 12.0)[0]) == {"keys_repeated"}


def test_repeats_of_a_key_frame_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, receiving = pair()
    frames = keys(sending, 50.0)
    monkeypatch.setattr(KeyRing, "open", None)
    for _ in range(1000):
        for each in frames:
            assert rises(receiving, each, 1.0) == {"keys_repeated"}


def test_only_so_many_key_frames_are_looked_at() -> None:
    receiving = receiver(ReceiverLimits(key_frames=3))
    sending = session()
    (good, _) = keys(sending)
    forged = [good[:-1] + bytes([number ^ good[-1]]) for number in range(1, 8)]
    now = 1000.0
    assert [rises(receiving, each, now) for each in forged[:5]] == [{"keys_badly_signed"}] * 3 + [
        {"keys_over_rate"}
    ] * 2
    assert rises(receiving, forged[5], now + 0.4) == {"keys_badly_signed"}
    assert rises(receiving, forged[6], now + 0.5) == {"keys_over_rate"}
    assert "keys" in rises(receiving, good, now + 0.7)


def test_flood_of_forged_sessions_delays_no_known_session() -> None:
    sending, receiving = pair(settings(rotate=10))
    (good, _) = keys(session(start=9000))
    forged = [good[:-8] + number.to_bytes(8) for number in range(200)]
    refused = [rises(receiving, each, 10.0) for each in forged]
    assert refused.count({"keys_badly_signed"}) == 50
    assert refused.count({"keys_over_rate"}) == 150
    _, following = keys(sending, 10.0)
    assert "keys" in rises(receiving, following, 10.0)


def test_a_session_that_contradicts_itself() -> None:
    sending, receiving = pair()
    frame = {"session": sending._session, "number": 5, "start": 1001, "created": 0, "kind": Kind.LIVE}
    for changes in ({}, {"start": 1000, "number": 1}, {"start": 1000, "kind": Kind.RESEND}):
        odd = key_frame.seal(RECEIVER.public, SENDER, link=LINK, key=bytes(32), **(frame | changes))  # type: ignore[arg-type]
        assert rises(receiving, odd) == {"malformed"}
    assert receive(receiving, sent(sending, value(1))) == [value(1)]


# Losses.


def test_a_lost_tail_shows_by_the_next_beat() -> None:
    sending, receiving = pair()
    assert receive(receiving, sent(sending, value(1))) == [value(1)]
    sent(sending, value(2), value(3))  # lost
    receive(receiving, datagrams(sending.due(10.0, 5000)), 10.0)
    assert receiving.sessions()[0].missing == 2
    receiving.tick(14.9)
    assert receiving.counters.blocks_lost == 0
    receiving.tick(15.0)
    assert receiving.counters.blocks_lost == 2
    assert receiving.sessions()[0].missing == 0


def test_a_loss_shows_while_beats_go_on() -> None:
    sending, receiving = pair()
    sent(sending, value(1))  # lost
    for now in range(10, 17):
        receive(receiving, datagrams(sending.due(float(now), 5000)), float(now))
        receiving.tick(float(now))
    assert receiving.counters.blocks_lost == 1


def test_a_lost_end_of_a_session() -> None:
    sending, receiving = pair()
    end = datagrams(sending.end(5000))
    lost = sent(sending, value(1))
    end = datagrams(sending.end(5000))
    receive(receiving, end, 10.0)
    assert receive(receiving, lost[:0]) == []
    receiving.tick(14.0)
    assert receiving.sessions()
    receiving.tick(15.0)
    assert receiving.sessions() == []
    assert receiving.counters.blocks_lost == 1


def test_a_lost_beginning() -> None:
    sending, receiving = pair()
    sent(sending, value(1), value(2))  # lost
    assert receive(receiving, sent(sending, value(3))) == [value(3)]
    receive(receiving, datagrams(sending.end(5000)))
    receiving.tick(100.0)
    assert receiving.counters.blocks_lost == 2


def test_a_session_joined_late_is_no_loss() -> None:
    for by_beat in (False, True):
        sending, receiving = pair(limits=ReceiverLimits(window=10))
        sending.sent.blocks = 5000
        wire = datagrams(sending.due(50.0, 5000)) if by_beat else []
        wire += sent(sending, value(1)) + datagrams(sending.end(5000))
        assert receive(receiving, wire) == [value(1)]
        receiving.tick(100.0)
        assert receiving.counters.blocks_lost == 0


def test_what_the_window_passed_is_lost() -> None:
    sending, receiving = pair(limits=ReceiverLimits(window=10))
    values = [value(number) for number in range(30)]
    blocks = [sent(sending, each) for each in values]
    late = blocks.pop(3)
    assert receive(receiving, [each for block in blocks[:9] for each in block]) == values[:3] + values[4:10]
    assert receiving.counters.blocks_lost == 0
    receive(receiving, [each for block in blocks[9:13] for each in block])
    assert receiving.counters.blocks_lost == 1
    assert rises(receiving, late[0]) == {"shards_old"}
    receive(receiving, [each for block in blocks[13:] for each in block])
    assert receiving.counters.blocks_lost == 1


def test_what_the_window_passed_takes_no_memory() -> None:
    sending, receiving = pair(settings(parity=0), ReceiverLimits(window=10))
    blocks = [sent(sending, value(number, 500)) for number in range(30)]
    for block in blocks:
        receive(receiving, block[:-1])
    (each,) = receiving._sessions.values()
    assert sorted(each.blocks) == list(range(20, 30))
    assert each.held == SHARD * sum(len(block) - 1 for block in blocks[20:])
    assert receiving.counters.blocks_lost == 20


def test_a_shard_twice_counts_once() -> None:
    sending, receiving = pair(settings(parity=0))
    first, *rest = sent(sending, value(1, 500))
    assert rises(receiving, first) == {"shards"}
    assert rises(receiving, first) == {"shards_again"}
    assert receive(receiving, rest) == [value(1, 500)]
    assert receiving._sessions[sending._session].held == 0


def test_incomplete_value_is_not_delivered_and_counted_once() -> None:
    sending, receiving = pair(settings(shards=2))
    large = value(1, 3 * 2 * SHARD)
    wire = sent(sending, large, value(2))
    assert receive(receiving, [each for each in wire if shard_of(each)[0] != 1]) == [value(2)]
    receiving.tick(5.0)
    assert receiving.counters.values_incomplete == 0
    receiving.tick(6.5)
    assert receiving.counters.values_incomplete == 1


def test_memory_for_incomplete_blocks_is_bounded() -> None:
    sending, receiving = pair(settings(parity=0), ReceiverLimits(block_bytes=10 * SHARD))
    values = [value(number, 8 * SHARD - 20) for number in range(6)]
    blocks = [sent(sending, each) for each in values]
    assert all(len(block) == 8 for block in blocks)
    for at in range(4):
        for block in blocks:
            receive(receiving, [block[at]])
            held = [
                shard
                for each in receiving._sessions.values()
                for b in each.blocks.values()
                for shard in b.shards
            ]
            assert len(held) <= 10
            assert sum(each.held for each in receiving._sessions.values()) == len(held) * SHARD
    counters = receiving.counters
    assert counters.blocks_lost == counters.blocks_crowded_out > 0
    assert receive(receiving, sent(sending, value(9))) == [value(9)]


def test_memory_for_incomplete_values_is_bounded() -> None:
    sending, receiving = pair(settings(shards=2), ReceiverLimits(value_bytes=5000))
    for number in range(20):
        wire = sent(sending, value(number, 3000))
        receive(receiving, [each for each in wire if shard_of(each)[0] % 5 != 4])
    (each,) = receiving._sessions.values()
    assert each.values._held <= 5000
    assert receiving.counters.values_incomplete >= 10


def test_too_large_a_value() -> None:
    sending, receiving = pair(limits=ReceiverLimits(largest=2000))
    assert receive(receiving, sent(sending, value(1, 2001), value(2, 2000))) == [value(2, 2000)]
    assert receiving.counters.values_oversized == 1


def test_unneeded_parity_is_not_decrypted() -> None:
    sending, receiving = pair()
    wire = sent(sending, value(1, 1000))
    data = data_of(wire)
    assert receive(receiving, data) == [value(1, 1000)]
    for each in wire:
        assert rises(receiving, each) == ({"shards_again"} if each in data else {"shards_spare"})
    assert all(type_of(each) is Type.DATA for each in wire)
