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
_ZSTD_STEP = _ZSTD_LEAST_BLOCK << 6  # packed bytes, which become 8 MiB at most
_USUAL_RATIO = 20
_FRAME_LEVELS = 3, 1, -5, -20, -100, -500, -5_000, -50_000
_STEP = 1 << 20
_LEAST_PIECE = 1 << 10  # packed bytes that a frame behind another one gets first; then twice as many each
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


def compress(codec: str, plain: bytes) -> bytes:
    """Compress so that every version of Kafka's clients can read it."""
    return _COMPRESS[codec](plain)


def decompress(codec: str, packed: bytes, limit: int = sys.maxsize) -> bytes:
    """Decompress; OverLimit if it is more than `limit` bytes, another ValueError if `packed` is damaged.

    This takes memory for little more than `limit`, whatever the data say.
    """
    try:
        plain = _DECOMPRESS[codec](packed, limit)
        if len(plain) > limit:
            raise OverLimit
    except OverLimit:
        raise OverLimit(f"it decompresses to more than {limit:,} bytes") from None
    except _ERRORS as error:
        raise ValueError(f"{codec} cannot decompress it") from error
    return plain


def compress_frame(plain: bytes | bytearray, limit: Callable[[bytes], int], *, checksum: bool) -> bytes:
    """Compress as one Zstandard frame, at the best level at which `limit` of the frame allows for the data.

    ValueError if no level does: a reader would take such data for a decompression bomb.
    """
    for level in _FRAME_LEVELS:
        packed = zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(plain)
        if len(plain) <= limit(packed):
            return packed
    raise ValueError(f"{len(plain):,} bytes could not be read again")


def decompress_frame(packed: bytes | memoryview, limit: int) -> bytes:
    """Decompress one Zstandard frame whose header states its size.

    OverLimit if the size is more than `limit` bytes, another ValueError if the frame is damaged, larger than
    its header states, or followed by other bytes. This takes memory for the stated size, whatever the blocks
    hold: the output buffer never grows.
    """
    try:
        size = zstandard.frame_content_size(packed)
        if size < 0:
            raise ValueError("its header does not state its size")
        if size > limit:
            raise OverLimit(f"it decompresses to {size:,} bytes, more than the limit of {limit:,} bytes")
        plain: bytes = _zstandard.decompressor.decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    return plain


def _gzip(plain: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=_GZIP)
    return compressor.compress(plain) + compressor.flush()


def _snap(plain: bytes) -> bytes:
    parts = [_XERIAL]
    for start in range(0, len(plain), _XERIAL_BLOCK):
        block = snappy.compress(plain[start : start + _XERIAL_BLOCK])
        parts += _SIZE.pack(len(block)), block
    return b"".join(parts)


def _lz4(plain: bytes) -> bytes:
    """Compress with LZ4; Java's reader refuses blocks that refer to earlier ones."""
    frame: bytes = lz4.frame.compress(plain, block_linked=False, store_size=False)
    return frame


def _zstd(plain: bytes) -> bytes:
    return _zstandard.compressor.compress(plain)


def _none(plain: bytes, _: int) -> bytes:
    return plain


class _Pieces:
    """Packed bytes of several frames, for decompressors that copy the bytes behind a frame.

    If each decompressor got all bytes, many empty frames would cost the square of their number.
    """

    def __init__(self, packed: bytes, most: int) -> None:
        self._packed, self._most = packed, most  # bytes of a piece
        self._position, self._size = 0, most

    def __bool__(self) -> bool:
        return self._position < len(self._packed)

    def has_next(self, magic: bytes) -> bool:
        return self._packed.startswith(magic, self._position)

    def take(self) -> bytes:
        """Return the next piece of a frame. EOFError if there is none."""
        piece = self._packed[self._position : self._position + self._size]
        if not piece:
            raise EOFError
        self._position += len(piece)
        self._size = min(2 * self._size, self._most)
        return piece

    def end_frame(self, unused: bytes | None) -> None:
        """Take back what a decompressor did not use; it is of the next frame."""
        self._position -= len(unused or b"")
        self._size = min(_LEAST_PIECE, self._most)


def _gunzip(packed: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    pieces = _Pieces(packed, len(packed))
    # What follows a member and is none is ignored.
    while pieces and not (parts and not pieces.has_next(_GZIP_MAGIC)):
        member = zlib.decompressobj(wbits=_GZIP)
        while not member.eof:
            parts.append(part := member.decompress(pieces.take(), min(limit + 1, sys.maxsize)))
            limit -= len(part)
            if limit < 0:
                raise OverLimit
        pieces.end_frame(member.unused_data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnap(packed: bytes, limit: int) -> bytes:
    if not packed.startswith(_XERIAL[:8]):
        return _unsnap_block(packed, limit)
    parts = []
    position = 0
    while position < len(packed):
        if packed.startswith(_XERIAL[:8], position):  # at the start, and again where streams were joined
            position += len(_XERIAL)
            continue
        (size,) = _SIZE.unpack_from(packed, position)
        position += _SIZE.size
        parts.append(part := _unsnap_block(packed[position : position + size], limit))
        limit -= len(part)
        position += size
    if position > len(packed):
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
    plain: bytes = snappy.decompress(block)
    return plain


def _unlz4(packed: bytes, limit: int) -> bytes:
    if len(packed) <= limit // _LZ4_RATIO and not _lz4_size(packed):  # which would take memory at once
        plain, used = lz4.frame.decompress(packed, return_bytes_read=True)
        return bytes(plain) if used == len(packed) else _unlz4_frames(packed, limit)
    return _unlz4_frames(packed, limit)


def _unlz4_frames(packed: bytes, limit: int) -> bytes:
    """Unpack frames, also several or those of others that are to be skipped, step by step."""
    parts: list[bytes] = []
    pieces = _Pieces(packed, len(packed))
    step = max(_STEP, 4 * len(packed))
    while pieces:
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            parts.append(frame.decompress(pieces.take() if frame.needs_input else b"", step))
            limit -= len(parts[-1])
            if limit < 0:
                raise OverLimit
        pieces.end_frame(frame.unused_data)
    return b"".join(parts)


def _lz4_size(packed: bytes) -> bool:
    """Return whether a frame tells its content's size: a bit of its fifth byte."""
    return len(packed) > 4 and bool(packed[4] & 0x08)


def _unzstd(packed: bytes, limit: int) -> bytes:
    if len(packed) <= limit // _ZSTD_BLOCK * _ZSTD_LEAST_BLOCK:  # it can't be too much
        return _unzstd_by(len(packed), packed, limit)
    stated_size = zstandard.frame_content_size(packed)
    if stated_size > limit:
        raise OverLimit
    if not _one_frame(packed):  # of several, the decompressor would return the first alone, without an error
        return _unzstd_by(_ZSTD_STEP, packed, limit)
    try:  # at once, what is one frame of data as they usually are
        plain: bytes = _zstandard.decompressor.decompress(
            packed, max_output_size=min(limit, max(_STEP, len(packed) * _USUAL_RATIO)), allow_extra_data=False
        )
    except zstandard.ZstdError:
        return _unzstd_by(_ZSTD_STEP, packed, limit)
    return plain


def _one_frame(packed: bytes) -> bool:
    """Return whether the data are one Zstandard frame of records (RFC 8878), by its blocks' headers."""
    if not packed.startswith(zstandard.FRAME_HEADER):
        return False
    position, last = zstandard.frame_header_size(packed), 0
    while not last:
        if position + _ZSTD_BLOCK_HEADER > len(packed):
            return False
        header = int.from_bytes(packed[position : position + _ZSTD_BLOCK_HEADER], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += _ZSTD_BLOCK_HEADER + (1 if kind == _ZSTD_RLE else size)
    checksum = zstandard.get_frame_parameters(packed).has_checksum
    return position + (_ZSTD_CHECKSUM if checksum else 0) == len(packed)


def _unzstd_by(step: int, packed: bytes, limit: int) -> bytes:
    """Unpack frames in steps of so many packed bytes at most."""
    parts = []
    pieces = _Pieces(packed, step)
    while pieces:
        frame = _zstandard.decompressor.decompressobj()
        while not frame.eof:
            parts.append(part := frame.decompress(pieces.take()))
            limit -= len(part)
            if limit < 0:
                raise OverLimit
        pieces.end_frame(frame.unused_data)
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
