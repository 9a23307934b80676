"""Questions to many brokers, of which a response does not mention all that was asked."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.errors import KafkaError
from kafka.protocol.metadata import CoordinatorType

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import groups, share_groups
from aqueduct.kafka.client import Client
from aqueduct.kafka.fan_out import OmittedError, ask_all

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Brokers:
    """One broker, which answers every request with the same response."""

    patience_seconds = 0.0
    end = "cluster"

    def __init__(self, response: Any = None) -> None:
        self._response = response

    def submit(self, request: Any, _: int) -> Any:
        return request

    def wait(self, sent: Any) -> Any:
        return self._response or sent

    def send(self, request: Any, _: int) -> Any:
        return self._response or request

    def coordinators(self, _: CoordinatorType, names: list[str]) -> dict[str, int]:
        return dict.fromkeys(names, 1)

    def coordinator(self, _: CoordinatorType, __: str) -> int:
        return 1


def ask(
    asked: list[str], brokers: dict[str, int], unanswered: dict[str, KafkaError] | None
) -> dict[str, int]:
    def answers(keys: list[str]) -> Iterator[tuple[str, int]]:
        return ((key, 5) for key in keys if key != "omitted")

    return ask_all(
        cast(Client, Brokers()),
        asked,
        responsible=lambda keys: {key: brokers[key] for key in keys if key in brokers},
        request=lambda keys: keys,
        answers=answers,
        limit=10,
        fault="does not answer",
        unanswered=unanswered,
    )


@pytest.mark.parametrize("brokers", [{"g": 1, "omitted": 1}, {"g": 1}])
def test_omission_of_response_is_an_error(brokers: dict[str, int]) -> None:
    """The broker's own response leaves the thing out, or the one that finds the responsible broker."""
    unanswered: dict[str, KafkaError] = {}
    assert ask(["g", "omitted"], brokers, unanswered) == {"g": 5}
    assert [*unanswered] == ["omitted"]
    assert isinstance(unanswered["omitted"], OmittedError)
    with pytest.raises(OmittedError, match="omitted"):
        ask(["g", "omitted"], brokers, None)


def fetched(*numbers: int) -> Any:
    parts = [
        SimpleNamespace(partition_index=number, error_code=0, committed_offset=7, metadata="")
        for number in numbers
    ]
    topic = SimpleNamespace(name="a", partitions=parts)
    return SimpleNamespace(groups=[SimpleNamespace(group_id="g", error_code=0, topics=[topic])])


def test_omitted_partition_of_progress_is_an_error() -> None:
    """Without an offset, a reader would begin at the start of the log."""
    client = cast(Client, Brokers(fetched(0, 1)))
    assert groups.progress(client, "g", [A0, A1]) == {A0: (7, ""), A1: (7, "")}
    with pytest.raises(OmittedError, match="a-1"):
        groups.progress(cast(Client, Brokers(fetched(0))), "g", [A0, A1])


def test_omitted_partition_of_commit_is_an_error() -> None:
    def response(*numbers: int) -> Any:
        parts = [SimpleNamespace(partition_index=number, error_code=0) for number in numbers]
        topics = [SimpleNamespace(name="a", topic_name="a", partitions=parts)]
        return SimpleNamespace(topics=topics, responses=topics, error_code=0)

    every, cut = (cast(Client, Brokers(response(*numbers))) for numbers in ((0, 1), (0,)))
    groups.commit(every, "g", {A0: (1, ""), A1: (2, "")})
    share_groups.set_positions(every, "g", {A0: 1, A1: 2})
    with pytest.raises(OmittedError, match="a-1"):
        groups.commit(cut, "g", {A0: (1, ""), A1: (2, "")})
    with pytest.raises(OmittedError, match="a-1"):
        share_groups.set_positions(cut, "g", {A0: 1, A1: 2})
