"""Files of ORC are laid out as Java's readers need them; tests/spark/test_land_orc.py reads with these."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from aqueduct.kafka.batches.varints import Numbers
from aqueduct.land import orc_format, orc_integers, orc_times
from aqueduct.land.declaration import TableKind
from aqueduct.land.files import orc_of, orc_writer
from aqueduct.land.log import AddedFile
from aqueduct.land.orc_format import OrcTail
from aqueduct.land.verify import FilesShare, PlacedFile, read_files

CHANCE = np.random.default_rng(7)
MANY = 3_000
OUTLIERS = CHANCE.random(MANY) < 0.02
# What makes ORC's C++ choose each of its encodings.
SHAPES: dict[str, Numbers] = {
    "random": CHANCE.integers(-(2**63), 2**63 - 1, MANY),
    "ascending": np.cumsum(CHANCE.integers(0, 100, MANY)),
    "descending": -np.cumsum(CHANCE.integers(0, 100, MANY)),
    "steps": np.arange(MANY) * 3 - 5,
    "constant": np.full(MANY, 7, np.int64),
    "repeats": np.repeat(CHANCE.integers(0, 2**30, MANY // 5), 5),
    "outliers": np.where(OUTLIERS, CHANCE.integers(0, 2**40, MANY), CHANCE.integers(0, 200, MANY)),
    "outliers on both sides": np.where(
        OUTLIERS, CHANCE.integers(-(2**40), 2**40, MANY), CHANCE.integers(-200, 200, MANY)
    ),
    "one": np.array([-1]),
}
ODD = [-62_135_596_799_999_999, -1_001_000, -1_999_500, -1_999_000, 5, None]


def written(table: pa.Table, compression: str = "zstd") -> memoryview:
    """Return a file as pyarrow writes it."""
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink, compression=compression)
    return memoryview(sink.getvalue()).cast("B")


def times(micros: list[int | None]) -> pa.Array:
    return pa.array(micros, pa.int64()).view(pa.timestamp("us"))


def data_stream(file: memoryview) -> bytes:
    tail = OrcTail.of(file)
    [stripe] = tail.stripes
    footer = orc_format.stripe_footer(file, stripe, tail.packing)
    [found] = [each for each in orc_format.streams(file, stripe, footer) if each.kind == orc_format.DATA]
    return tail.packing.unpacked(found.data)


@pytest.mark.parametrize("compression", ["zstd", "zlib", "snappy", "uncompressed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_integers_of_the_cpp_writer_are_decoded(shape: str, compression: str) -> None:
    values = SHAPES[shape]
    file = written(pa.table({"n": pa.array(values, pa.int64())}), compression)
    assert np.array_equal(orc_integers.decode(data_stream(file), signed=True), values)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_integers_are_encoded(shape: str, signed: bool) -> None:
    values = SHAPES[shape] if signed else np.abs(SHAPES[shape])
    assert np.array_equal(
        orc_integers.decode(orc_integers.encode(values, signed=signed), signed=signed), values
    )


def test_a_cut_run_is_an_error() -> None:
    data = orc_integers.encode(SHAPES["random"], signed=True)
    with pytest.raises((ValueError, IndexError)):
        orc_integers.decode(data[:-1], signed=True)


def test_nanoseconds_with_and_without_zeros() -> None:
    nanos = np.array(
        [0, 1, 10, 100, 120, 999_999_999, *(10**n for n in range(9)), *(7 * 10**n for n in range(9))]
    )
    assert np.array_equal(orc_integers.nanoseconds(orc_integers.encoded_nanoseconds(nanos)), nanos)
    # As ORC's specification has them: 1,000 nanoseconds are 0x0a, and 100,000 are 0x0c.
    assert orc_integers.encoded_nanoseconds(np.array([1_000, 100_000])).tolist() == [0x0A, 0x0C]


def test_the_fault_of_the_cpp_writer_is_found() -> None:
    """A later pyarrow may write what readers expect, and then nothing needs to be written anew."""
    assert orc_times.fault(written(pa.table({"at": times([-1_500_000])})), rows=1, iceberg=False) == (
        "at has a time whose nanoseconds the readers of Hive and Spark reject"
    )
    of_list = pa.table({"all": pa.array([[0, -1_500_000]]).cast(pa.list_(pa.timestamp("us")))})
    assert orc_times.fault(written(of_list), rows=1, iceberg=True).startswith(
        "all has a time whose nanoseconds"
    )
    early = written(pa.table({"day": pa.array([-200_000], pa.int32()).view(pa.date32())}))
    assert orc_times.fault(early, rows=1, iceberg=False).startswith("day has days before 1582-10-15")
    assert orc_times.fault(early, rows=1, iceberg=True) == ""
    assert orc_times.fault(memoryview(b"ORC" * 9), rows=1, iceberg=False).startswith(
        "it is not a valid ORC file"
    )


def test_more_values_than_rows_are_a_fault() -> None:
    table = pa.table({"day": pa.array([5] * 400_000, pa.int32()).view(pa.date32())})
    assert orc_times.fault(written(table), rows=400_000, iceberg=True) == ""
    assert orc_times.fault(written(table), rows=399_999, iceberg=True).startswith(
        "it is not a valid ORC file"
    )
    of_list = pa.table({"all": pa.array([[5] * 400_000], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))})
    assert orc_times.fault(written(of_list), rows=400, iceberg=True) == ""
    assert orc_times.fault(written(of_list), rows=1, iceberg=True).startswith("it is not a valid ORC file")


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_are_the_values(shape: str) -> None:
    values = np.tile(SHAPES[shape], 70_000 // len(SHAPES[shape]))
    found = list(orc_integers.blocks(orc_integers.encode(values, signed=True), signed=True, most=len(values)))
    assert [len(block) for block in found[:-1]] == [orc_integers.BLOCK] * (len(values) // orc_integers.BLOCK)
    assert np.array_equal(np.concatenate(found), values)
    with pytest.raises(ValueError, match="values"):
        list(orc_integers.blocks(orc_integers.encode(values, signed=True), signed=True, most=len(values) - 1))


@pytest.mark.parametrize("kind", list(TableKind))
def test_orc_times_are_correct_and_pyarrow_agrees(kind: TableKind) -> None:
    near = [each for each in ODD if each is None or each > -9 * 10**15]  # in pyarrow's nanoseconds
    table = pa.table(
        {
            "n": pa.array(range(12), pa.int64()),
            "at": times([*near, *near, None, 0]),
            "all": pa.array([near, None, [], *([near] * 9)], pa.list_(pa.int64())).cast(
                pa.list_(pa.timestamp("us"))
            ),
            "text": ["x" * n for n in range(12)],
        }
    )
    file = orc_of(table, kind)
    assert orc_times.fault(file, rows=12, iceberg=kind is TableKind.ICEBERG) == ""
    read = orc.read_table(pa.BufferReader(file))
    assert read.cast(table.schema).equals(table)
    odd = orc_of(pa.table({"at": times(ODD)}), kind)
    assert orc_times.fault(odd, rows=len(ODD), iceberg=kind is TableKind.ICEBERG) == ""


@pytest.mark.parametrize("micros", [-1, -999_000, -1_000])
def test_time_that_orc_cannot_store_is_refused(micros: int) -> None:
    with pytest.raises(orc_times.Unwritable, match=r"^at .*\b1970\b.*\bORC\b"):
        orc_of(pa.table({"at": times([0, None, micros])}), TableKind.ICEBERG)


def test_several_stripes_are_written_anew() -> None:
    """As a compaction has them, the early times in the second one alone."""
    parts = [pa.table({"at": times([n, -1_500_000 if n == 1 else 1])}) for n in range(3)]
    sink = pa.BufferOutputStream()
    with orc_writer(sink) as writer:
        for part in parts:
            writer.write(part)
    data = memoryview(sink.getvalue()).cast("B")
    file = b"".join(orc_times.readable(data, early_fractions=True, iceberg=False))
    assert orc_times.fault(memoryview(file), rows=6, iceberg=False) == ""
    found = orc.read_table(pa.BufferReader(file)).column("at").cast(pa.timestamp("us")).cast(pa.int64())
    assert found.to_pylist() == [0, 1, 1, -1_500_000, 2, 1]


@pytest.mark.parametrize(
    ("write", "damage"),
    [(written, "at has a time whose nanoseconds"), (lambda table: orc_of(table, TableKind.HIVE), "")],
    ids=["by pyarrow", "by a landing"],
)
def test_verify_names_files_that_readers_can_t_read(
    write: Callable[[pa.Table], memoryview], damage: str, tmp_path: Path
) -> None:
    """Former versions wrote such files, and their tables have them still."""
    own = {"k_topic": ["t"], "k_partition": pa.array([0], pa.int32()), "k_offset": pa.array([5], pa.int64())}
    data = write(pa.table({**own, "at": times([-1_500_000])}))
    (tmp_path / "a.orc").write_bytes(data)
    file = AddedFile(path="a.orc", rows=1, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    found = read_files(FilesShare(tmp_path.as_uri(), (PlacedFile(file, ("a.orc",)),), iceberg=False))
    assert [each.what for each in found.left_out] == (["a.orc"] if damage else [])
    assert all(each.why.startswith(damage) and "land reset" in each.why for each in found.left_out)
    assert list(found.pieces.values()) == [[(5, 5)]]
