"""The key, the value and the headers in a record's body, for who must tell records apart by them."""

from collections.abc import Sequence

Header = tuple[bytes, bytes | None]  # a name may come several times


def body(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bytes:
    parts = [_field(key), _field(value), put_one(len(headers))]
    return b"".join(parts + [_field(content) for header in headers for content in header])


def key_and_value(encoded: bytes) -> tuple[bytes | None, bytes | None]:
    """Return a body's key and value; IndexError or ValueError if it isn't a body."""
    key, position = _read(encoded, 0)
    value, _ = _read(encoded, position)
    return key, value


def headers(encoded: bytes) -> list[Header]:
    """Read a record's headers in their order; IndexError or ValueError if this isn't a record's body."""
    position = 0
    for _ in ("key", "value"):
        _, position = _read(encoded, position)
    number, position = get_one(encoded, position)
    pairs: list[Header] = []
    for _ in range(number):
        name, position = _read(encoded, position)
        if name is None:
            raise ValueError("a header has no name")
        value, position = _read(encoded, position)
        pairs.append((name, value))
    return pairs


def _field(content: bytes | None) -> bytes:
    return put_one(-1) if content is None else put_one(len(content)) + content


def _read(encoded: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = get_one(encoded, position)
    if length < 0:
        return None, position
    if position + length > len(encoded):
        raise ValueError("a record ends before its value")
    return encoded[position : position + length], position + length


def put_one(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def get_one(encoded: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    IndexError beyond the data; ValueError at a number of more than 64 bits.
    """
    left = 0
    for shift in range(0, 70, 7):
        byte = encoded[position]
        position += 1
        left |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (left >> 1) ^ -(left & 1), position
    raise ValueError("a number has more than 64 bits")
