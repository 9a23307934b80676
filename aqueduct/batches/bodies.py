"""The key and the value in a record's body, for who must tell records apart by them."""

from aqueduct.batches.varints import get_one, put_one

NO_HEADERS = put_one(0)


def body(key: bytes | None, value: bytes | None) -> bytes:
    """Of a record without headers."""
    return b"".join((_field(key), _field(value), NO_HEADERS))


def key_and_value(data: bytes) -> tuple[bytes | None, bytes | None]:
    """IndexError or ValueError where the body is none."""
    key, at = _read(data, 0)
    value, _ = _read(data, at)
    return key, value


def _field(content: bytes | None) -> bytes:
    return put_one(-1) if content is None else put_one(len(content)) + content


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = get_one(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError("a record ends before its value")
    return data[at : at + length], at + length
