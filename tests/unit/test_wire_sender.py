import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from kit.identifiers import raises
from kit.link_ends import (
    LINK,
    PAYLOAD,
    RECEIVER,
    SENDER,
    SHARD,
    datagrams,
    keys,
    pair,
    receive,
    session,
    settings,
    shard_of,
    type_of,
    value,
)

from aqueduct.common.keys import ReceiverKey
from aqueduct.errors import Refused
from aqueduct.link.wire.datagram import HEADER, NONCE, Type, payload_of, prefix
from aqueduct.link.wire.datagram import KEY as NAMES_KEY
from aqueduct.link.wire.sender import ANNOUNCE_EVERY, OPENING, Session, SessionSettings

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "flush", "due", "end"]),
        st.integers(50, 4000),
        st.sampled_from([0, 0.01, 3.0]),
    ),
    max_size=25,
)


@examples(deadline=None)
@given(steps, st.sampled_from([0, 30]), st.integers(1, 3))
def test_no_nonce_comes_twice_under_one_key(
    steps: list[tuple[str, int, float]], parity: int, interleave: int
) -> None:
    now = 0.0
    sending = session(settings(parity=parity, interleave=interleave, rotate=2.0))
    sends = []
    for number, (step, size, later) in enumerate(steps):
        now += later
        if step == "add":
            sends += sending.add(value(number, size), now)
        elif step == "flush":
            sends += sending.flush()
        elif step == "due":
            sends += sending.due(now, 5000)
        else:
            sends += sending.end(5000)
    all_of = [each[: HEADER.size] for each in datagrams(sends) if type_of(each) is not Type.KEY]
    used = [
        (header[NAMES_KEY], header[NONCE][:2], header[NONCE][4:]) for header in all_of
    ]  # type, shard, counter
    assert len(set(used)) == len(used)
    assert {header[:8] for header in all_of} <= {prefix(LINK)}


def test_sessions_have_neither_names_nor_keys_in_common() -> None:
    first, second = session(), session()
    assert not {each[NAMES_KEY] for each in keys(first)} & {each[NAMES_KEY] for each in keys(second)}
    assert {each.key for each in opened(first)}.isdisjoint({each.key for each in opened(second)})


def opened(of: Session) -> list:  # type: ignore[type-arg]
    from aqueduct.link.wire.key_frame import KeyRing

    ring = KeyRing([RECEIVER], [SENDER.public])
    return [ring.open(each) for each in keys(of, now=50.0)]


def test_a_key_is_announced_before_it_is_used() -> None:
    sending = session(settings(rotate=3.0))
    announced: set[bytes] = set()
    now = 0.0
    while now < 20:
        for each in datagrams([*sending.due(now, 5000), *sending.add(value(1), now), *sending.flush()]):
            if type_of(each) is Type.KEY:
                announced.add(each[NAMES_KEY])
            else:
                assert each[NAMES_KEY] in announced
        assert sending.next_due <= now + ANNOUNCE_EVERY
        now = round(now + 0.1, 1)
    assert sending.key_number == 7
    assert len(announced) == 8


def test_a_new_key_is_announced_at_once() -> None:
    sending = session(settings(rotate=2.25))
    times = {0.0: keys(sending)}
    while (now := sending.next_due) <= 2.25:
        times[now] = keys(sending, now)
    assert len({each[NAMES_KEY] for frames in times.values() for each in frames}) == 3
    assert times[2.25][0] == times[0.0][1]  # the second is current now
    assert times[2.25][1] not in times[0.0]


def test_key_frames_repeat_identically_and_often_initially() -> None:
    sending = session()
    first = keys(sending)
    assert len(first) == 2
    times, now = [], 0.0
    while now < 4.2:
        now = sending.next_due
        if found := keys(sending, now):
            assert found == first
            times.append(round(now, 2))
    assert times == [0.1, 0.2, 0.3, 0.4, 0.5, 1.5, 2.5, 3.5, 4.5]
    assert sending.opens == OPENING


def test_what_lingered_is_sent() -> None:
    sending, receiving = pair(settings(linger=0.02))
    sending.due(0.0, 5000)
    assert sending.add(value(1), 0.01) == []
    assert sending.add(value(2), 0.02) == []
    assert sending.next_due == pytest.approx(0.03)
    assert datagrams(sending.due(0.029, 5000)) == []
    assert receive(receiving, datagrams(sending.due(0.031, 5000))) == [value(1), value(2)]
    assert sending.next_due > 0.031
    assert sending.flush() == []


def test_full_groups_do_not_wait() -> None:
    sending, _ = pair(settings(shards=2, interleave=2))
    assert sending.capacity == 2 * SHARD
    sends = datagrams(sending.add(value(1, 4 * 2 * SHARD), 0.0))
    assert {shard_of(each)[0] for each in sends} == {0, 1, 2, 3}
    assert {shard_of(each)[0] for each in datagrams(sending.flush())} == {4}


def test_lost_send_costs_at_most_half_of_parity() -> None:
    sending, receiving = pair(settings(shards=20, interleave=4, parity=20))
    values = [value(number, 3000) for number in range(20)]
    sends = [send for each in values for send in sending.add(each, 0.0)] + sending.flush()
    found = receive(receiving, datagrams(send for number, send in enumerate(sends) if number % 10))
    assert sorted(found) == sorted(values)
    assert receiving.counters.blocks_repaired > 2


def test_beats_tell_blocks_and_clock() -> None:
    sending, receiving = pair()
    sends = [*sending.add(value(1), 1.0), *sending.flush()]
    (beat,) = [each for each in datagrams(sending.due(1.0, 123_456)) if type_of(each) is Type.BEAT]
    receive(receiving, [beat], 9.0)
    (sight,) = receiving.sessions()
    assert sight.beat == (1, 123_456)
    assert (sight.beat_at, sight.heard, sight.missing) == (9.0, 9.0, 1)
    receive(receiving, datagrams(sends))
    assert receiving.sessions()[0].missing == 0


def test_what_was_sent_is_counted() -> None:
    sending, _ = pair()
    sends = datagrams([*sending.add(value(1, 1000), 0.0), *sending.end(5000)])
    assert (sending.sent.values, sending.sent.blocks) == (1, 1)
    assert sending.sent.datagrams == len(sends) + 3  # two key frames and a beat came before
    assert sending.sent.bytes == sum(map(len, sends)) + 2 * 225 + sending.size


@pytest.mark.parametrize(
    ("changes", "id_", "fact"),
    [
        ({"link": -1}, "link-options-invalid", "-1 "),
        ({"link": 1 << 32}, "link-options-invalid", "4294967296"),
        ({"payload": 63}, "datagram-size-unsuitable", "63 bytes"),
        ({"payload": 65_508}, "datagram-size-unsuitable", "65508 bytes"),
        ({"payload": 239}, "datagram-size-unsuitable", "224"),
        ({"parity": -1}, "link-options-invalid", "parity of -1"),
        ({"parity": 201}, "link-options-invalid", "parity of 201"),
        ({"interleave": 0}, "link-options-invalid", "interleave"),
        ({"interleave": 257}, "link-options-invalid", "interleave"),
        ({"shards": 0}, "link-options-invalid", "0 data shards"),
        ({"shards": 201}, "link-options-invalid", "201 data shards"),
        ({"linger": -0.1}, "link-options-invalid", "linger"),
        ({"rotate": 1.9}, "link-options-invalid", "generateNewSymmetricKeyEvery"),
    ],
)
def test_what_no_link_can_have(changes: dict[str, int], id_: str, fact: str) -> None:
    with raises(Refused, id_) as refused:
        session(settings(**changes))
    assert fact in str(refused.value)


def test_a_hybrid_key_needs_room() -> None:
    hybrid = ReceiverKey.generate().public
    with raises(Refused, "datagram-size-unsuitable") as refused:
        Session(SessionSettings(link=LINK, payload=PAYLOAD), SENDER, hybrid, now=0.0, start=1)
    assert "x25519" in str(refused.value)
    # 1,376 bytes are the least MTU over IPv6.
    Session(SessionSettings(link=LINK, payload=payload_of(1376, 6)), SENDER, hybrid, now=0.0, start=1)
    with pytest.raises(Refused):
        Session(SessionSettings(link=LINK, payload=payload_of(1375, 6)), SENDER, hybrid, now=0.0, start=1)


@pytest.mark.parametrize(
    ("parity", "shards"), [(0, 200), (15, 200), (27, 200), (28, 199), (100, 127), (200, 85)]
)
def test_parity_limits_number_of_data_shards(parity: int, shards: int) -> None:
    sending, receiving = pair(settings(parity=parity, shards=200))
    assert sending.capacity == shards * SHARD
    sends = datagrams([*sending.add(value(1, sending.capacity + 500), 0.0), *sending.flush()])
    assert receive(receiving, sends) == [value(1, sending.capacity + 500)]
