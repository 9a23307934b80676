import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.identifiers import raises
from pyeclib.ec_iface import ECDriver, ECDriverError

from aqueduct.errors import Failed
from aqueduct.link.wire import erasure
from aqueduct.link.wire.erasure import ALIGNMENT, MOST, MOST_DATA, Code, check, code

sizes = st.integers(1, MOST_DATA).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, MOST - k)))
small = st.integers(1, 12).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, 8)))


@settings(deadline=None)
@given(small | sizes, st.integers(1, 4), st.randoms(use_true_random=False))
def test_any_k_shards_give_the_data(size: tuple[int, int], rows: int, chance: random.Random) -> None:
    k, m = size
    length = rows * ALIGNMENT
    data = chance.randbytes(k * length)
    shards = [data[at : at + length] for at in range(0, len(data), length)] + code(k, m).parity(data)
    assert len(shards) == k + m
    kept = chance.sample(range(k + m), k)
    assert code(k, m).data({number: shards[number] for number in kept}) == data


def product(a: int, b: int) -> int:
    """Multiply in GF(2^8) as docs/link-format.md defines it, bit by bit."""
    result = 0
    while b:
        result ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return result


def test_the_matrix_is_the_specified_one() -> None:
    k, m = 5, 3
    data = bytes(range(1, 1 + k * ALIGNMENT))
    inverse = {a: b for a in range(256) for b in range(256) if product(a, b) == 1}
    expected = []
    for row in range(k, k + m):
        shard = bytearray(ALIGNMENT)
        for column in range(k):
            for at in range(ALIGNMENT):
                shard[at] ^= product(inverse[row ^ column], data[column * ALIGNMENT + at])
        expected.append(bytes(shard))
    assert code(k, m).parity(data) == expected


def test_one_shard_too_few() -> None:
    data = bytes(4 * ALIGNMENT)
    with pytest.raises(ValueError, match="3 of 4"):
        code(4, 2).data(dict(enumerate([data[:ALIGNMENT]] * 3)))


@pytest.mark.parametrize(("k", "m"), [(0, 1), (201, 1), (200, 56), (1, 255), (1, -1)])
def test_no_such_code(k: int, m: int) -> None:
    with pytest.raises(ValueError, match=rf"\b{k} .*(?<!\S){m}\b"):
        Code(k, m)


def test_without_isa_l(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: object) -> ECDriver:
        raise ECDriverError("not there")

    check()
    monkeypatch.setattr(erasure, "ECDriver", none)
    with raises(Failed, "erasure-library-missing"):
        check()
