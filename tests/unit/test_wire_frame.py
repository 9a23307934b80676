import struct
from uuid import UUID

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.link.wire.frame import (
    COMPRESSED,
    FRAME,
    HEADER,
    VERSION,
    Announcement,
    Frame,
    FrameKey,
    Malformed,
    key,
    key_of,
    pack,
    read_key,
    unpack,
)

ID = UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in (".", ".."))
partitions = st.integers(0, 2**31 - 1)
offsets = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)).map(sorted)
frames = st.builds(
    lambda topic, topic_id, partition, range_, batches: Frame(
        topic=topic, topic_id=topic_id, partition=partition, first=range_[0], last=range_[1], batches=batches
    ),
    topics,
    st.uuids(),
    partitions,
    offsets,
    st.binary(max_size=300) | st.binary(max_size=20).map(lambda part: part * 50),
)
announcements = st.builds(
    lambda topic, topic_id, partition, range_, compacted: Announcement(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        first=range_[0],
        end=range_[1],
        compacted=compacted,
    ),
    topics,
    st.uuids(),
    partitions,
    offsets,
    st.booleans(),
)


@given(frames | announcements, st.integers(0, 100))
def test_what_is_unpacked_is_what_was_packed(expected: Frame | Announcement, above: int) -> None:
    value = pack(expected, compress_above=above)
    assert unpack(value) == expected
    assert unpack(memoryview(value)) == expected
    assert key_of(value) == key(expected)


@given(frames)
def test_a_frames_key(frame: Frame) -> None:
    assert read_key(key(frame)) == FrameKey(
        topic=frame.topic, partition=frame.partition, first=frame.first, last=frame.last, announced=False
    )


@given(announcements)
def test_an_announcements_key(told: Announcement) -> None:
    expected = FrameKey(
        topic=told.topic,
        partition=told.partition,
        first=told.first,
        last=told.end - 1,
        announced=True,
        compacted=told.compacted,
    )
    assert read_key(key(told)) == expected


def test_keys_are_readable() -> None:
    assert (
        key(Frame(topic="a_b.c-d", topic_id=ID, partition=3, first=0, last=9, batches=b""))
        == b"a_b.c-d/3/0/9"
    )
    assert (
        key(Announcement(topic="a", topic_id=ID, partition=3, first=5, end=5, compacted=True))
        == b"a/3/5/5/compact"
    )
    assert (
        key(Announcement(topic="a", topic_id=ID, partition=3, first=0, end=9, compacted=False))
        == b"a/3/0/9/delete"
    )


@pytest.mark.parametrize(
    "data", [b"", b"a/1/2", b"a/1/2/3/4", b"a b/1/2/3", b"a/-1/2/3", b"a/1/2/3\n", b"\xff/1/2/3"]
)
def test_no_key(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_key(data)


def test_only_what_gets_smaller_by_it_is_compressed() -> None:
    short, dull, random = b"a" * 100, b"a" * 101, bytes(range(256))
    for batches, above, flags in (
        (short, 100, 0),
        (dull, 100, COMPRESSED),
        (dull, 0, 0),
        (random, 100, 0),
    ):
        value = pack(
            Frame(topic="t", topic_id=ID, partition=0, first=0, last=0, batches=batches), compress_above=above
        )
        assert value[2] == flags


@given(frames | announcements, st.data())
def test_corrupted_value_is_malformed_or_another_valid_value(
    packed: Frame | Announcement, data: st.DataObject
) -> None:
    value = bytearray(pack(packed, compress_above=20))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    value = value[: data.draw(st.integers(0, len(value)))]
    try:
        found = unpack(value, largest=20_000)
    except Malformed:
        return
    assert key_of(value) == key(found)
    assert unpack(pack(found)) == found


@given(st.binary(max_size=120))
def test_noise(value: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(value[:3] + bytes([0]) + value[4:])  # no topic's name is empty


def header(**changes: object) -> bytes:
    fields = {"version": VERSION, "kind": FRAME, "flags": 0, "name": 1, "partition": 0, "id": ID.bytes}
    fields |= {"start": 0, "stop": 0, "length": 0} | changes
    return HEADER.pack(*fields.values())


@pytest.mark.parametrize(
    "value",
    [
        b"",
        header()[:-1],
        header(),
        header(version=2) + b"t",
        header(kind=2) + b"t",
        header(flags=2) + b"t",
        header(partition=-1) + b"t",
        header(start=-1) + b"t",
        header(start=1) + b"t",
        header(length=1) + b"t",
        header() + b"t.",
        header(kind=1, length=1) + b"t.",
        header(name=2) + b"..",
        header(name=2) + b"t/",
        header(name=2) + b"t\xff",
    ],
)
def test_what_is_malformed(value: bytes) -> None:
    with raises(Malformed, "raw-record-malformed"):
        unpack(value)
    with raises(Malformed, "raw-record-malformed"):
        key_of(value)


@pytest.mark.parametrize(
    "body",
    [
        zstandard.compress(bytes(999)),
        zstandard.compress(bytes(1001)),
        zstandard.compress(bytes(1000))[:-1],
        zstandard.compress(bytes(1000)) + b"x",
        zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1000)),
        b"no Zstandard at all",
    ],
)
def test_compressed_batches_contradicting_header_are_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(header(flags=COMPRESSED, length=1000) + b"t" + body)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zstandard.compress(bytes(1 << 20))
    value = header(flags=COMPRESSED, length=1 << 20) + b"t" + bomb
    assert len(unpack(value, largest=1 << 20).batches) == 1 << 20  # type: ignore[union-attr]
    with raises(Malformed, "raw-record-malformed") as malformed:
        unpack(value, largest=(1 << 20) - 1)
    assert "1048575" in str(malformed.value)
    # The same, with a frame that says it has only 1,000 bytes: in 4 bytes after magic and descriptor.
    at = 5
    assert struct.unpack_from("<I", bomb, at) == (1 << 20,)
    lying = bomb[:at] + struct.pack("<I", 1000) + bomb[at + 4 :]
    with pytest.raises(Malformed):
        unpack(header(flags=COMPRESSED, length=1000) + b"t" + lying)


def test_a_window_that_would_take_memory_is_refused() -> None:
    """A frame of 1,000 bytes (as its content's size and its only block say) that wants to look back 64 MiB.

    Only one that is cut off would get them.
    """
    block = (1000 << 3 | 0b011).to_bytes(3, "little") + b"a"
    greedy, modest = (
        bytes.fromhex("28b52ffd") + bytes([0x40, exponent << 3]) + struct.pack("<H", 1000 - 256) + block
        for exponent in (16, 0)
    )
    assert zstandard.decompress(greedy) == zstandard.decompress(modest) == b"a" * 1000
    packed = header(flags=COMPRESSED, length=1000) + b"t"
    for whole in (greedy, modest):
        assert unpack(packed + whole).batches == b"a" * 1000  # type: ignore[union-attr]
    with raises(Malformed, "raw-record-malformed"):
        unpack(packed + greedy[:-1])
