"""Compression as record batches have it.

Java's clients write all formats as streams: unknown lengths, several blocks or frames; the others' shortcuts
(librdkafka's Snappy without framing, Zstandard with the content's size) are read as well.

Who packs may be anybody, and a few bytes may hold gigabytes: nothing is unpacked beyond a limit.
"""

import struct
import sys
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

# How many bytes one packed byte may become at most; and what an unpacked Zstandard block has at most, which
# takes 4 bytes at least.
_LZ4_RATIO = 255
_ZSTD_BLOCK = 128 << 10
_ZSTD_LEAST_BLOCK = 4
_USUAL_RATIO = 20
_FRAME_LEVELS = 3, 1, -5, -20, -100, -500, -5_000, -50_000
_STEP = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"

# A Zstandard block's header, of three bytes: its lowest bit is set in the last one, two tell its type.
_ZSTD_BLOCK_HEADER = 3
_ZSTD_RLE = 1  # one byte, however long the block is unpacked
_ZSTD_CHECKSUM = 4


class OverLimit(ValueError):
    """Data that unpack to more than they may."""


class _Zstandard(threading.local):
    """Compressors of one thread: making them takes longer than what they do with a small batch."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstandard = _Zstandard()


def compress(codec: str, data: bytes) -> bytes:
    """Compress so that every version of Kafka's clients can read it."""
    return _COMPRESS[codec](data)


def decompress(codec: str, data: bytes, limit: int = sys.maxsize) -> bytes:
    """Decompress; OverLimit if it is more than `limit` bytes, another ValueError if `data` is damaged.

    This takes memory for little more than `limit`, whatever the data say.
    """
    try:
        found = _DECOMPRESS[codec](data, limit)
        if len(found) > limit:
            raise OverLimit
    except OverLimit:
        raise OverLimit(f"unpacks to more than {limit:,} bytes") from None
    except _ERRORS as error:
        raise ValueError(f"{codec} can't decompress it") from error
    return found


def compress_frame(data: bytes | bytearray, limit: Callable[[bytes], int], *, checksum: bool) -> bytes:
    """Compress as one Zstandard frame, at the best level at which `limit` of the frame allows for the data.

    ValueError if no level does: a reader would take such data for a decompression bomb.
    """
    for level in _FRAME_LEVELS:
        packed = zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(data)
        if len(data) <= limit(packed):
            return packed
    raise ValueError(f"{len(data):,} bytes could not be read again")


def decompress_frame(data: bytes | memoryview, limit: int) -> bytes:
    """Decompress one Zstandard frame whose header states its size.

    OverLimit if the size is more than `limit` bytes, another ValueError if the frame is damaged, larger than
    its header states, or followed by other bytes. This takes memory for the stated size, whatever the blocks
    hold: the output buffer never grows.
    """
    try:
        size = zstandard.frame_content_size(data)
        if size < 0:
            raise ValueError("its header does not state its size")
        if size > limit:
            raise OverLimit(f"it unpacks to {size:,} bytes, and {limit:,} at most can be right")
        found: bytes = _zstandard.decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    return found


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


def _none(data: bytes, _: int) -> bytes:
    return data


def _gunzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    # What follows a member and is none is ignored.
    while data and not (parts and not data.startswith(_GZIP_MAGIC)):
        member = zlib.decompressobj(wbits=_GZIP)
        parts.append(part := member.decompress(data, min(limit + 1, sys.maxsize)))
        limit -= len(part)
        if limit < 0:
            break
        if not member.eof:
            raise EOFError
        data = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnap(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL[:8]):
        return _unsnap_block(data, limit)
    parts = []
    position = 0
    while position < len(data):
        if data.startswith(_XERIAL[:8], position):  # at the start, and again where streams were joined
            position += len(_XERIAL)
            continue
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        parts.append(part := _unsnap_block(data[position : position + size], limit))
        limit -= len(part)
        position += size
    if position > len(data):
        raise EOFError
    return b"".join(parts)


def _unsnap_block(block: bytes, limit: int) -> bytes:
    """Unpack a block, which begins with its length in seven bits a byte: memory is taken for it at once."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if length > limit:
        raise OverLimit
    found: bytes = snappy.decompress(block)
    return found


def _unlz4(data: bytes, limit: int) -> bytes:
    if len(data) <= limit // _LZ4_RATIO and not _lz4_size(data):  # which would take memory at once
        found, used = lz4.frame.decompress(data, return_bytes_read=True)
        return bytes(found) if used == len(data) else _unlz4_frames(data, limit)
    return _unlz4_frames(data, limit)


def _unlz4_frames(data: bytes, limit: int) -> bytes:
    """Unpack frames, also several or those of others that are to be skipped, step by step."""
    parts: list[bytes] = []
    step = max(_STEP, 4 * len(data))
    while data:
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            if data:
                parts.append(frame.decompress(data, step))
            elif frame.needs_input:
                raise EOFError
            else:
                parts.append(frame.decompress(b"", step))
            data = b""
            limit -= len(parts[-1])
            if limit < 0:
                raise OverLimit
        data = frame.unused_data or b""
    return b"".join(parts)


def _lz4_size(data: bytes) -> bool:
    """Return whether a frame tells its content's size: a bit of its fifth byte."""
    return len(data) > 4 and bool(data[4] & 0x08)


def _unzstd(data: bytes, limit: int) -> bytes:
    if len(data) <= limit // _ZSTD_BLOCK * _ZSTD_LEAST_BLOCK:  # it can't be too much
        return _unzstd_by(len(data), data, limit)
    told = zstandard.frame_content_size(data)
    if told > limit:
        raise OverLimit
    if not _one_frame(data):  # of several, the decompressor would return the first alone, without an error
        return _unzstd_by(_ZSTD_LEAST_BLOCK << 8, data, limit)
    try:  # at once, what is one frame of data as they usually are
        found: bytes = _zstandard.decompressor.decompress(
            data, max_output_size=min(limit, max(_STEP, len(data) * _USUAL_RATIO)), allow_extra_data=False
        )
    except zstandard.ZstdError:
        return _unzstd_by(_ZSTD_LEAST_BLOCK << 8, data, limit)
    return found


def _one_frame(data: bytes) -> bool:
    """Return whether the data are one Zstandard frame of records (RFC 8878), by its blocks' headers."""
    if not data.startswith(zstandard.FRAME_HEADER):
        return False
    position, last = zstandard.frame_header_size(data), 0
    while not last:
        if position + _ZSTD_BLOCK_HEADER > len(data):
            return False
        header = int.from_bytes(data[position : position + _ZSTD_BLOCK_HEADER], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += _ZSTD_BLOCK_HEADER + (1 if kind == _ZSTD_RLE else size)
    checksum = zstandard.get_frame_parameters(data).has_checksum
    return position + (_ZSTD_CHECKSUM if checksum else 0) == len(data)


def _unzstd_by(step: int, data: bytes, limit: int) -> bytes:
    """Unpack frames in steps of so many packed bytes."""
    parts = []
    while data:
        frame = _zstandard.decompressor.decompressobj()
        for at in range(0, len(data), step):
            parts.append(part := frame.decompress(data[at : at + step]))
            limit -= len(part)
            if limit < 0:
                raise OverLimit
            if frame.eof:
                data = frame.unused_data + data[at + step :]
                break
        else:
            raise EOFError
    return b"".join(parts)


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": _gzip,
    "snappy": _snap,
    "lz4": _lz4,
    "zstd": _zstd,
}
_DECOMPRESS: dict[str, Callable[[bytes, int], bytes]] = {
    "none": _none,
    "gzip": _gunzip,
    "snappy": _unsnap,
    "lz4": _unlz4,
    "zstd": _unzstd,
}
_ERRORS = (
    EOFError,
    MemoryError,
    zlib.error,
    snappy.UncompressError,
    RuntimeError,
    struct.error,
    zstandard.ZstdError,
)
