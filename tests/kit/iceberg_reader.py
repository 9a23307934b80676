"""An independent reader of Iceberg tables: PyIceberg with its own client of the Hive metastore."""

from datetime import UTC
from typing import Any

from kit.lakes import HiveLake
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.table import Table


def table(lake: HiveLake, beside: str = "", **settings: str) -> Table:
    """Return the table, opened by PyIceberg."""
    catalogue = HiveCatalog("hive", uri=lake.metastore.url, **settings)
    return catalogue.load_table(f"lake.{lake.table}{beside}")


def rows(read: Table, *more: str) -> list[dict[str, Any]]:
    """Return the rows in the form of HiveLake.expected()."""
    found: list[dict[str, Any]] = (
        read.scan(selected_fields=("k_partition", "k_offset", "n", "price", "names", "at", *more, "day"))
        .to_arrow()
        .sort_by([("k_partition", "ascending"), ("k_offset", "ascending")])
        .to_pylist()
    )
    for row in found:
        row["price"] = str(row["price"])
        row["at"] = int(row["at"].replace(tzinfo=UTC).timestamp())
        row["day"] = row["day"].isoformat()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def expected(lake: HiveLake) -> list[dict[str, Any]]:
    """Return the produced records as rows of the table."""
    return [{**each, "price": f"{float(each['price']):.2f}"} for each in lake.expected()]


def newest(read: Table) -> dict[str, str]:
    """Return the summary of the newest Iceberg snapshot."""
    return said(read)[-1]


def said(read: Table) -> list[dict[str, str]]:
    """Return the summaries of the Iceberg snapshots."""
    summaries = [each.summary for each in read.snapshots()]
    return [{"operation": each.operation.value, **each.additional_properties} for each in summaries if each]
