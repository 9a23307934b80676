"""Records of batches as Arrow's columns: what a record says of its fields' lengths is not believed."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body, put_one
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land.records import RecordArrays


def arrays(*bodies: bytes) -> RecordArrays:
    records = Records.listed(Record(1000, offset, each) for offset, each in enumerate(bodies))
    return RecordArrays.of(list(walk(build(records))))


def test_fields_and_headers() -> None:
    read = arrays(body(b"key", b"value", [(b"h", b"1"), (b"h", b"2")]), body(None, b""), body(b"", None))
    assert read.keys.to_pylist() == [b"key", None, b""]
    assert read.values.to_pylist() == [b"value", b"", None]
    assert read.header(b"h").to_pylist() == [b"2", None, None]
    assert read.offsets.tolist() == [0, 1, 2]


@pytest.mark.parametrize("length", [3, 8, 100, 1 << 31, (1 << 63) - 1])
@pytest.mark.parametrize("before", [b"", put_one(1) + b"k"])
def test_field_longer_than_its_record_is_damage(length: int, before: bytes) -> None:
    """Also where it would end in the next record, or so far away that the sum is negative."""
    with raises(Failed, "batch-damaged", "offset 0"):
        arrays(body(b"a", b"b"), before + put_one(length) + b"xy", body(b"c", b"d" * 20))


def test_arrow_imports_no_pandas() -> None:
    assert find_spec("pandas"), "without it this proves nothing"
    said = "import sys, aqueduct.land, pyarrow; pyarrow.array([1]); print('pandas' in sys.modules)"
    argv = [sys.executable, "-c", f"{said}; import pandas"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "False\n"
