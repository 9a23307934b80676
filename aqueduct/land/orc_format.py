"""The layout of ORC files: their tail, their stripes and streams (ORC specification v1).

Messages are Protocol Buffers, of which only fields are known: their number, their kind, and their value.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import snappy
import zstandard

from aqueduct.kafka.batches import codecs
from aqueduct.land import orc_integers
from aqueduct.land.orc_integers import OrcBytes


class Field(NamedTuple):
    """A field of a message."""

    number: int
    wire: int
    value: int | bytes


ProtoMessage = tuple[Field, ...]
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# Fields of the file's tail.
FOOTER_LENGTH, COMPRESSION, BLOCK, METADATA_LENGTH = 1, 2, 3, 5  # of the postscript
CONTENT_LENGTH, STRIPES, TYPES, STATISTICS, INDEX_STRIDE, CALENDAR = 2, 3, 4, 7, 8, 11  # of the footer
OFFSET, INDEX_LENGTH, DATA_LENGTH, STRIPE_FOOTER_LENGTH = 1, 2, 3, 4  # of a stripe's information
TYPE_KIND, SUBTYPES, FIELD_NAMES = 1, 2, 3  # of a type
TIMESTAMP, DATE = 9, 15  # kinds of types
STREAMS = 1  # of a stripe's footer
STREAM_KIND, COLUMN, LENGTH = 1, 2, 3  # of a stream
DATA, SECONDARY = 1, 5  # kinds of streams
INDEXES = (6, 7, 8)  # kinds of streams that only tell readers what to pass over
PROLEPTIC_GREGORIAN = 2  # a calendar

MOST_BLOCK = 8 << 20  # bytes of a chunk: its length has 23 bits
MOST_STREAM = 128 << 20  # bytes of a stream; ours are written in stripes of 64 MiB
MOST_STRIPE_FOOTER = 4 << 20  # bytes
MOST_FIELDS = (
    1 << 16
)  # of a message, and of all messages of a field: a field takes 2 bytes, and 100 when parsed


def inflated(packed: bytes, most: int) -> bytes:
    """Unpack raw deflate; ValueError if that is damaged, or more than `most` bytes."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        unpacked = inflater.decompress(packed, most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(unpacked) > most or not inflater.eof:
        raise ValueError(f"a chunk is truncated, or decompresses to more than {most:,} bytes")
    return unpacked


_UNPACK: Mapping[int, Callable[[bytes, int], bytes]] = {
    1: inflated,
    2: partial(codecs.decompress, "snappy"),
    5: partial(codecs.decompress, "zstd"),
}
_PACK: Mapping[int, Callable[[bytes], bytes]] = {
    1: lambda plain: zlib.compress(plain, wbits=-zlib.MAX_WBITS),
    2: lambda plain: bytes(snappy.compress(plain)),
    5: lambda plain: zstandard.ZstdCompressor(level=1).compress(plain),
}


@dataclass(frozen=True)
class OrcStream:
    """A stream of a column in a stripe."""

    kind: int
    column: int
    data: OrcBytes  # packed


@dataclass(frozen=True, kw_only=True)
class OrcTail:
    """What stands at the end of a file, and tells where everything is."""

    postscript: ProtoMessage
    footer: ProtoMessage
    metadata: ProtoMessage
    content: int  # bytes before it

    @classmethod
    def of(cls, file_bytes: memoryview) -> "OrcTail":
        """Read the tail of a file; ValueError or IndexError if there is none."""
        size = file_bytes[-1]
        postscript = parse(file_bytes[-1 - size : -1])
        packing = Packing.of(postscript)
        end = len(file_bytes) - 1 - size
        begin = end - one(postscript, FOOTER_LENGTH)
        content = begin - one(postscript, METADATA_LENGTH)
        return cls(
            postscript=postscript,
            footer=parse(packing.unpacked(file_bytes[begin:end])),
            metadata=parse(packing.unpacked(file_bytes[content:begin])),
            content=content,
        )

    @property
    def packing(self) -> "Packing":
        return Packing.of(self.postscript)

    @property
    def types(self) -> list[ProtoMessage]:
        return messages(self.footer, TYPES)

    @property
    def stripes(self) -> list[ProtoMessage]:
        return messages(self.footer, STRIPES)

    def data(self) -> bytes:
        """Return its bytes."""
        packing = self.packing
        footer, metadata = (packing.packed(emit(message)) for message in (self.footer, self.metadata))
        lengths = {FOOTER_LENGTH: len(footer), METADATA_LENGTH: len(metadata)}
        postscript = emit(changed(self.postscript, lengths))
        return metadata + footer + postscript + bytes([len(postscript)])

    def names(self) -> dict[int, str]:
        """Return the names of columns by their numbers; of an array's items that of the array."""
        names: dict[int, str] = {}
        types = self.types
        children = 0
        for number, type_ in enumerate(types):
            fields = [bytes(field.value).decode() for field in type_ if field.number == FIELD_NAMES]
            for index, child in enumerate(_packed_numbers(type_, SUBTYPES)):
                children += 1
                if children >= len(types):  # each but the first one is below one other
                    raise ValueError("its types refer to more types than the file has")
                names[child] = fields[index] if fields else names.get(number, "")
        return names

    def of_rows(self) -> set[int]:
        """Return the columns that have one value at most for a row: others have items of arrays."""
        return set(_packed_numbers(self.types[0], SUBTYPES))


@dataclass(frozen=True)
class Packing:
    """How streams and messages are compressed: in chunks, each behind its length."""

    kind: int  # 0: not at all
    block: int  # bytes of a chunk, at most, when it is unpacked

    @classmethod
    def of(cls, postscript: ProtoMessage) -> "Packing":
        block = one(postscript, BLOCK, 256 << 10)
        if not 0 < block <= MOST_BLOCK:
            raise ValueError(f"its compression block size of {block:,} bytes is not possible")
        return cls(one(postscript, COMPRESSION), block)

    def unpacked(self, packed: OrcBytes, most: int = MOST_STREAM) -> bytes:
        """Return the bytes of a stream or a message; ValueError if they are more than `most`."""
        if not self.kind:
            if len(packed) > most:
                raise ValueError(f"a stream has more than {most:,} bytes")
            return bytes(packed)
        chunks = []
        offset = unpacked = 0
        while offset < len(packed):
            header = int.from_bytes(packed[offset : offset + 3], "little")
            chunk = bytes(packed[offset + 3 : offset + 3 + (header >> 1)])
            chunks.append(chunk if header & 1 else _UNPACK[self.kind](chunk, self.block))
            offset += 3 + (header >> 1)
            unpacked += len(chunks[-1])
            if unpacked > most:
                raise ValueError(f"a stream decompresses to more than {most:,} bytes")
        if offset > len(packed):
            raise ValueError("it ends within a chunk")
        return b"".join(chunks)

    def packed(self, unpacked: bytes) -> bytes:
        if not self.kind:
            return unpacked
        chunks = []
        for first in range(0, len(unpacked), self.block):
            plain = unpacked[first : first + self.block]
            chunk = _PACK[self.kind](plain)
            header = len(chunk) << 1 if len(chunk) < len(plain) else len(plain) << 1 | 1
            chunks += [header.to_bytes(3, "little"), chunk if len(chunk) < len(plain) else plain]
        return b"".join(chunks)


def stripe_footer(file_bytes: memoryview, stripe: ProtoMessage, packing: Packing) -> ProtoMessage:
    end = sum(one(stripe, field) for field in (OFFSET, INDEX_LENGTH, DATA_LENGTH, STRIPE_FOOTER_LENGTH))
    packed = file_bytes[end - one(stripe, STRIPE_FOOTER_LENGTH) : end]
    return parse(packing.unpacked(packed, MOST_STRIPE_FOOTER))


def streams(file_bytes: memoryview, stripe: ProtoMessage, footer: ProtoMessage) -> Iterator[OrcStream]:
    """Yield the streams of a stripe, in their order."""
    offset = one(stripe, OFFSET)
    for stream in messages(footer, STREAMS):
        length = one(stream, LENGTH)
        yield OrcStream(one(stream, STREAM_KIND), one(stream, COLUMN), file_bytes[offset : offset + length])
        offset += length


def parse(encoded: OrcBytes) -> ProtoMessage:
    """Return the fields of a message; ValueError or IndexError if it is none, or has too many."""
    fields: list[Field] = []
    offset = 0
    while offset < len(encoded):
        if len(fields) >= MOST_FIELDS:
            raise ValueError(f"a message has more than {MOST_FIELDS:,} fields")
        tag, offset = orc_integers.varint(encoded, offset)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, offset = orc_integers.varint(encoded, offset)
            fields.append(Field(number, wire, value))
            continue
        if wire == BYTES:
            size, offset = orc_integers.varint(encoded, offset)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"a message has a field of kind {wire}")
        if offset + size > len(encoded):
            raise ValueError("it ends within a field")
        fields.append(Field(number, wire, bytes(encoded[offset : offset + size])))
        offset += size
    return tuple(fields)


def emit(message: Iterable[Field]) -> bytes:
    """Return the bytes of a message."""
    parts = []
    for number, wire, value in message:
        parts.append(_put(number << 3 | wire))
        if isinstance(value, int):
            parts.append(_put(value))
        else:
            parts += [_put(len(value)), value] if wire == BYTES else [value]
    return b"".join(parts)


def one(message: ProtoMessage, number: int, default: int = 0) -> int:
    """Return the value of a number that is there once at most."""
    return next((int(field.value) for field in message if field.number == number), default)


def messages(message: ProtoMessage, number: int) -> list[ProtoMessage]:
    """Return the messages of a field; ValueError if they have too many fields together."""
    found, fields = [], 0
    for field in message:
        if field.number == number:
            found.append(parse(bytes(field.value)))
            fields += len(found[-1])
            if fields > MOST_FIELDS:
                raise ValueError(f"messages have more than {MOST_FIELDS:,} fields")
    return found


def changed(message: ProtoMessage, numbers: Mapping[int, int]) -> ProtoMessage:
    """Return the message with other values of numbers, which it had or not."""
    rest = dict(numbers)
    kept = [
        field._replace(value=rest.pop(field.number)) if field.number in rest else field for field in message
    ]
    return (*kept, *(Field(number, VARINT, value) for number, value in rest.items()))


def with_messages(message: ProtoMessage, number: int, replacements: Iterable[ProtoMessage]) -> ProtoMessage:
    """Return the message with other messages of a field, as many as it had."""
    values = iter(replacements)
    return tuple(
        field._replace(value=emit(next(values))) if field.number == number else field for field in message
    )


def _packed_numbers(message: ProtoMessage, number: int) -> Iterator[int]:
    """Yield numbers of a field, which stand one by one or together."""
    for field in message:
        if field.number != number:
            continue
        if isinstance(field.value, int):
            yield field.value
            continue
        offset = 0
        while offset < len(field.value):
            value, offset = orc_integers.varint(field.value, offset)
            yield value


def _put(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
