"""Boundary values of each declared type, and the SQL expressions with which Spark returns them."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

TIMES = (
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00.000001",
    "0004-02-29T12:00:00.5",
    "1500-02-28T23:59:59.999999",
    "1582-10-04T23:59:59.999",
    "1582-10-15T00:00:00.000001",
    "1677-09-21T00:12:43.145224",
    "1899-12-31T23:59:59.123456",
    "1900-01-01T00:00:00",
    "1969-12-31T23:59:57.000999",
    "1969-12-31T23:59:57.001",
    "1969-12-31T23:59:58.000001",
    "1969-12-31T23:59:58.999999",
    "1969-12-31T23:59:59",
    "1969-12-31T23:59:59.000001",
    "1969-12-31T23:59:59.000999",
    "1970-01-01T00:00:00",
    "1970-01-01T00:00:00.999999",
    "2014-12-31T23:59:59.999999",
    "2015-01-01T00:00:00.1",
    "2262-04-11T23:47:16.854775",
    "9999-12-31T23:59:59.999999",
)
DATES = (
    "0001-01-01",
    "0004-02-29",
    "1000-03-01",
    "1500-02-28",
    "1500-03-01",
    "1582-10-04",
    "1582-10-15",
    "1969-12-31",
    "1970-01-01",
    "2024-02-29",
    "9999-12-31",
)
VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "tinyint": (-(2**7), 2**7 - 1, 0),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1, -1),
    "float": (1.5, -0.0, 3.4028234663852886e38, 1.401298464324817e-45),
    "double": (5e-324, -1.7976931348623157e308, 0.1),
    "decimal(38,10)": ("-9999999999999999999999999999.9999999999", "0.0000000001"),
    "decimal(5,2)": ("-999.99", "0.01", "100.00"),
    "decimal(18,0)": ("999999999999999999", "-1"),
    "decimal(38,0)": ("9" * 38, "-" + "9" * 38),
    "decimal(38,38)": ("-0." + "9" * 38, "0." + "0" * 37 + "1"),
    "decimal(1,1)": ("-0.9",),
    "string": ("", "ü\n\u0000", "x" * 100_000, "𝄞", "\u2028\uffff\r"),
    "binary": ("", "ü\u0000"),
    "date": DATES,
    "timestamp": TIMES,
    "array<boolean>": ([True, None, False], []),
    "array<tinyint>": ([-(2**7), None, 2**7 - 1],),
    "array<smallint>": ([-(2**15), None, 2**15 - 1],),
    "array<int>": ([-(2**31), None, 2**31 - 1],),
    "array<bigint>": ([2**63 - 1, None, -(2**63)],),
    "array<float>": ([1.401298464324817e-45, None, -3.4028234663852886e38],),
    "array<double>": ([5e-324, None, 1.7976931348623157e308],),
    "array<string>": ([], ["", None, "x"], [None]),
    "array<binary>": (["ü\u0000", None, ""],),
    "array<date>": ([], [None, *DATES]),
    "array<timestamp>": ([None, *TIMES], [], [TIMES[2]]),
    "array<decimal(5,2)>": (["1.50", None],),
    "array<decimal(38,10)>": (["-9999999999999999999999999999.9999999999", None, "0.0000000001"],),
}
# Days that the calendar of ORC's readers does not have.
LOST = [f"1582-10-{day:02d}" for day in range(5, 15)]


def rows(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """Return records with one value each, in columns c0, c1, ... of the types of VALUES, and an empty one."""
    values = ({f"c{number}": value} for number, values in enumerate(VALUES.values()) for value in values)
    return [{}, *values, *more]


def plain_rows(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return these records in the form that readers return with EXPRESSIONS."""
    types = list(VALUES)
    return [
        {
            "k_offset": offset,
            **{name: plain(types[int(name[1:])], value) for name, value in record.items()},
        }
        for offset, record in enumerate(records)
    ]


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def days(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def plain(type_: str, value: Any) -> Any:
    """Return a value of a record in the form that the expressions below return."""
    if isinstance(value, list):
        item = type_.removeprefix("array<").removesuffix(">")
        return [None if each is None else plain(item, each) for each in value]
    if type_ == "timestamp":
        return micros(value)
    if type_ == "date":
        return days(value)
    if type_ == "binary":
        return value.encode().hex().upper()
    if type_.startswith("decimal"):
        scale = int(type_.rpartition(",")[2].removesuffix(")"))
        return f"{Decimal(value):.{scale}f}"
    return value


def expression(name: str, type_: str) -> str:
    """Return an SQL expression for a column, whose value JSON can contain."""
    if type_.startswith("array<"):
        item = expression("x", type_.removeprefix("array<").removesuffix(">"))
        return f"transform({name}, x -> {item})"
    if type_ == "timestamp":
        return f"unix_micros(cast({name} as timestamp))"
    if type_ == "date":
        return f"unix_date({name})"
    if type_ == "binary":
        return f"hex({name})"
    if type_ == "float":  # JSON has only the digits that distinguish it from other floats
        return f"cast({name} as double)"
    if type_.startswith("decimal"):
        return f"cast({name} as string)"
    return name


COLUMNS = [{"name": f"c{number}", "type": type_} for number, type_ in enumerate(VALUES)]
EXPRESSIONS = {each["name"]: expression(each["name"], each["type"]) for each in COLUMNS}
