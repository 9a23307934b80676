"""Compression as record batches have it.

Java's clients write all formats as streams: unknown lengths, several blocks or frames; the others' shortcuts
(librdkafka's Snappy without framing, Zstandard with the content's size) are read as well.
"""

import struct
import threading
import zlib
from collections.abc import Callable

import lz4.frame
import snappy
import zstandard

CODECS = "none", "gzip", "snappy", "lz4", "zstd"  # in the order of their numbers in a batch's attributes

_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say gzip
_XERIAL = b"\x82SNAPPY\0" + struct.pack(
    ">ii", 1, 1
)  # snappy-java's magic, version, least version that reads it
_XERIAL_BLOCK = 32 << 10
_SIZE = struct.Struct(">I")


class _Zstandard(threading.local):
    """Compressors of one thread: making them takes longer than what they do with a small batch."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstandard = _Zstandard()


def compress(codec: str, data: bytes) -> bytes:
    """Compress so that every version of Kafka's clients can read it."""
    return _COMPRESS[codec](data)


def decompress(codec: str, data: bytes) -> bytes:
    """Decompress; ValueError if `data` isn't complete or of another codec."""
    try:
        return _DECOMPRESS[codec](data)
    except _ERRORS as error:
        raise ValueError(f"{codec} can't decompress it") from error


def _gzip(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=_GZIP)
    return compressor.compress(data) + compressor.flush()


def _snap(data: bytes) -> bytes:
    parts = [_XERIAL]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = snappy.compress(data[start : start + _XERIAL_BLOCK])
        parts += _SIZE.pack(len(block)), block
    return b"".join(parts)


def _lz4(data: bytes) -> bytes:
    """Compress with LZ4; Java's reader refuses blocks that refer to earlier ones."""
    frame: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
    return frame


def _zstd(data: bytes) -> bytes:
    return _zstandard.compressor.compress(data)


def _gunzip(data: bytes) -> bytes:
    parts = []
    while data:
        member = zlib.decompressobj(wbits=_GZIP)
        parts.append(member.decompress(data))
        if not member.eof:
            raise EOFError
        data = member.unused_data
    return b"".join(parts)


def _unsnap(data: bytes) -> bytes:
    if not data.startswith(_XERIAL[:8]):
        block: bytes = snappy.decompress(data)
        return block
    parts = []
    position = 0
    while position < len(data):
        if data.startswith(_XERIAL[:8], position):  # at the start, and again where streams were joined
            position += len(_XERIAL)
            continue
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        parts.append(snappy.decompress(data[position : position + size]))
        position += size
    if position > len(data):
        raise EOFError
    return b"".join(parts)


def _unzstd(data: bytes) -> bytes:
    parts = []
    while data:
        frame = _zstandard.decompressor.decompressobj()
        parts.append(frame.decompress(data))
        if not frame.eof:
            raise EOFError
        data = frame.unused_data
    return b"".join(parts)


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": _gzip,
    "snappy": _snap,
    "lz4": _lz4,
    "zstd": _zstd,
}
_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": _gunzip,
    "snappy": _unsnap,
    "lz4": lz4.frame.decompress,
    "zstd": _unzstd,
}
_ERRORS = EOFError, zlib.error, snappy.UncompressError, RuntimeError, struct.error, zstandard.ZstdError
