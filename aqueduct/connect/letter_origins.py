"""The origins of many dead-letter records at once, and how many there are of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aqueduct.common.offset_sets import Spans
from aqueduct.connect.dead_letters import CONTEXT
from aqueduct.kafka.batches.batch import Batch, Damaged, damaged, unpack
from aqueduct.kafka.batches.header_positions import HeaderPlaces
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.batches.varints import Bytes, Mask, Numbers

TOGETHER_BYTES = 32 << 20  # of unpacked batches that are read at once
LONGEST = 250  # bytes of a header that tells records apart: whoever wrote it may have put anything there
MOST_ORIGINS = 1_000  # that are counted one by one; the others are counted together

LetterKey = tuple[bytes, bytes, bytes]  # connector, topic, error class


class LetterOrigin(NamedTuple):
    """Where some dead-letter records came from, and why they are ones. Empty: their headers do not say."""

    connector: str
    topic: str
    error_class: str


OTHERS = LetterOrigin("(others)", "(others)", "(others)")


@dataclass(frozen=True, kw_only=True)
class LetterCount:
    """Dead-letter records of one origin. Times: of the records, in milliseconds since 1970; -1 for none."""

    dead_letters: str  # their topic
    origin: LetterOrigin
    records: int
    replayed: int | None  # that were sent back; None: it is not known
    oldest: int
    newest: int


class Letters(NamedTuple):
    """Dead-letter records, and where their headers are."""

    places: RecordPlaces
    headers: HeaderPlaces


class LetterCounts:
    """The numbers of letters of one topic, by their origins."""

    def __init__(self) -> None:
        self._codes = _Codes()
        size = MOST_ORIGINS + 1
        self._records = np.zeros(size, np.int64)
        self._replayed = np.zeros(size, np.int64)
        self._oldest = np.full(size, np.iinfo(np.int64).max)
        self._newest = np.full(size, np.iinfo(np.int64).min)

    def codes(self, letters: Letters) -> Numbers:
        """Return a number for each letter, which those of one origin share."""
        return np.fromiter(map(self._codes.__getitem__, _keys(letters)), np.int64, len(letters.places.times))

    @property
    def origins(self) -> list[LetterOrigin]:
        """Return the origins of all letters so far, up to MOST_ORIGINS."""
        return list(map(_origin, self._codes))

    def add(self, codes: Numbers, times: Numbers, replayed: Mask) -> None:
        np.add.at(self._records, codes, 1)
        np.add.at(self._replayed, codes, replayed)
        np.minimum.at(self._oldest, codes, times)
        np.maximum.at(self._newest, codes, times)

    def chosen(self, takes: Callable[[LetterOrigin], bool]) -> Mask:
        """Return, by code, whether letters of the origins so far are taken."""
        chosen = np.zeros(MOST_ORIGINS + 1, np.bool_)
        chosen[: len(self._codes)] = list(map(takes, self.origins))
        return chosen

    def listed(self, topic: str, *, with_replayed: bool) -> Iterator[LetterCount]:
        origins = dict(enumerate(self.origins)) | {MOST_ORIGINS: OTHERS}
        for code in np.flatnonzero(self._records).tolist():
            yield LetterCount(
                dead_letters=topic,
                origin=origins[code],
                records=int(self._records[code]),
                replayed=int(self._replayed[code]) if with_replayed else None,
                oldest=int(self._oldest[code]),
                newest=int(self._newest[code]),
            )


class _Codes(dict[LetterKey, int]):
    """A number for each origin, in the order of their first letters; the last one is of all further ones."""

    def __missing__(self, key: LetterKey) -> int:
        if len(self) >= MOST_ORIGINS:
            return MOST_ORIGINS
        self[key] = code = len(self)
        return code


def read_letters(
    batches: Sequence[Batch], set_aside: Callable[[Batch, Exception], None]
) -> Iterator[Letters]:
    """Yield the records of batches, many at once; `set_aside` gets each batch that cannot be read."""
    some: list[tuple[Batch, bytes]] = []
    size = 0
    for batch in batches:
        try:
            payload = unpack(batch)
        except Damaged as error:
            set_aside(batch, error)
            continue
        some.append((batch, payload))
        size += len(payload)
        if size > TOGETHER_BYTES:
            yield from _parsed(some, set_aside)
            some, size = [], 0
    yield from _parsed(some, set_aside)


def _parsed(
    some: list[tuple[Batch, bytes]], set_aside: Callable[[Batch, Exception], None]
) -> Iterator[Letters]:
    if not some:
        return
    batches, payloads = map(list, zip(*some, strict=True))
    try:
        places = RecordPlaces.of(batches, payloads)
        letters = Letters(places, HeaderPlaces.of(places))
    except (Damaged, IndexError, ValueError) as error:
        if len(some) == 1:
            set_aside(batches[0], damaged(batches[0], str(error)))
            return
        for pair in some:  # which one?
            yield from _parsed([pair], set_aside)
    else:
        yield letters


def are_replayed(spans: Spans, offsets: Numbers) -> Mask:
    """Return which offsets are in spans."""
    if not spans:
        return np.zeros(len(offsets), np.bool_)
    firsts, lasts = np.array(spans, np.int64).T
    index = np.searchsorted(firsts, offsets, side="right") - 1
    inside: Mask = (index >= 0) & (offsets <= lasts[index])
    return inside


def _keys(letters: Letters) -> Iterator[LetterKey]:
    array = np.frombuffer(letters.places.data, np.uint8)
    names = ("connector.name", "topic", "exception.class.name")
    connectors, topics, classes = (_values(letters, array, f"{CONTEXT}{name}".encode()) for name in names)
    return zip(connectors, topics, classes, strict=True)


def _values(letters: Letters, array: Bytes, name: bytes) -> Iterator[bytes]:
    """Return the last value of a header of each record, of at most LONGEST bytes; empty: it has none."""
    places, headers = letters
    index = np.flatnonzero((headers.ends - headers.begins == len(name)) & ~headers.null)
    names = array[headers.begins[index][:, None] + np.arange(len(name))]
    index = index[(names == np.frombuffer(name, np.uint8)).all(axis=1)]
    begins = np.zeros(len(places.times), np.int64)
    ends = np.zeros(len(places.times), np.int64)
    begins[headers.rows[index]] = headers.value_begins[index]  # the last one is Connect's
    ends[headers.rows[index]] = headers.value_ends[index]
    slices = map(slice, begins.tolist(), np.minimum(ends, begins + LONGEST).tolist())
    return map(places.data.__getitem__, slices)


def _origin(key: LetterKey) -> LetterOrigin:
    connector, topic, error_class = (part.decode(errors="replace") for part in key)
    return LetterOrigin(connector, topic, error_class)
