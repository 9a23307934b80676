"""The key, the value and the headers in a record's body, for who must tell records apart by them."""

from collections.abc import Sequence

Header = tuple[bytes, bytes | None]  # a name may come several times


def body(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bytes:
    parts = [_field(key), _field(value), put_one(len(headers))]
    return b"".join(parts + [_field(content) for header in headers for content in header])


def key_and_value(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Return a body's key and value; IndexError or ValueError if it isn't a body."""
    key, at = _read(data, 0)
    value, _ = _read(data, at)
    return key, value


def headers(data: bytes) -> list[Header]:
    """Read a record's headers in their order; IndexError or ValueError if this isn't a record's body."""
    at = 0
    for _ in ("key", "value"):
        _, at = _read(data, at)
    number, at = get_one(data, at)
    found: list[Header] = []
    for _ in range(number):
        name, at = _read(data, at)
        if name is None:
            raise ValueError("a header has no name")
        value, at = _read(data, at)
        found.append((name, value))
    return found


def _field(content: bytes | None) -> bytes:
    return put_one(-1) if content is None else put_one(len(content)) + content


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = get_one(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError("a record ends before its value")
    return data[at : at + length], at + length


def put_one(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def get_one(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    IndexError beyond the data; ValueError at a number of more than 64 bits.
    """
    left = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        left |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (left >> 1) ^ -(left & 1), at
    raise ValueError("a number has more than 64 bits")
