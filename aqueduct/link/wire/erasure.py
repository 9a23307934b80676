"""Reed-Solomon parity of a block's shards: any k of its k + m shards give the block back.

ISA-L's Cauchy code over GF(2^8), polynomial 0x11d: parity shard i is the sum over j of data shard j divided
by (k + i) XOR j. ISA-L (through pyeclib) encodes. Its decoder inverts a k x k matrix; since few shards are
lost, it is 10 to 100 times faster to encode again what arrived and to solve the difference for the lost ones.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from pyeclib.ec_iface import ECDriver, ECDriverError

from aqueduct.errors import Failed

MOST_DATA = 200
MOST = 255  # data and parity: as many as the field has divisors
ALIGNMENT = 16  # ISA-L pads shards to that many bytes

Matrix = NDArray[np.uint8]

_POLYNOMIAL = 0x11D
_FRAGMENT_HEADER = 80  # liberasurecode's; of no use here


def _tables() -> tuple[Matrix, list[int]]:
    """Return the product of any two elements; and the inverse of each but 0."""
    powers, power = [], 1
    for _ in range(255):
        powers.append(power)
        power = power << 1 ^ (_POLYNOMIAL if power & 0x80 else 0)
    logs = np.zeros(256, np.intp)
    logs[powers] = np.arange(255)
    product = np.array(powers, np.uint8)[(logs[:, None] + logs) % 255]
    product[0] = product[:, 0] = 0
    return product, [0, *(powers[-logs[element] % 255] for element in range(1, 256))]


_PRODUCT, _INVERSE = _tables()


def possible(k: int, m: int) -> bool:
    return 1 <= k <= MOST_DATA and 0 <= m <= MOST - k


def check() -> None:
    """Check that ISA-L is there; Failed if not."""
    try:
        Code(2, 1).parity(bytes(2 * ALIGNMENT))
    except ECDriverError as error:
        raise Failed(
            "erasure-library-missing",
            f"pyeclib cannot load the library ISA-L, which restores lost datagrams ({error}). Install the "
            "pyeclib wheel from PyPI, which contains ISA-L, or install the package libisal2 (Debian, "
            "Ubuntu).",
        ) from None


class Code:
    """The code of `k` data and `m` parity shards; k = 1: the parity shards are copies."""

    def __init__(self, k: int, m: int) -> None:
        if not possible(k, m):
            raise ValueError(f"no code has {k} data and {m} parity shards")
        self.k, self.m = k, m

    @cached_property
    def _driver(self) -> ECDriver:
        return ECDriver(k=self.k, m=self.m, ec_type="isa_l_rs_cauchy")

    def parity(self, data_shards: bytes) -> list[bytes]:
        """Return the m parity shards of k shards' bytes, whose length must be a multiple of ALIGNMENT."""
        if self.k == 1 or not self.m:
            return [data_shards] * self.m
        fragments: list[bytes] = self._driver.encode(data_shards)
        return [fragment[_FRAGMENT_HEADER:] for fragment in fragments[self.k :]]

    def data(self, shards: Mapping[int, bytes]) -> bytes:
        """Return all data shards in a row, from at least k shards by number; those from k on are parity."""
        lost = [number for number in range(self.k) if number not in shards]
        if not lost:
            return b"".join([shards[number] for number in range(self.k)])
        parity = [number for number in shards if number >= self.k][: len(lost)]
        if len(parity) < len(lost):
            raise ValueError(f"{len(shards)} of {self.k} shards")
        if self.k == 1:
            return shards[parity[0]]
        length = len(shards[parity[0]])
        zeros = bytes(length)
        partial = b"".join([shards.get(number, zeros) for number in range(self.k)])
        encoded = self.parity(partial)
        inverse = _inverted(parity, lost)
        repaired = np.zeros((len(lost), length), np.uint8)
        for column, number in enumerate(parity):
            difference = _bytes(shards[number]) ^ _bytes(encoded[number - self.k])
            repaired ^= _PRODUCT[inverse[:, column]].take(difference, axis=1)
        whole = bytearray(partial)
        for row, number in enumerate(lost):
            whole[number * length : (number + 1) * length] = repaired[row].tobytes()
        return bytes(whole)


@lru_cache(maxsize=256)  # one for each k; the largest take 400 KB
def code(k: int, m: int) -> Code:
    """Return a code from a cache: making one takes longer than using it."""
    return Code(k, m)


def _bytes(shard: bytes) -> Matrix:
    return np.frombuffer(shard, np.uint8)


def _inverted(parity: list[int], lost: list[int]) -> Matrix:
    """Return the inverse of the lost data shards' factors in those parity shards, by Gauss and Jordan.

    Every square part of a Cauchy matrix has one.
    """
    size = len(lost)
    matrix = np.zeros((size, 2 * size), np.uint8)
    matrix[:, :size] = [[_INVERSE[row ^ column] for column in lost] for row in parity]
    matrix[range(size), range(size, 2 * size)] = 1
    for pivot in range(size):
        # No pivot is 0: the leading parts of a Cauchy matrix have inverses, too.
        matrix[pivot] = _PRODUCT[_INVERSE[matrix[pivot, pivot]]][matrix[pivot]]
        factors = matrix[:, pivot].copy()
        factors[pivot] = 0
        matrix ^= _PRODUCT[factors[:, None], matrix[pivot]]
    return matrix[:, size:]
