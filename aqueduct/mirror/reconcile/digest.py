"""Fingerprints of records, and digests of sequences of them: these are what reconcile compares.

The digest of the fingerprints f1 ... fn is the polynomial f1 B^(n-1) + ... + fn over the integers modulo the
prime 2^61 - 1 (Karp and Rabin). Digests of neighbouring parts join to the digest of the whole, so a partition
can be split over tasks anywhere. Two different sequences have the same digest once in 2^60 or so by chance;
no protection against somebody who makes records for that purpose.
"""

import marshal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain, product, repeat
from operator import methodcaller
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

PRIME = (1 << 61) - 1
BASE = 0x0E4C8F2A9B7D3561  # any number below the prime would do
LOG_APPEND_TIME = 2  # librdkafka's number of the timestamp type
_ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplying by an odd number loses nothing

RecordHeader = tuple[str, bytes]
Fingerprints = NDArray[np.uint64]


class Message(Protocol):
    """The part of confluent-kafka's Message that is used here."""

    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Any: ...  # list of (name, value or None), or None
    def timestamp(self) -> tuple[int, int]: ...
    def offset(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True)
class RecordColumns:
    """Records of one partition in their order, as parallel arrays of length n."""

    contents: Fingerprints  # of key, value and headers
    times: NDArray[np.int64]  # milliseconds since 1970
    offsets: NDArray[np.int64]
    append_times: int  # so many times are the broker's own (LogAppendTime)

    @classmethod
    def of(cls, messages: Sequence[Message], header: RecordHeader | None = None) -> "RecordColumns":
        """Take the messages that carry the header, or all.

        Marshal writes a type and a length before each field, so null, empty and neighbouring fields are told
        apart, and does it in C. Version 2 is the last without references, which differ between equal objects.
        """
        if header:
            messages = [message for message in messages if header in (message.headers() or ())]
        number = len(messages)
        # Iterators all the way: nothing here is interpreted record by record.
        fields = zip(
            *(map(methodcaller(name), messages) for name in ("key", "value", "headers")), strict=True
        )
        contents = map(xxh3_64_intdigest, map(marshal.dumps, fields, repeat(2)))
        times = np.fromiter(
            chain.from_iterable(map(methodcaller("timestamp"), messages)), np.int64, 2 * number
        )
        return cls(
            contents=np.fromiter(contents, np.uint64, number),
            times=times[1::2],
            offsets=np.fromiter(map(methodcaller("offset"), messages), np.int64, number),
            append_times=int((times[0::2] == LOG_APPEND_TIME).sum()),
        )

    def fingerprints(self, with_times: bool) -> Fingerprints:
        """Return one number for each record; without times, records that differ only there have the same."""
        if not with_times:
            return self.contents
        mixed: Fingerprints = self.contents + self.times.astype(np.uint64) * _ODD
        # Not a plain sum: else two records that swapped their times would have the same sum of fingerprints.
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _ODD
        return mixed ^ (mixed >> np.uint64(29))


@dataclass(frozen=True)
class Digest:
    """The digest of a sequence of fingerprints; `a + b` is the digest of a's sequence followed by b's."""

    records: int = 0
    ordered: int = 0  # the polynomial
    unordered: int = 0  # the sum: the same for the same records in another order

    @classmethod
    def of(cls, fingerprints: Fingerprints) -> "Digest":
        digest = cls()
        for start in range(0, len(fingerprints), _BLOCK):
            block = fingerprints[start : start + _BLOCK]
            ordered = _dot(block, _powers()[_BLOCK - len(block) :])
            unordered = _dot(block, np.ones_like(block))
            digest += cls(len(block), ordered % PRIME, unordered % PRIME)
        return digest

    def __add__(self, other: "Digest") -> "Digest":
        moved = self.ordered * pow(BASE, other.records, PRIME)
        return Digest(
            self.records + other.records,
            (moved + other.ordered) % PRIME,
            (self.unordered + other.unordered) % PRIME,
        )


@dataclass(frozen=True, kw_only=True)
class RangeDigest:
    """The result of reading one range: digests with and without the records' times; joins as digests do."""

    timed: Digest = Digest()
    untimed: Digest = Digest()
    append_times: int = 0
    unreadable: str = ""  # the reason why the rest of the range could not be read, as a clause

    @classmethod
    def of(cls, records: RecordColumns) -> "RangeDigest":
        timed, untimed = (Digest.of(records.fingerprints(with_times)) for with_times in (True, False))
        return cls(timed=timed, untimed=untimed, append_times=records.append_times)

    def __add__(self, other: "RangeDigest") -> "RangeDigest":
        return RangeDigest(
            timed=self.timed + other.timed,
            untimed=self.untimed + other.untimed,
            append_times=self.append_times + other.append_times,
            unreadable=self.unreadable or other.unreadable,
        )

    @property
    def records(self) -> int:
        return self.timed.records


_BLOCK = 1 << 14


@cache
def _powers() -> Fingerprints:
    """Return BASE^(n-1), ..., BASE, 1 modulo PRIME, for n = _BLOCK."""
    powers = accumulate(repeat(BASE, _BLOCK - 1), lambda power, base: power * base % PRIME, initial=1)
    return np.fromiter(powers, np.uint64, _BLOCK)[::-1]


def _dot(a: Fingerprints, b: Fingerprints) -> int:
    """Return the exact sum of the products of 64-bit numbers.

    In limbs of 21 bits no sum over _BLOCK overflows.
    """
    limbs = product(enumerate(_limbs(a)), enumerate(_limbs(b)))
    return sum(int(x @ y) << 21 * (i + j) for (i, x), (j, y) in limbs)


def _limbs(numbers: Fingerprints) -> list[Fingerprints]:
    low = np.uint64((1 << 21) - 1)
    return [numbers & low, numbers >> np.uint64(21) & low, numbers >> np.uint64(42)]
