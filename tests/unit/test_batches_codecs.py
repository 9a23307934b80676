import gzip
import hashlib
import sys
import time
from contextlib import suppress

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st

from aqueduct.kafka.batches.codecs import CODECS, OverLimit, compress, decompress

LARGE = b"".join(b"line %d of a log\n" % number for number in range(300_000))  # 6 MB
compressing = pytest.mark.parametrize("codec", CODECS[1:])


@given(st.sampled_from(CODECS), st.binary(max_size=200), st.integers(0, 2000))
def test_what_is_compressed_can_be_read(codec: str, part: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, part * times)) == part * times


@compressing
def test_large_data(codec: str) -> None:
    packed = compress(codec, LARGE)
    assert len(packed) < len(LARGE) / 2
    assert decompress(codec, packed) == LARGE


def _zstd_stream(data: bytes) -> bytes:
    """Compress as Java does: the frame doesn't tell the length of its content."""
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(data) + stream.flush()
    assert zstandard.get_frame_parameters(packed).content_size == zstandard.CONTENTSIZE_UNKNOWN
    return packed


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("gzip", gzip.compress(LARGE, 1)),
        ("gzip", gzip.compress(LARGE[:9]) + gzip.compress(LARGE[9:], 1)),
        ("snappy", snappy.compress(LARGE)),  # as librdkafka writes it, without framing
        ("snappy", compress("snappy", LARGE[:9]) + compress("snappy", LARGE[9:])),
        ("lz4", lz4.frame.compress(LARGE, content_checksum=True, block_linked=True)),
        ("zstd", zstandard.ZstdCompressor().compress(LARGE)),
        ("zstd", _zstd_stream(LARGE)),
        ("zstd", _zstd_stream(LARGE[:9]) + _zstd_stream(LARGE[9:])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_writers(codec: str, packed: bytes) -> None:
    assert decompress(codec, packed) == LARGE


SKIPPED = (0x184D2A50).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"  # a frame of others
PART = LARGE[:40_000]


def _zstd_flushed(data: bytes) -> bytes:
    """Compress into a block for each thousand bytes, as a writer that flushes does."""
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    parts = [
        stream.compress(data[at : at + 1000]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(data), 1000)
    ]
    return b"".join(parts) + stream.flush()


@pytest.mark.parametrize("limit", [len(PART), 1 << 20, 64 << 20, sys.maxsize])
@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("zstd", _zstd_stream(PART[:9]) + _zstd_stream(PART[9:])),
        ("zstd", _zstd_stream(PART[:9]) + zstandard.compress(PART[9:])),
        ("zstd", zstandard.compress(PART[:9]) + _zstd_stream(PART[9:])),
        ("zstd", b"".join(_zstd_stream(PART[at : at + 100]) for at in range(0, len(PART), 100))),
        ("zstd", zstandard.compress(b"") + zstandard.compress(PART)),
        ("zstd", _zstd_stream(PART) + zstandard.compress(b"")),
        ("zstd", SKIPPED + _zstd_stream(PART)),
        ("zstd", _zstd_stream(PART[:9]) + SKIPPED + _zstd_stream(PART[9:])),
        ("zstd", _zstd_stream(PART) + SKIPPED),
        ("zstd", _zstd_flushed(PART)),
        ("zstd", _zstd_flushed(PART[:5000]) + _zstd_flushed(PART[5000:])),
        ("lz4", lz4.frame.compress(PART[:9]) + lz4.frame.compress(PART[9:], store_size=False)),
        ("lz4", lz4.frame.compress(PART[:9], store_size=False) + lz4.frame.compress(PART[9:])),
        ("lz4", SKIPPED + lz4.frame.compress(PART, store_size=False)),
        ("gzip", gzip.compress(b"") + gzip.compress(PART)),
        ("gzip", gzip.compress(PART) + bytes(8)),
        ("gzip", gzip.compress(PART) + b"garbage"),
    ],
)
def test_streams_of_several_parts_are_read_whole(codec: str, packed: bytes, limit: int) -> None:
    assert decompress(codec, packed, limit) == PART
    with pytest.raises(OverLimit):
        decompress(codec, packed, len(PART) - 1)


def test_lz4_blocks_are_independent() -> None:
    """Compress into independent blocks, as Java's reader demands."""
    assert not lz4.frame.get_frame_info(compress("lz4", LARGE))["block_linked"]


@compressing
@given(st.data())
def test_cut_data_are_refused(codec: str, data: st.DataObject) -> None:
    packed = compress(codec, bytes(range(256)) * 3)
    length = data.draw(st.integers(1, len(packed) - 1))
    assume(codec != "snappy" or length != 16)  # a stream of no blocks: the missing records will be noticed
    with pytest.raises(ValueError, match=rf"^{codec} "):
        decompress(codec, packed[:length])


@compressing
@given(st.binary(min_size=1, max_size=60))
def test_other_data_raise_nothing_else(codec: str, data: bytes) -> None:
    with suppress(ValueError):
        decompress(codec, data)


def test_snappy_block_of_wrong_length_is_refused() -> None:
    packed = bytearray(compress("snappy", b"abc"))
    packed[16:20] = b"\xff\xff\xff\xf0"
    with pytest.raises(ValueError, match=r"^snappy"):
        decompress("snappy", bytes(packed))


PACKED = {
    "gzip": [gzip.compress(bytes(99_000)) + gzip.compress(bytes(1_000))],
    "snappy": [snappy.compress(bytes(100_000))],
    "lz4": [lz4.frame.compress(bytes(100_000))],  # tells its size
    "zstd": [
        zstandard.compress(bytes(100_000)),  # tells its size
        zstandard.compress(bytes(99_000)) + zstandard.compress(bytes(1_000)),
    ],
}


@compressing
def test_nothing_is_unpacked_beyond_a_limit(codec: str) -> None:
    for packed in (compress(codec, bytes(100_000)), *PACKED[codec]):
        assert decompress(codec, packed, 100_000) == bytes(100_000)
        with pytest.raises(OverLimit, match="99,999 bytes"):
            decompress(codec, packed, 99_999)


@compressing
@given(part=st.binary(min_size=1, max_size=200), times=st.integers(1, 3000), less=st.integers(0, 3))
def test_a_limit_is_exact(codec: str, part: bytes, times: int, less: int) -> None:
    packed, size = compress(codec, part * times), len(part) * times
    if not less:
        assert decompress(codec, packed, size) == part * times
        return
    with pytest.raises(OverLimit):
        decompress(codec, packed, max(0, size - less))


EMPTY_FRAMES = {
    "gzip": ("gzip", gzip.compress(b"", mtime=0)),
    "snappy": ("snappy", b"\0\0\0\1\0"),  # a block, behind its length
    "lz4": ("lz4", lz4.frame.compress(b"", block_linked=False, store_size=False)),
    "lz4 skipped": ("lz4", SKIPPED[:4] + bytes(4)),
    "zstd": ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(b"")),
    "zstd skipped": ("zstd", SKIPPED[:4] + bytes(4)),
}


@pytest.mark.parametrize("limit", [2 << 20, 1 << 40])
@pytest.mark.parametrize("case", EMPTY_FRAMES)
def test_cost_of_many_empty_frames_is_linear(case: str, limit: int) -> None:
    codec, empty = EMPTY_FRAMES[case]
    packed = compress(codec, PART) + empty * ((2 << 20) // len(empty))
    began = time.process_time()
    assert decompress(codec, packed, limit) == PART
    assert time.process_time() - began < 4


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
@given(sizes=st.lists(st.sampled_from([0, 1, 9, 900, 5_000, 70_000]), min_size=1, max_size=9))
def test_frames_of_any_sizes_are_read_whole(codec: str, sizes: list[int]) -> None:
    parts = [hashlib.shake_128(b"").digest(size) for size in sizes]
    packed = b"".join(compress(codec, part) for part in parts)
    for limit in (sum(sizes), 64 << 20):
        assert decompress(codec, packed, limit) == b"".join(parts)
    with pytest.raises(ValueError, match=rf"^{codec} "):
        decompress(codec, packed[:-1])
