"""PyIceberg's codecs with a limit: its own unpack whatever a manifest's block or a metadata file holds."""

import bz2
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

from pyiceberg import serializers
from pyiceberg.avro import codecs as avro
from pyiceberg.avro.codecs.codec import Codec

from aqueduct.kafka.batches import codecs
from aqueduct.land.orc_format import inflated

MOST_BLOCK = 64 << 20  # bytes of a block of an Avro file; PyIceberg and Java write blocks of some KB
MOST_METADATA = 256 << 20  # bytes of a table's metadata, which are JSON


class LimitedGzip(serializers.GzipCompressor):
    """The codec of metadata files that end with .gz.metadata.json."""

    def stream_decompressor(self, inp: Any) -> Any:
        return BytesIO(codecs.decompress("gzip", inp.read(), MOST_METADATA))


def use_limits() -> None:
    """Give PyIceberg the codecs of this module."""
    serializers.GzipCompressor = LimitedGzip  # type: ignore[misc]
    for name, unpack in _UNPACK.items():
        if codec := avro.KNOWN_CODECS.get(name):
            avro.KNOWN_CODECS[name] = _limited(codec, unpack)


def _limited(codec: type[Codec], unpack: Callable[[bytes], bytes]) -> type[Codec]:
    class Limited(codec):  # type: ignore[misc, valid-type]
        @staticmethod
        def decompress(data: bytes) -> bytes:
            return unpack(data)

    return Limited


def _bzip2(block: bytes) -> bytes:
    unpacker = bz2.BZ2Decompressor()
    unpacked = unpacker.decompress(block, MOST_BLOCK + 1)
    if len(unpacked) > MOST_BLOCK or not unpacker.eof:
        raise ValueError(f"a block is truncated, or decompresses to more than {MOST_BLOCK:,} bytes")
    return unpacked


def _snappy(block: bytes) -> bytes:
    unpacked = codecs.decompress("snappy", block[:-4], MOST_BLOCK)
    if zlib.crc32(unpacked) != int.from_bytes(block[-4:]):
        raise ValueError("a block is damaged: its CRC does not match its content")
    return unpacked


_UNPACK: dict[avro.AvroCompressionCodec, Callable[[bytes], bytes]] = {
    "bzip2": _bzip2,
    "deflate": lambda block: inflated(block, MOST_BLOCK),
    "snappy": _snappy,
    "zstandard": lambda block: codecs.decompress("zstd", block, MOST_BLOCK),
}
