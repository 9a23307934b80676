"""Times of ORC files as Java's readers (Hive's, Spark's and Iceberg's) expect them.

pyarrow writes with ORC's C++ library, which differs in three ways (decision 0041):

- Java's readers refuse a file with negative nanoseconds. pyarrow writes them for a time before 1970 with a
  fraction of a second.
- A time before 1970 with more than 999,999 nanoseconds is stored a second later, and readers subtract it
  again. In the last second before 1970 the stored second is 0, and readers do not subtract (ORC-763).
- The footer says which calendar counts the days. Without it, Hive's and Spark's readers take days before
  1582-10-15 for Julian ones. Iceberg's reader uses the days as the library returns them, so the footer of its
  files must not say so.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.kafka.batches.varints import Mask, Numbers
from aqueduct.land import orc_format, orc_integers, types
from aqueduct.land.orc_format import OrcStream, OrcTail, Packing, ProtoMessage

EPOCH = 1_420_070_400  # seconds: 2015-01-01, from which those of a stream count
NANOS = 1_000_000_000
CARRIED = 999_999  # nanoseconds, above which a second before 1970 is written one later
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": NANOS}  # in a second
GREGORIAN = -141_427  # days since 1970: 1582-10-15, the calendar's first
LOST = range(GREGORIAN - 10, GREGORIAN)  # days that the calendar of Spark's library has not
LAST_SECOND = "is in the last second before 1970, which ORC readers read as the next second"
LOST_DAYS = "is on a day from 1582-10-05 to 1582-10-14, which Spark's ORC reader does not support"
TIMESTAMPS = 9  # the field of a column's statistics
LOW, HIGH = 3, 4  # of these
ITEMS_OF_ROW = 1_000  # of a file's arrays, on average
LEAST_ITEMS = 1 << 17  # that the arrays of any file may have
VALUE_BYTES = 32  # a value takes at most, when its stream is unpacked: a run of one
LEAST_BYTES = 1 << 10


class Unwritable(Exception):
    """The end of a file that would have a time for which ORC has no word."""


def unwritable(values: pa.Array, *, iceberg: bool) -> Mapping[str, Mask]:
    """Return which days and times no reader would find again, by the reason; other types have none."""
    none = np.zeros(len(values), np.bool_)
    if pa.types.is_date(values.type):
        days = values.view(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
        last_second = none
    elif pa.types.is_timestamp(values.type):
        second = UNITS[values.type.unit]
        ticks = values.view(pa.int64()).fill_null(0).to_numpy()
        nanos = ticks % second * (NANOS // second)
        last_second = (ticks < 0) & (ticks >= -second) & (nanos > CARRIED)
        days = ticks // (86_400 * second)
    else:
        return {}
    lost = none if iceberg else (days >= LOST.start) & (days < LOST.stop)
    return {reason: mask for reason, mask in ((LAST_SECOND, last_second), (LOST_DAYS, lost)) if mask.any()}


def unwritable_rows(values: pa.Array, *, iceberg: bool) -> Mapping[str, Mask]:
    """Return which rows have such a day or time, an array's items as well, by the reason."""
    if not pa.types.is_list(values.type):
        return unwritable(values, iceberg=iceberg)
    rows_of_items = pc.list_parent_indices(values).to_numpy()
    return {
        reason: np.isin(np.arange(len(values)), rows_of_items[items])
        for reason, items in unwritable(values.flatten(), iceberg=iceberg).items()
    }


def check(table: pa.Table, *, iceberg: bool) -> None:
    """Unwritable if a reader would find another time than the table has."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            for reason in unwritable_rows(chunk, iceberg=iceberg):
                raise Unwritable(f"{name} {reason}")


def has_early_fractions(table: pa.Table) -> bool:
    """Return whether a time is before 1970 and no whole second."""
    for column in table.columns:
        if not pa.types.is_timestamp(types.scalar_of(column.type)):
            continue
        for chunk in column.chunks:
            values = chunk.flatten() if pa.types.is_list(chunk.type) else chunk
            ticks = values.view(pa.int64()).fill_null(0).to_numpy()
            if ((ticks < 0) & (ticks % UNITS[values.type.unit] != 0)).any():
                return True
    return False


def readable(file_bytes: memoryview, *, early_fractions: bool, iceberg: bool) -> Iterator[memoryview | bytes]:
    """Yield the pieces of a file of pyarrow's as Java's readers need it.

    A file with times before 1970 that have a fraction gets other streams for its timestamps, and has no
    index of rows any more, for that would point into the former ones.
    """
    if iceberg and not early_fractions:
        yield file_bytes
        return
    tail = OrcTail.of(file_bytes)
    footer, metadata, content = tail.footer, tail.metadata, tail.content
    if early_fractions:
        yield file_bytes[: orc_format.one(tail.stripes[0], orc_format.OFFSET)]
        stripes = []
        offset = orc_format.one(tail.stripes[0], orc_format.OFFSET)
        for stripe in tail.stripes:
            pieces, written = _with_whole_nanoseconds(file_bytes, stripe, tail, offset)
            yield from pieces
            offset += sum(map(len, pieces))
            stripes.append(written)
        content = offset
        footer = orc_format.with_messages(footer, orc_format.STRIPES, stripes)
        footer = orc_format.changed(footer, {orc_format.INDEX_STRIDE: 0, orc_format.CONTENT_LENGTH: content})
        footer = _with_wide_statistics(footer, orc_format.STATISTICS)
        of_stripes = [_with_wide_statistics(of_stripe, 1) for of_stripe in orc_format.messages(metadata, 1)]
        metadata = orc_format.with_messages(metadata, 1, of_stripes)
    else:
        yield file_bytes[:content]
    if not iceberg:
        footer = orc_format.changed(footer, {orc_format.CALENDAR: orc_format.PROLEPTIC_GREGORIAN})
    yield OrcTail(postscript=tail.postscript, footer=footer, metadata=metadata, content=content).data()


def fault(file_bytes: memoryview, *, rows: int, iceberg: bool) -> str:
    """Return why Java's readers can't read a file of so many rows, or find other times in it.

    Empty: they read it. Nothing of pyarrow has a part in it. Few bytes can stand for very many values, so
    values are read in blocks, and no more than the rows can have.
    """
    try:
        return next(_faults(file_bytes, rows, iceberg), "")
    except (ValueError, IndexError, KeyError) as error:
        return f"it is not a valid ORC file: {error}"


def _faults(file_bytes: memoryview, rows: int, iceberg: bool) -> Iterator[str]:
    tail = OrcTail.of(file_bytes)
    names = tail.names()
    kinds = [orc_format.one(type_, orc_format.TYPE_KIND) for type_ in tail.types]
    calendar = orc_format.one(tail.footer, orc_format.CALENDAR)
    proleptic = calendar == orc_format.PROLEPTIC_GREGORIAN
    stripes = tail.stripes
    if len(stripes) > rows:
        raise ValueError(f"it has {len(stripes):,} stripes for {rows:,} rows")
    of_rows = tail.of_rows()
    left = dict.fromkeys(of_rows, rows)  # values that the other stripes of a column may have
    items = max(LEAST_ITEMS, ITEMS_OF_ROW * rows)  # the same of all other columns together
    for stripe in stripes:
        footer = orc_format.stripe_footer(file_bytes, stripe, tail.packing)
        streams = {
            (stream.column, stream.kind): stream for stream in orc_format.streams(file_bytes, stripe, footer)
        }
        for (column, of), stream in streams.items():
            if of != orc_format.DATA or kinds[column] not in (orc_format.TIMESTAMP, orc_format.DATE):
                continue
            name = names.get(column, "")
            nanos_stream = None
            if kinds[column] == orc_format.TIMESTAMP:
                nanos_stream = streams[column, orc_format.SECONDARY]
            for days, nanos in _blocks(stream, nanos_stream, tail.packing, left.get(column, items)):
                if column in of_rows:
                    left[column] -= len(days)
                else:
                    items -= len(days)
                if nanos_stream:
                    if ((nanos < 0) | (nanos >= NANOS)).any():
                        yield f"{name} has a time whose nanoseconds the readers of Hive and Spark reject"
                    seconds = days + EPOCH
                    days = (seconds - ((seconds < 0) & (nanos > CARRIED))) // 86_400
                if (days < GREGORIAN).any() and proleptic == iceberg:
                    yield f"{name} has days before 1582-10-15, which readers read as other days"
                if not iceberg and ((days >= LOST.start) & (days < LOST.stop)).any():
                    yield f"{name} {LOST_DAYS}"


def _blocks(
    stream: OrcStream, nanos_stream: OrcStream | None, packing: Packing, most: int
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the days or seconds of a column, and its nanoseconds if it has such a stream."""
    unpacked = packing.unpacked(stream.data, _most_bytes(most))
    values = orc_integers.blocks(unpacked, signed=True, most=most)
    if nanos_stream is None:
        for block in values:
            yield block, block
        return
    unpacked = packing.unpacked(nanos_stream.data, _most_bytes(most))
    encoded_nanos = orc_integers.blocks(unpacked, signed=False, most=most)
    for block, encoded in zip(values, encoded_nanos, strict=True):
        if len(block) != len(encoded):
            raise ValueError("a time has no nanoseconds")
        yield block, orc_integers.nanoseconds(encoded)


def _most_bytes(values: int) -> int:
    return min(orc_format.MOST_STREAM, LEAST_BYTES + VALUE_BYTES * values)


def _signed(stream: OrcStream, packing: Packing) -> Numbers:
    return orc_integers.decode(packing.unpacked(stream.data), signed=True)


def _nanos(stream: OrcStream, packing: Packing) -> Numbers:
    return orc_integers.nanoseconds(orc_integers.decode(packing.unpacked(stream.data), signed=False))


def _with_whole_nanoseconds(
    file_bytes: memoryview, stripe: ProtoMessage, tail: OrcTail, offset: int
) -> tuple[list[memoryview | bytes], ProtoMessage]:
    """Return a stripe that begins there, its timestamps as Java has them, and its information."""
    packing = tail.packing
    kinds = [orc_format.one(type_, orc_format.TYPE_KIND) for type_ in tail.types]
    footer = orc_format.stripe_footer(file_bytes, stripe, packing)
    kept = [
        stream
        for stream in orc_format.streams(file_bytes, stripe, footer)
        if stream.kind not in orc_format.INDEXES
    ]
    others = _early_streams(kept, kinds, tail)
    pieces = [others.get((stream.column, stream.kind), stream.data) for stream in kept]
    end = packing.packed(orc_format.emit(_stripe_footer(footer, kept, pieces)))
    lengths = {
        orc_format.OFFSET: offset,
        orc_format.INDEX_LENGTH: 0,
        orc_format.DATA_LENGTH: sum(map(len, pieces)),
        orc_format.STRIPE_FOOTER_LENGTH: len(end),
    }
    return [*pieces, end], orc_format.changed(stripe, lengths)


def _early_streams(
    streams: Sequence[OrcStream], kinds: Sequence[int], tail: OrcTail
) -> dict[tuple[int, int], bytes]:
    """Return the streams, by column and kind, of timestamp columns that have negative nanoseconds."""
    packing = tail.packing
    early: dict[tuple[int, int], bytes] = {}
    seconds = {
        stream.column: stream
        for stream in streams
        if kinds[stream.column] == orc_format.TIMESTAMP and stream.kind == orc_format.DATA
    }
    for stream in streams:
        if stream.kind != orc_format.SECONDARY or stream.column not in seconds:
            continue
        whole, nanos = _signed(seconds[stream.column], packing) + EPOCH, _nanos(stream, packing)
        below = nanos < 0
        if not below.any():
            continue
        nanos = np.where(below, nanos + NANOS, nanos)
        # pyarrow's second is the one after; Java's that, too, where it is read one earlier.
        whole = np.where(below & (nanos <= CARRIED), whole - 1, whole)
        if (below & (nanos > CARRIED) & (whole >= 0)).any():
            raise Unwritable(f"{tail.names().get(stream.column, '')} {LAST_SECOND}")
        early[stream.column, orc_format.DATA] = packing.packed(
            orc_integers.encode(whole - EPOCH, signed=True)
        )
        encoded = orc_integers.encoded_nanoseconds(nanos)
        early[stream.column, orc_format.SECONDARY] = packing.packed(
            orc_integers.encode(encoded, signed=False)
        )
    return early


def _stripe_footer(
    footer: ProtoMessage, streams: Sequence[OrcStream], pieces: Sequence[memoryview | bytes]
) -> ProtoMessage:
    """Return a stripe's footer that lists these streams, with the lengths of their new content."""
    listed = [
        (
            orc_format.Field(orc_format.STREAM_KIND, orc_format.VARINT, stream.kind),
            orc_format.Field(orc_format.COLUMN, orc_format.VARINT, stream.column),
            orc_format.Field(orc_format.LENGTH, orc_format.VARINT, len(piece)),
        )
        for stream, piece in zip(streams, pieces, strict=True)
    ]
    rest = tuple(field for field in footer if field.number != orc_format.STREAMS)
    return (
        *(
            orc_format.Field(orc_format.STREAMS, orc_format.BYTES, orc_format.emit(fields))
            for fields in listed
        ),
        *rest,
    )


def _with_wide_statistics(message: ProtoMessage, number: int) -> ProtoMessage:
    """Return statistics of columns in which bounds of timestamps are a millisecond apart from the values.

    Those that pyarrow tells are cut towards 1970.
    """
    columns = []
    for column in orc_format.messages(message, number):
        if bounds := orc_format.messages(column, TIMESTAMPS):
            low, high = (_unzigzag(orc_format.one(bounds[0], bound)) for bound in (LOW, HIGH))
            wide = tuple(
                orc_format.Field(field, orc_format.VARINT, _zigzag(value))
                for field, value in ((LOW, low - 1), (HIGH, high + 1))
            )
            column = orc_format.with_messages(column, TIMESTAMPS, [wide])
        columns.append(column)
    return orc_format.with_messages(message, number, columns)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
