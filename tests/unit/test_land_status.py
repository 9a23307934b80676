"""What `land status` and `land verify` find of topics whose landing stands still, or has not begun."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kit.identifiers import printed

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode
from aqueduct.kafka import offsets
from aqueduct.kafka.client import Topic
from aqueduct.kafka.client_config import End
from aqueduct.kafka.cluster import Partition
from aqueduct.kafka.offsets import StableEnd
from aqueduct.land import declaration, report, run, verify
from aqueduct.land import status as land_status
from aqueduct.land.log import State
from aqueduct.land.order import LandOrder
from aqueduct.work.workers import Workers

STARTS = {"a-0": 0, "a-1": 0, "b-0": 400}
ID_OF_A, ID_OF_B, ANOTHER = UUID(int=1), UUID(int=2), UUID(int=3)


def topic(name: str, id_: UUID, partitions: int, leaderless: int | None = None) -> Topic:
    return Topic(
        id=id_,
        name=name,
        partitions=tuple(
            Partition(
                topic=name,
                number=number,
                leader=None if number == leaderless else 1,
                replicas=(1,),
                in_sync=(1,),
            )
            for number in range(partitions)
        ),
    )


A, B = topic("a", ID_OF_A, 2), topic("b", ID_OF_B, 1)
LANDED = State(
    number=1,
    positions={"a": {"0": 1_000, "1": 2_000}},
    topic_ids={"a": str(ID_OF_A)},
    epochs={"a": {"0": 3, "1": 3}},
)


@dataclass(frozen=True)
class Found:
    """What `land status` printed and reported of one table."""

    code: ExitCode
    ids: list[str]
    report: dict[str, Any]

    @property
    def partitions(self) -> dict[str, tuple[int, int | None]]:
        return {
            f"{each['topic']}-{each['partition']}": (each["landed"], each["end"])
            for each in self.report["partitions"]
        }


class Estate:
    """A cluster and the log of one table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.topics = [A]
        self.ends = {"a-0": 1_000, "a-1": 2_000, "b-0": 500}
        self.epoch_ends: dict[str, int] = {}  # where they are not the ends
        self._folder = folder
        self._monkeypatch = monkeypatch

        def stable_ends(_: object, asked: Iterable[TopicPartition]) -> dict[TopicPartition, StableEnd]:
            return {partition: StableEnd(end, 3) for partition, end in of(self.ends, asked).items()}

        answers = {
            "log_starts": lambda _, asked: of(STARTS, asked),
            "ends": lambda _, asked: of(self.ends, asked),
            "stable_ends": stable_ends,
            "ends_of_epochs": lambda _, asked: of(self.ends | self.epoch_ends, asked),
        }
        for name, answer in answers.items():
            monkeypatch.setattr(offsets, name, answer)
        for module in (land_status, run, verify):
            monkeypatch.setattr(module, "connect", self._connect)
        policies = lambda _, names, key: dict.fromkeys(names, "delete")  # noqa: E731
        monkeypatch.setattr(verify, "setting", policies)

    @contextmanager
    def _connect(self, *_: object) -> Iterator[Any]:
        yield SimpleNamespace(topics=lambda: {each.name: each for each in self.topics})

    def status(self, *declared: str, state: State = LANDED) -> Found:
        log = SimpleNamespace(table="l.t", read=lambda: state, newest=None, staged_bytes=lambda now: (0, 0))
        self._monkeypatch.setattr(land_status, "TableLog", lambda objects, name: log)
        found = land_status.status(self._order(declared))
        [of_table] = report.status_report(found)["tables"]
        return Found(report.status_code(found), printed(report.status_text(found)), of_table)

    def lags(self, *declared: str) -> dict[str, int]:
        """Return the lags of a lander's metrics."""
        log = SimpleNamespace(state=LANDED, follow=lambda: LANDED)
        self._monkeypatch.setattr(run, "TableLog", lambda objects, name: log)
        order = self._order(declared)
        return run.Lander(order, Workers("land")).lags(order.tables)

    def compared(self, *declared: str) -> tuple[dict[str, tuple[int, int]], list[tuple[str, str]]]:
        """Return the ranges that `land verify` compares, and the identifiers of what it does not."""
        order = self._order(declared)
        there = verify._there(order.end, order.tables[0], LANDED)
        ranges = {str(each.topic_partition): (each.start, each.stop) for each in there.ranges}
        return ranges, [(skipped.id, skipped.what) for skipped in there.left_out]

    def _order(self, topics: Iterable[str]) -> LandOrder:
        columns = [{"name": "n", "type": "int"}]
        return LandOrder(
            end=End("cluster", "unused:9092"),
            location=self._folder.as_uri(),
            tables=declaration.parse([{"table": "l.t", "topics": [*topics], "columns": columns}], ""),
        )


def of(known: Mapping[str, int], asked: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return {partition: known[str(partition)] for partition in asked}


@pytest.fixture
def estate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Estate:
    return Estate(monkeypatch, tmp_path)


def test_landed_topics_are_complete(estate: Estate) -> None:
    found = estate.status("a")
    assert (found.code, found.ids, found.report["left_out"]) == (ExitCode.DONE, [], [])
    assert found.partitions == {"a-0": (1_000, 1_000), "a-1": (2_000, 2_000)}


def test_truncated_log_makes_status_incomplete(estate: Estate) -> None:
    estate.ends["a-0"] = 10
    found = estate.status("a")
    assert (found.code, found.ids) == (ExitCode.INCOMPLETE, ["landed-topic-truncated"])
    assert [(each["id"], each["what"]) for each in found.report["left_out"]] == [
        ("landed-topic-truncated", "a-0")
    ]
    assert found.partitions == {"a-0": (1_000, None), "a-1": (2_000, 2_000)}


def test_truncated_and_regrown_log_makes_status_incomplete(estate: Estate) -> None:
    estate.ends["a-0"] = 5_000
    estate.epoch_ends["a-0"] = 700
    found = estate.status("a")
    assert (found.code, found.ids) == (ExitCode.INCOMPLETE, ["landed-topic-truncated"])
    assert found.partitions["a-0"] == (1_000, None)


@pytest.mark.parametrize(
    ("topics", "id_"),
    [
        ([B], "landed-topic-missing"),
        ([topic("a", ANOTHER, 2)], "landed-topic-recreated"),
    ],
)
def test_landing_that_stands_still_is_incomplete(estate: Estate, topics: list[Topic], id_: str) -> None:
    estate.topics = topics
    found = estate.status("a")
    assert (found.code, found.ids) == (ExitCode.INCOMPLETE, [id_])
    assert found.partitions == {"a-0": (1_000, None), "a-1": (2_000, None)}


def test_leaderless_partition_has_no_lag(estate: Estate) -> None:
    estate.topics = [topic("a", ID_OF_A, 2, leaderless=1)]
    found = estate.status("a")
    assert (found.code, found.ids) == (ExitCode.INCOMPLETE, ["landed-partition-leaderless"])
    assert found.partitions == {"a-0": (1_000, 1_000), "a-1": (2_000, None)}


def test_partitions_that_never_landed_are_listed(estate: Estate) -> None:
    """An added partition, and a topic that a pattern takes: all their records wait."""
    estate.topics = [A, B]
    found = estate.status("a|b", state=replace(LANDED, positions={"a": {"0": 1_000}}))
    assert found.partitions == {"a-0": (1_000, 1_000), "a-1": (0, 2_000), "b-0": (400, 500)}
    assert found.code == ExitCode.DONE
    never = estate.status("a|b", state=State())
    assert never.partitions == {"a-0": (0, 1_000), "a-1": (0, 2_000), "b-0": (400, 500)}
    estate.topics = [topic("a", ID_OF_A, 2, leaderless=0)]
    leaderless = estate.status("a", state=State())
    assert leaderless.partitions == {"a-0": (0, None), "a-1": (0, 2_000)}
    assert leaderless.code == ExitCode.INCOMPLETE


@pytest.mark.parametrize("topics", [[B], [topic("a", ANOTHER, 2), B], [A, B]])
def test_undeclared_topics_do_not_count(estate: Estate, topics: list[Topic]) -> None:
    """They land no more, so their ends say nothing of the table."""
    estate.topics = topics
    found = estate.status("b")
    assert (found.code, found.ids) == (ExitCode.DONE, [])
    assert found.partitions == {"b-0": (400, 500)}
    assert found.report["undeclared"] == [
        {"topic": "a", "partition": 0, "landed": 1_000},
        {"topic": "a", "partition": 1, "landed": 2_000},
    ]


def test_verify_compares_no_truncated_log(estate: Estate) -> None:
    """Its offsets are those of other records than the table has."""
    estate.topics = [A, B]
    assert estate.compared("a|b") == ({"a-0": (0, 1_000), "a-1": (0, 2_000)}, [])
    estate.ends["a-0"] = 5_000
    estate.epoch_ends["a-0"] = 700
    assert estate.compared("a|b") == ({"a-1": (0, 2_000)}, [("landed-topic-truncated", "a-0")])


def test_lag_metric_is_unknown_while_landing_stands(estate: Estate) -> None:
    estate.topics = [A, B]
    assert estate.lags("a|b") == {"l.t": 100}
    estate.ends["a-0"] = 10
    assert estate.lags("a|b") == {}
    estate.topics = [B]
    assert estate.lags("a|b") == {}
    assert estate.lags("b") == {"l.t": 100}
