"""The table that the demo ends with, from what its other steps and playbooks/reconcile.yml reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

HEADS = (
    *("flow", "records in", "records out", "equal", "records/s", "lag"),
    *("repaired datagrams", "resent records"),
)
TEXT_COLUMNS = {"flow", "equal"}
NOT_A_LINK = "-"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One flow. Lag is in records; the last two figures are those of a one-way link, else None."""

    flow: str
    records_in: int
    records_out: int
    equal: bool
    per_second: float
    lag: int
    repaired_datagrams: int | None = None
    resent_records: int | None = None

    @classmethod
    def of_mirror(cls, streamed: Json, compared: Json) -> "Row":
        """Make a mirror's row from the stream's figures and the report of `aqueduct reconcile`."""
        return cls(
            flow=f"{_ends(streamed)} mirror",
            records_in=_records(compared, "source"),
            records_out=_records(compared, "target"),
            equal=compared["exit_code"] == 0,
            per_second=streamed["per_second"],
            lag=streamed["behind"],
        )

    @classmethod
    def of_link(cls, streamed: Json, compared: Json) -> "Row":
        """Make a link's row. Records that were resent follow later ones, so the order is not compared."""
        return cls(
            flow=f"{_ends(streamed)} link",
            records_in=_records(compared, "source"),
            records_out=_records(compared, "target"),
            equal=all(map(_has_same_records, compared["partitions"])),
            per_second=streamed["per_second"],
            lag=streamed["behind"],
            repaired_datagrams=streamed["repaired"],
            resent_records=streamed["resent"],
        )

    @classmethod
    def of_sink(cls, streamed: Json) -> "Row":
        """Make the row of a connector that writes a topic to a file."""
        return cls(
            flow=f"{streamed['site']} -> file connector",
            records_in=streamed["records_in"],
            records_out=streamed["records_out"],
            equal=streamed["equal"],
            per_second=streamed["per_second"],
            lag=streamed["records_in"] - streamed["records_out"],
        )

    def cells(self) -> tuple[str, ...]:
        return (
            self.flow,
            f"{self.records_in:,}",
            f"{self.records_out:,}",
            "yes" if self.equal else "NO",
            f"{self.per_second:,.0f}",
            f"{self.lag:,}",
            *(
                NOT_A_LINK if figure is None else f"{figure:,}"
                for figure in (self.repaired_datagrams, self.resent_records)
            ),
        )


def _ends(streamed: Json) -> str:
    return f"{streamed['source']} -> {streamed['target']}"


def _records(compared: Json, end: str) -> int:
    return sum(partition[f"{end}_records"] for partition in compared["partitions"])


def _has_same_records(partition: Json) -> bool:
    """Return whether both ends have the same records, in any order."""
    ends = (partition["target"]["extra"], *(source["missing"] for source in partition["sources"]))
    return partition["timestamps"] and not any(end["records"] for end in ends)


def table(rows: Sequence[Row]) -> str:
    lines = [HEADS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if head in TEXT_COLUMNS else cell.rjust(width)
            for head, cell, width in zip(HEADS, cells, widths, strict=True)
        )
        return "  ".join(aligned).rstrip()

    return "\n".join(map(line, lines))


def link_summary(streamed: Json) -> str:
    """Return what the demo did to a link, and what became of the records."""
    return (
        f"{_ends(streamed)} link: the demo dropped some packets on purpose.\n"
        f"{streamed['sent']:,} records were sent."
        f" {streamed['repaired']:,} lost datagrams were repaired by error correction.\n"
        f"{streamed['missing']:,} records were missing at first."
        f" Then {streamed['resent']:,} records were resent."
    )
