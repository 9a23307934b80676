"""The plan of an export: it assigns segments to files and tasks, always the same for the same request."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Refused, labelled
from aqueduct.kafka.batches.cutting import Window
from aqueduct.kafka.requests import in_lists
from aqueduct.land.declaration import LandTable
from aqueduct.snapshots.export import state
from aqueduct.snapshots.export.order import ExportOrder, FileFormat
from aqueduct.snapshots.restore.plan import RestorePlan
from aqueduct.store.manifest import Segment

PART_BYTES = 64 << 20  # of segments, uncompressed, whose records go to files of their own
SHARE_PARTS = 500  # at most, for many small partitions


@dataclass(frozen=True)
class ExportPart:
    """Consecutive segments of a partition."""

    partition: TopicPartition
    segments: tuple[Segment, ...]

    @property
    def records(self) -> int:
        """The maximum number of exported records; a time window can reduce it."""
        return sum(segment.records for segment in self.segments)

    @property
    def unpacked_bytes(self) -> int:
        return sum(segment.unpacked_bytes for segment in self.segments)


@dataclass(frozen=True, kw_only=True)
class ExportShare:
    """The parts that one task exports, one after another."""

    store: str  # URL
    to: str  # URL
    format: FileFormat
    window: Window
    number: int
    parts: tuple[ExportPart, ...]
    tables: Mapping[str, LandTable]  # by topic; other topics get the columns of Spark's Kafka source

    @property
    def unpacked_bytes(self) -> int:
        return sum(part.unpacked_bytes for part in self.parts)


def shares(order: ExportOrder, plan: RestorePlan, tables: Mapping[str, LandTable]) -> list[ExportShare]:
    """Divide the work into shares, always the same for the same snapshot and request."""
    part_lists = in_lists(_parts(plan), PART_BYTES, lambda part: part.unpacked_bytes, most=SHARE_PARTS)
    return [
        ExportShare(
            store=order.store,
            to=order.to,
            format=order.format,
            window=plan.window,
            number=number,
            parts=tuple(parts),
            tables={
                topic: tables[topic] for topic, _ in (part.partition for part in parts) if topic in tables
            },
        )
        for number, parts in enumerate(part_lists)
    ]


def _parts(plan: RestorePlan) -> Iterator[ExportPart]:
    for lane in plan.lanes:
        for some_ in in_lists(lane.segments, PART_BYTES, lambda segment: segment.unpacked_bytes):
            yield ExportPart(lane.target, tuple(some_))


def by_topic(tables: Sequence[LandTable], topics: Iterable[str]) -> dict[str, LandTable]:
    """Return the declared table of each topic.

    Refused if a topic has several tables, or if only a landing supports its table.
    """
    table_by_topic: dict[str, LandTable] = {}
    for topic in topics:
        taking = [table for table in tables if table.takes(topic)]
        if len(taking) > 1:
            names = some(table.full_name for table in taking)
            raise Refused(
                "export-table-unusable",
                f"{topic} is declared for {names}, but the files of a topic have the columns of one table. "
                "Declare the topic for one of them.",
            )
        for table in taking:
            if table.by_sql:
                raise Refused(
                    "export-table-unusable",
                    f"{table.full_name} has `sql`, which only aqueduct land supports. Remove the table from "
                    "the declarations of this export.",
                )
            table_by_topic[topic] = table
    if tables and not table_by_topic:
        names = some(table.full_name for table in tables)
        raise Refused(
            "pattern-matches-nothing",
            f"No topic of this export is declared for {names}. Correct `topics` of the tables, or --topics.",
        )
    return table_by_topic


def idle(tables: Iterable[LandTable], topics: Collection[str]) -> tuple[str, ...]:
    """Return a sentence about declared tables without a topic in the snapshot.

    They are no error: a file of declarations can contain tables for topics of other clusters.
    """
    names = [table.full_name for table in tables if not any(map(table.takes, topics))]
    if not names:
        return ()
    sentence = (
        f"The snapshot has no topic that is declared for {some(names)}, so these tables have no effect."
    )
    return (labelled("pattern-matches-nothing", sentence),)


def check_names(topics: Iterable[str]) -> None:
    """Refuse topics whose names an export uses for its own files."""
    if own := sorted(state.OWN & set(topics)):
        raise Refused(
            "export-name-reserved",
            f"{some(own)}: an export uses this name for its own files. Pass the other topics with --topics.",
        )


def digest(tables: Mapping[str, LandTable]) -> str:
    """Return a digest of the tables declared for topics; empty if there are none."""
    declarations = [f"{topic} {_declared(table)}" for topic, table in sorted(tables.items())]
    return sha256("\n".join(declarations).encode()).hexdigest() if declarations else ""


def _declared(table: LandTable) -> str:
    registry = table.registry and table.registry.url  # not its config, which has secrets
    columns = [
        f"{column.name} {column.type} {column.path} {column.zone} {column.unit}" for column in table.columns
    ]
    return f"{table.format} {columns} {table.keeps_tombstones} {table.delimited} {table.avro} {registry}"
