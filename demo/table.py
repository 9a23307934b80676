"""The table that the demo ends with, from what its other steps and playbooks/reconcile.yml reported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

HEADS = ("flow", "records in", "records out", "equal", "records/s", "lag")
LINK_HEADS = ("sent", "repaired", "missing", "resent")
COLUMNS = "{:<17} {:>11} {:>11}  {:<5} {:>9} {:>5} {:>9} {:>9} {:>8} {:>8}"


@dataclass(frozen=True)
class Row:
    flow: str
    records_in: int
    records_out: int
    equal: bool
    per_second: float
    lag: int
    link: tuple[int, ...] = ()  # sent, repaired, missing, resent

    @classmethod
    def of(cls, arrow: str, told: Json, compared: Json) -> "Row":
        """Make the row of a flow from the stream's figures and the report of `aqueduct reconcile`."""
        partitions = compared["partitions"]
        return cls(
            f"{told['source']} {arrow} {told['target']}",
            sum(each["source_records"] for each in partitions),
            sum(each["target_records"] for each in partitions),
            all(map(_same_records, partitions)) if "resent" in told else compared["exit_code"] == 0,
            told["per_second"],
            told["behind"],
            tuple(told[name] for name in LINK_HEADS if name in told),
        )

    @classmethod
    def of_sink(cls, told: Json) -> "Row":
        """Make the row of a connector from its figures."""
        records_in, records_out = told["records_in"], told["records_out"]
        flow = f"{told['site']} +> files"
        return cls(flow, records_in, records_out, told["equal"], told["per_second"], records_in - records_out)

    def __str__(self) -> str:
        link = [f"{each:,}" for each in self.link] or ["-"] * len(LINK_HEADS)
        return COLUMNS.format(
            *(self.flow, f"{self.records_in:,}", f"{self.records_out:,}", "yes" if self.equal else "NO"),
            *(f"{self.per_second:,.0f}", f"{self.lag:,}", *link),
        )


def _same_records(partition: Json) -> bool:
    """Return whether both ends have the same records, in whatever order.

    What was sent again over a link comes after what had arrived before it.
    """
    ends = (partition["target"]["extra"], *(source["missing"] for source in partition["sources"]))
    return partition["timestamps"] and not any(end["records"] for end in ends)


def table(rows: list[Row]) -> str:
    return "\n".join([COLUMNS.format(*HEADS, *LINK_HEADS), *map(str, rows)])
