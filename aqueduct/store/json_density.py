"""Counts the values of JSON before it is parsed: two bytes of JSON can need a hundred in memory."""

ARRAYS = b"[{"  # one for each array or object
VALUES = b"[{,:"  # each value but the first follows one of them


def has_more(text: bytes, signs: bytes, most: int) -> bool:
    """Return whether text has more than `most` of these signs outside of strings."""
    # To leave out strings takes longer than to count.
    return sum(text.count(sign) for sign in signs) > most and _outside(text, signs) > most


def _outside(text: bytes, signs: bytes) -> int:
    """Count signs outside of strings. Of millions of strings, none becomes an object unless it has signs."""
    others = bytes(set(range(256)) - {*signs, *b'"'})
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = plain.translate(bytes.maketrans(signs, b"," * len(signs)), others)
    return sum(map(len, marks.replace(b'""', b"").split(b'"')[::2]))
