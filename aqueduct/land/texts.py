"""Text among bytes."""

import numpy as np
import pyarrow as pa

from aqueduct.land.times import Mask


def are_text(values: pa.BinaryArray) -> Mask:
    """Return which values are UTF-8; null is."""
    try:
        values.cast(pa.string())
        return np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        return np.array([_is_text(each) for each in values.to_pylist()], np.bool_)


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
