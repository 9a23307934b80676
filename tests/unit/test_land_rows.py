"""Records as Kafka has them become rows and bad rows; what is read back of the ORC files is judged."""

import json
import random
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from kit.identifiers import raises
from pyarrow import orc

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import LOG_APPEND_TIME, walk
from aqueduct.kafka.batches.bodies import Header, body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land import declaration, log
from aqueduct.land.files import NO_DAY, RowBuffer
from aqueduct.land.records import RecordArrays
from aqueduct.land.rows import RowReader, schema

Row = dict[str, Any]
# pyarrow reads ORC's times in nanoseconds, whatever was written: so it has none before 1677 and after 2262.
MICROS = {pa.timestamp("ns"): pa.timestamp("us"), pa.list_(pa.timestamp("ns")): pa.list_(pa.timestamp("us"))}


class Landed(NamedTuple):
    """What the files of some records hold, of each folder."""

    folders: dict[str, list[Row]]
    bad: list[Row]
    tombstones: int
    late: list[Row]  # that are also in their folders

    def values(self, column: str) -> list[Any]:
        return [row[column] for rows in self.folders.values() for row in rows]

    @property
    def errors(self) -> dict[int, str]:
        return {row["k_offset"]: row["error"] for row in self.bad}


def land(data: bytes | bytearray, *columns: Row, read: list[str] | None = None, **table: Any) -> Landed:
    """Land one fetch of a partition; only columns `read` of its rows are read back, if they are given."""
    content = {"table": "a.b", "topics": ["t"], "columns": list(columns), **table}
    [declared] = declaration.parse([content], "lake.yml")
    buffer = RowBuffer(declared)
    rows = RowReader(declared).read(TopicPartition("t", 3), RecordArrays.of(list(walk(data))))
    buffer.add(rows)
    landed = Landed({}, [], rows.tombstones, [])
    for file in buffer.files():
        found = orc.read_table(pa.BufferReader(file.data), columns=None if file.ending == log.BAD else read)
        found = found.cast(pa.schema([(of.name, MICROS.get(of.type, of.type)) for of in found.schema]))
        assert found.num_rows == file.rows > 0
        if file.ending == log.BAD:
            landed.bad.extend(found.to_pylist())
        else:
            assert read or found.schema == schema(declared)
            landed.folders[file.folder] = landed.folders.get(file.folder, []) + found.to_pylist()
            landed.late.extend(found.to_pylist() if file.ending == log.LATE else [])
    return landed


def batch(values: Iterable[bytes | None]) -> bytearray:
    return batch_of(Record(1_000 + n, n, body(None, value)) for n, value in enumerate(values))


def batch_of(records: Iterable[Record], attributes: int = 0) -> bytearray:
    return build(Records.listed(records), codec="zstd", attributes=attributes)


Cases = dict[str, Any]
BAD = "a rejected record"
MOMENT, NEW_YEAR = datetime(2013, 1, 2, 4, 0), datetime(1970, 1, 1)
LAST = datetime(1969, 12, 31, 23, 59, 59)
WRONG = ["{}", '"12"', '""', "NaN", "-Infinity", "Infinity", "nul", "01", "1 2"]  # for whatever isn't text
WRONG_TIMES = ['"x"', '""', '"2013-02-29"', '"0000-01-01"', '"10000-01-01"', "5", "true", "{}"]


def some(good: Cases, *wrong: str) -> Cases:
    return good | dict.fromkeys(wrong, BAD)


def whole(bits: int) -> Cases:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    outside = map(str, (low - 1, high + 1, 10**40))
    good: Cases = {str(each): each for each in (1, -1, 0, low, high)}
    return some(good, *WRONG, *outside, "1.5", "1.0", "1e2", "1e400", "true")


def epochs(scale: int) -> Cases:
    edges = [-62_135_596_800 * scale - 1, 253_402_300_800 * scale, -(2**63), 2**63 - 1, 2**63]
    good: Cases = {str(1_357_099_200 * scale): MOMENT, "0": NEW_YEAR, str(-scale): LAST}
    return some(good, *WRONG, *map(str, edges), "1.5", "true", '"2013-01-02"')


HALF = Decimal("0.50000000000000000000000000000000000000")
MAX = 3.4028234663852886e38  # of a float
TYPES: dict[str, Cases] = {
    "boolean": some({"true": True, "false": False}, *WRONG, "0", "1", '"true"'),
    "tinyint": whole(8),
    "smallint": whole(16),
    "int": whole(32),
    "bigint": whole(64),
    "float": some(
        {"1": 1.0, "-1.5e1": -15.0, "0.1": float(np.float32(0.1)), str(MAX): MAX, str(-MAX): -MAX},
        *(*WRONG, "3.5e38", "-1e39", "1e400", "true"),
    ),
    "double": some(
        {"1": 1.0, "0.1": 0.1, "-1.7976931348623157e308": -1.7976931348623157e308, "5e-324": 5e-324},
        *(*WRONG, "1e400", "-1e400", "1" + "0" * 400, "false"),
    ),
    "decimal(5,2)": some(
        {text: Decimal(text).quantize(Decimal("0.01")) for text in ("1", "-999.99", "999.9", "1e2")}
        | {'"12"': Decimal("12.00"), '"1.5"': Decimal("1.50")},
        *(each for each in WRONG if each != '"12"'),
        *('"x"', "1000", "-1000.00", "99999", "1e3", "123456", "0.001", "1e400", "true"),
    ),
    "decimal(38,38)": some(dict.fromkeys(("0.5", '"0.5"'), HALF), "1", "5"),
    "string": some(
        {'"x"': "x", '""': "", r'"\n\u0000\ud83d\ude00"': "\n\0\N{GRINNING FACE}", '"ü"': "ü", '"12"': "12"},
        *("12", "true", "{}", "x", "'x'", '"x'),
    ),
    "binary": some({'"x"': b"x", '""': b"", '"ü"': "ü".encode()}, "12", "true", "{}", '"x'),
    "date": some(
        {'"2024-02-29"': date(2024, 2, 29), '"0001-01-01"': date.min, '"9999-12-31"': date.max},
        *(*WRONG_TIMES, '"2024-02-29T00:00:00"', '"2024-2-9"'),
    ),
    "timestamp": some(
        {f'"2013-01-02{text}"': MOMENT for text in ("T04:00:00", " 05:30:00.000+01:30", "T04:00Z")}
        | {'"1969-12-31T23:59:58.999999Z"': LAST.replace(second=58, microsecond=999_999)}
        | {'"1969-12-31T23:59:59.000999Z"': LAST.replace(microsecond=999)}
        | {'"1700-10-04T23:59:59.5Z"': datetime(1700, 10, 4, 23, 59, 59, 500_000)},
        *(*WRONG_TIMES, '"2013-01-02T04:00:00+19:00"', '"0001-01-01T00:00:00+00:01"'),
    ),
    "timestamp zone America/New_York": some(
        {'"2013-01-01T23:00:00"': MOMENT, '"2013-01-02T04:00:00Z"': MOMENT}
        | {'"2013-03-10T02:30"': datetime(2013, 3, 10, 7, 30)}  # that the clock skips
        | {'"2013-11-03T01:30"': datetime(2013, 11, 3, 5, 30)},  # that comes twice
        *(*WRONG_TIMES, '"9999-12-31T20:00:00"'),
    ),
    "timestamp unit s": epochs(1),
    "timestamp unit ms": epochs(1_000),
    "timestamp unit us": epochs(1_000_000),
}  # fmt: skip


def in_arrays(cases: Cases) -> Cases:
    first, *_ = cases
    right = [text for text in cases if cases[text] is not BAD]
    good: Cases = {f"[{text},null,{first}]": [cases[text], None, cases[first]] for text in right}
    wrong = [f"[null,{first},{text}]" for text in cases if text not in right]
    return some(good | {"[]": [], "[null]": [None]}, first, "{}", f"[[{first}]]", *wrong)


# What a reason names: the path, or where Arrow does not tell it, the value.
TOLD = ("a.c", "is not a value of type", "has too many digits for the decimal column", "Number too big")


@pytest.mark.parametrize("array", [False, True], ids=["scalar", "array"])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("judged", ["values", "reasons"])
def test_each_type(type_: str, array: bool, judged: str) -> None:
    """Good and wrong ones side by side, with nothing and null between them."""
    name, *more = type_.split()
    column = {"name": "c", "type": f"array<{name}>" if array else name, "from": "a.c"}
    cases = in_arrays(TYPES[type_]) if array else some(TYPES[type_], f"[{next(iter(TYPES[type_]))}]")
    values = {b'{"o": [{}], "a": {"c": %b}}' % text.encode(): case for text, case in cases.items()}
    nulls = [b"{}", b'{"a": {"c": null}}', b'{"a": null}', b'{"a": {}}']
    every = [each for n, value in enumerate(values) for each in (value, nulls[n % 4])]
    landed = land(batch(every), column | dict([more] if more else []))
    if judged == "reasons":
        told = [(row["value"], row["error"]) for row in landed.bad if is_json(row["value"])]
        assert [(value, error) for value, error in told if not any(each in error for each in TOLD)] == []
        return
    read = dict(zip(landed.values("k_offset"), landed.values("c"), strict=True))
    read |= dict.fromkeys(landed.errors, BAD)
    wanted = [(value, values.get(value)) for value in every]
    found = [(value, read[n]) for n, value in enumerate(every)]
    assert [each for each, right in zip(found, wanted, strict=True) if repr(each) != repr(right)] == []
    assert [row["value"] for row in landed.bad] == [value for value, right in wanted if right is BAD]


def is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=int), dict)  # no number is made of NaN
    except ValueError:
        return False


HOSTILE = {
    "it is not a JSON object": [b"", b" ", b"null", b"5", b'"x"', b"[]", b"\xff"],
    "it begins with a byte order mark": [b"\xef\xbb\xbf{}"],
    "it ends with a zero byte": [b"{}\0"],
    "a is of type": [b'{"a": 5}', b'{"a": []}', b'{"a": "x"}', b'{"a": false}'],
    "a exists twice": [b'{"a": {}, "a": {}}', b'{"a": null, "a": {}}', b'{"\\u0061": {}, "a": null}'],
    "a.c exists twice": [b'{"a": {"c": null, "c": null}}', b'{"a": {"c": null, "\\u0063": null}}'],
    "it is not JSON": [b'{"a": {}', b"{}}", b"{,}", b'{"a"}', b"{'a': {}}", b'{"a": {},}', b"{", b"{]"],
    "it ": [b"{}{}", b'{} {"a": {}}', b"{}\n{}", b"{} x", b"{},{}"],
    "it is not valid UTF-8": [b'{"x": "\xff"}', b'{"\xc3": 1}', b'{"a": {"c": "\xed\xa0\x80"}}'],
    "surrogate": [b'{"a": {"c": "\\ud800"}}'],
}


@pytest.mark.parametrize("type_", ["bigint", "string", "array<timestamp>"])
def test_records_that_are_wrong_whatever_the_type(type_: str) -> None:
    said = {value: reason for reason, values in HOSTILE.items() for value in values}
    every = [each for value in said for each in (value, b"{}")]
    landed = land(batch(every), {"name": "c", "type": type_, "from": "a.c"})
    assert landed.values("k_offset") == list(range(1, len(every), 2))
    assert [row["value"] for row in landed.bad] == list(said)
    assert [row for row in landed.bad if said[row["value"]] not in row["error"]] == []


FIELD = {"name": "c", "type": "bigint"}


def test_fields_that_no_column_takes_are_passed_over() -> None:
    others = [b"1" + b"0" * 300, b'1, "o": "x"', b"[[{}]]", b"1e-999"]
    too_much = [b"1e400", b'{"x": [-1e400]}', b'"\\ud800"']
    landed = land(batch([b'{"c": 1, "o": %b}' % each for each in (*others, *too_much)]), FIELD)
    assert landed.values("k_offset") == list(range(len(others)))
    assert [*landed.errors] == list(range(len(others), len(others) + len(too_much)))


OTHERS = [
    {"name": "k", "type": "string", "from": "$key"},
    {"name": "raw", "type": "binary", "from": "$key"},
    {"name": "h", "type": "string", "from": "$headers.x"},
    {"name": "b", "type": "binary", "from": "$headers.y.z"},
]
AT = {"name": "at", "type": "timestamp", "from": "$timestamp"}
beside = pytest.mark.parametrize("more", [[], [FIELD]], ids=["alone", "beside a field"])


@beside
def test_keys_and_headers(more: list[Row]) -> None:
    records: list[tuple[bytes | None, list[Header]]] = [
        (b"k", [(b"x", b"1"), (b"y.z", b"\xff"), (b"x", b"2"), (b"y.z", b"\xfe"), (b"X", b"3")]),
        (None, []),
        (b"", [(b"x", b""), (b"x", None), (b"y.z", None), (b"y.z", b"")]),
        (b"k\xff", []),
        (b"k4", [(b"x", b"\xff")]),
        (b"k5", [(b"x", b"\xff"), (b"x", "ü".encode())]),
    ]
    data = batch_of(Record(n, n, body(key, b"{}", got)) for n, (key, got) in enumerate(records))
    landed = land(data, *OTHERS, *more)
    read = [landed.values(name) for name in ("k_offset", "k", "raw", "h", "b")]
    assert list(zip(*read, strict=True)) == [
        (0, "k", b"k", "2", b"\xfe"),
        (1, None, None, None, None),
        (2, "", b"", None, b""),
        (5, "k5", b"k5", "ü", None),
    ]
    assert [(row["k_offset"], row["key"]) for row in landed.bad] == [(3, b"k\xff"), (4, b"k4")]
    assert "$key" in landed.errors[3]
    assert "$headers.x" in landed.errors[4]


def test_names_with_dots() -> None:
    columns = [
        {"name": "dotted", "type": "bigint", "from": r"a\.b"},
        {"name": "nested", "type": "bigint", "from": "a.b"},
        {"name": "below", "type": "timestamp", "from": r"x.y\.z\.w"},
    ]
    records = [b'{"a.b": 1, "a": {"b": 2}, "x": {"y.z.w": "2013-01-02T04:00:00"}}', b'{"x": {"y.z.w": "?"}}']
    landed = land(batch(records), *columns)
    assert [landed.values(name) for name in ("dotted", "nested", "below")] == [[1], [2], [MOMENT]]
    assert landed.errors == {1: r"x.y\.z\.w is not a value of type timestamp"}


@pytest.mark.parametrize(
    ("value", "more"), [(b'"2013-01-02T04:00:00.000000%03d"', {}), (b"1357099200000000%03d", {"unit": "ns"})]
)
def test_nanoseconds_are_rejected_or_cut(value: bytes, more: Row) -> None:
    column = {"name": "c", "type": "timestamp", **more}
    data = batch(b'{"c": %b}' % (value % nanos) for nanos in (0, 1, 999))
    landed = land(data, column)
    assert landed.values("c") == [MOMENT]
    said = (
        "c has nanoseconds, but a column has only microseconds; to cut the nanoseconds, declare "
        "nanoseconds: cut"
    )
    assert landed.errors == {1: said, 2: said}
    assert land(data, {**column, "nanoseconds": "cut"}).values("c") == [MOMENT] * 3


def test_what_writers_put_around_json() -> None:
    column = {"name": "c", "type": "bigint"}
    bom, plain = "\ufeff".encode(), b'{"c": 1}'
    values = [plain, bom + plain, plain + b"\0", bom + plain + b"\0\0", b"\0", bom, b'{"c": 1}\0{}', None]
    landed = land(batch(values), column)
    assert landed.values("k_offset") == [0]
    assert [landed.errors[n].partition(";")[0] for n in (1, 2, 3)] == [
        "it begins with a byte order mark",
        "it ends with a zero byte",
        "it begins with a byte order mark",
    ]
    stripped = land(batch(values), column, strip=["bom", "nul"])
    assert stripped.values("k_offset") == [0, 1, 2, 3]
    assert sorted(stripped.errors) == [4, 5, 6]
    assert [row["value"] for row in stripped.bad] == values[4:7]
    assert land(batch(values), column, strip=["nul"]).values("k_offset") == [0, 2]


@beside
def test_nothing_but_tombstones(more: list[Row]) -> None:
    kept = land(batch([None, None]), *OTHERS, *more, tombstones="keep")
    assert (kept.values("k_tombstone"), kept.values("k_offset"), kept.bad) == ([True, True], [0, 1], [])
    assert land(batch([None, None]), *OTHERS, *more) == ({}, [], 2, [])


@beside
@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_times_of_kafka(attributes: int, more: list[Row]) -> None:
    every = zip([1_357_099_200_123, -1, 0, -1], [b"{}", b"{}", b"{}", b"x"], strict=True)
    records = (Record(at, n, body(b"k", value)) for n, (at, value) in enumerate(every))
    landed = land(batch_of(records, attributes), AT, *more)
    first = MOMENT.replace(microsecond=123_000)
    times = [first] * 4 if attributes else [first, None, NEW_YEAR, None]
    assert landed.values("at") == landed.values("k_timestamp") == times[:3]
    assert [row["k_timestamp"] for row in landed.bad] == times[3:]


@pytest.mark.parametrize("at", [253_402_300_800_000, 2**61, 2**63 - 1])
def test_a_time_of_kafka_after_all_years(at: int) -> None:
    """A producer writes what it likes, such as microseconds."""
    data = batch_of([Record(0, 0, body(None, b"{}")), Record(at, 1, body(None, b"{}"))])
    assert land(data, FIELD).values("k_timestamp") == [NEW_YEAR, None]
    landed = land(data, AT, FIELD)
    assert landed.values("k_offset") == [0]
    assert "$timestamp" in landed.errors[1]


@pytest.mark.parametrize("at", [-2, -999, -12_219_379_200_000])
def test_unreadable_kafka_time_is_null_or_bad_record(at: int) -> None:
    """It is none in k_timestamp; of a column it makes a rejected record, as it does in a value."""
    data = batch_of([Record(-1_000, 0, body(None, b"{}")), Record(at, 1, body(None, b"{}"))])
    assert land(data, FIELD).values("k_timestamp") == [LAST, None]
    landed = land(data, AT, FIELD)
    assert landed.values("at") == [LAST]
    assert landed.errors[1].startswith("$timestamp is ")


@pytest.mark.parametrize("tombstones", ["keep", "drop"])
def test_every_record_is_somewhere_in_order(tombstones: str) -> None:
    """Of batches that were compacted; more records than the reader takes at once."""
    chance = random.Random(13)  # noqa: S311
    offsets = np.cumsum([chance.choice([1, 1, 7]) for _ in range(2_500)]).tolist()
    values = {
        "row": b'{"c": %d, "l": ["2013-01-01T00:00:%02dZ", null]}',
        "list": b'{"c": %d, "l": ["2013-01-01T00:00:00Z", "%d"]}',
        "poison": b'{"c": "%d", "x": %d}',
    }
    kinds = {at: chance.choice(["row", "tombstone", *values]) for at in offsets}
    texts = {at: values[kind] % (at, at % 60) if kind in values else None for at, kind in kinds.items()}
    records = [Record(at, at, body(b"%d" % at, text)) for at, text in texts.items()]
    data = b"".join(batch_of(records[n : n + 700]) for n in range(0, 2_500, 700))
    landed = land(data, FIELD, {"name": "l", "type": "array<timestamp>"}, OTHERS[0], tombstones=tombstones)
    keeps = tombstones == "keep"
    rows = [
        (at, kind == "row") for at, kind in kinds.items() if kind in ("row", "tombstone" if keeps else "")
    ]
    assert list(zip(*map(landed.values, ("k_offset", "c", "l", "k")), strict=True)) == [
        (at, *((at, [datetime(2013, 1, 1, 0, 0, at % 60), None]) if told else (None, None)), str(at))
        for at, told in rows
    ]
    if keeps:
        assert landed.values("k_tombstone") == [not told for _, told in rows]
    assert landed.tombstones == (0 if keeps else list(kinds.values()).count("tombstone"))
    bad = [(at, b"%d" % at, texts[at]) for at, kind in kinds.items() if kind in ("list", "poison")]
    assert [(row["k_offset"], row["key"], row["value"]) for row in landed.bad] == bad
    for row in (*landed.folders[""], *landed.bad):
        moment = NEW_YEAR + timedelta(milliseconds=row["k_offset"])
        assert (row["k_topic"], row["k_partition"], row["k_timestamp"]) == ("t", 3, moment)


BY_DAY = [{"name": "day", "of": "at", "every": "day"}]
WEST, EAST = "America/New_York", "Asia/Tokyo"


def days(times: Sequence[str | int | None], zone: str) -> dict[str, list[int]]:
    column = {"name": "at", "type": "timestamp", "zone": zone}
    column |= {"unit": "s"} if isinstance(times[-1], int) else {}
    values = [json.dumps({"at": each}).encode() for each in times]
    landed = land(batch(values), column, read=["k_offset"], partition_by=BY_DAY)
    assert all(reason.startswith("at ") for reason in landed.errors.values())
    return offsets(landed) | ({"bad": list(landed.errors)} if landed.bad else {})


def offsets(landed: Landed) -> dict[str, list[int]]:
    return {folder: [row["k_offset"] for row in rows] for folder, rows in landed.folders.items()}


def test_a_day_is_one_of_its_zone() -> None:
    texts = ["2013-01-02T04:59:59.999999Z", "2013-01-02T05:00:00Z", None, "x", "2013-01-01", None]
    wanted = {"day=2013-01-01": {0, 4}, "day=2013-01-02": {1}, f"day={NO_DAY}": {2, 5}, "bad": {3}}
    found = days(texts * 300, WEST)
    assert found == {folder: [n for n in range(1_800) if n % 6 in these] for folder, these in wanted.items()}


@pytest.mark.parametrize(
    ("zone", "day_ends"),
    [
        ("UTC", "2013-11-04T00:00:00Z"),
        ("Asia/Tokyo", "2013-11-03T15:00:00Z"),
        (WEST, "2013-11-04T05:00:00Z"),  # a day of 25 hours
    ],
)
def test_row_is_late_after_delay_since_day_end(zone: str, day_ends: str) -> None:
    """To the millisecond, by Kafka's time; a record without one, or without its own, never is."""
    over = int(datetime.fromisoformat(day_ends).timestamp() * 1000) + 2 * 3600 * 1000
    came = [over - 1, over, over + 10**9, 0, -1, 2**61]
    texts = ["2013-11-03T00:00:00", "2013-11-03T23:59:59.999999", "2013-11-04T00:00:00", None, "x"]
    texts.append("1950-01-01")  # before 1970, where a time that is none must not count as 0
    values = [(text, at) for at in came for text in texts]
    records = [
        Record(at, n, body(None, json.dumps({"t": text}).encode())) for n, (text, at) in enumerate(values)
    ]
    landed = land(
        batch_of(records),
        {"name": "t", "type": "timestamp", "zone": zone},
        partition_by=[{"name": "day", "of": "t", "every": "day"}],
        late={"table": "a.late", "after": "2h"},
    )
    late = [(text, at) for text, at in values if text and text[:10] == "2013-11-03" and over <= at < 2**60]
    late += [(text, at) for text, at in values if text == texts[2] and at == over + 10**9]
    late += [(text, at) for text, at in values if text == texts[5] and 0 <= at < 2**60]
    assert sorted(values[row["k_offset"]] for row in landed.late) == sorted(late)
    assert len(late) == 9
    assert sum(map(len, landed.folders.values())) + len(landed.bad) == len(values)
    assert set(offsets(landed)) == {"day=1950-01-01", "day=2013-11-03", "day=2013-11-04", f"day={NO_DAY}"}


@pytest.mark.parametrize(
    ("zone", "folder", "moments"),
    [
        (WEST, "bad", ["0001-01-01T00:00:00Z", "0001-01-01T04:56:01Z", "9999-12-31T20:00:00"]),
        (WEST, "bad", [-62_135_596_800]),
        (WEST, "day=0001-01-01", ["0001-01-01T04:56:02Z", "0001-01-01T00:00:00"]),
        (WEST, "day=9999-12-31", ["9999-12-31T23:59:59.999999Z", "9999-12-31T05:00:00Z"]),
        (EAST, "bad", ["0001-01-01T00:00:00", "9999-12-31T15:00:00Z"]),
        (EAST, "bad", [253_402_300_799]),
        (EAST, "day=0001-01-01", ["0001-01-01T00:00:00Z", "0001-01-01T14:41:00Z"]),
        (EAST, "day=9999-12-31", ["9999-12-31T14:59:59Z", "9999-12-31T23:59:59"]),
        ("Europe/Berlin", "day=9999-07-02", ["9999-07-01T22:30:00Z"]),
    ],
)
def test_days_at_the_ends_of_all_years(zone: str, folder: str, moments: list[str | int]) -> None:
    assert days([None, *moments], zone) == {f"day={NO_DAY}": [0], folder: list(range(1, len(moments) + 1))}


def test_days_of_kafka_s_times() -> None:
    times = [1_357_102_799_999, 1_357_102_800_000, -1]
    data = batch_of(Record(at, n, body(None, b"{}" if n else None)) for n, at in enumerate(times))
    landed = land(data, {**AT, "zone": WEST}, FIELD, partition_by=BY_DAY, tombstones="keep")
    assert offsets(landed) == {"day=2013-01-01": [0], "day=2013-01-02": [1], f"day={NO_DAY}": [2]}


def test_two_columns_of_one_field() -> None:
    data = batch([b'{"c": 127}', b'{"c": 128}', b"{}"])
    landed = land(data, FIELD, {"name": "d", "type": "tinyint", "from": "c"})
    assert (landed.values("c"), landed.values("d"), list(landed.errors)) == ([127, None], [127, None], [1])


@pytest.mark.parametrize("type_", ["string", "double", "boolean", "timestamp", "array<int>", "decimal(5,2)"])
def test_two_columns_with_conflicting_field_kinds_are_refused(type_: str) -> None:
    other = {"name": "d", "type": type_, "from": "c"}
    for columns in ((FIELD, other), (other, FIELD)):
        with raises(Refused, "landing-declaration-invalid") as refused:
            land(batch([b"{}"]), *columns)
        assert str(refused.value).startswith("lake.yml: a.b.columns: ")
