from dataclasses import replace

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.snapshots.restore import progress
from aqueduct.snapshots.restore.progress import RestoreOrigin, RestoreProgress, TopicState

BACK = {"retention.ms": None, "cleanup.policy": "compact"}
ORIGIN = RestoreOrigin(store="s", topic="t", instance=1, topic_id="of-t", first_time=0, last_time=9)
STATE = TopicState(
    topic_id="id",
    snapshot=3,
    request="digest",
    back=BACK,
    holds={"a": "b"},
    of_backup=True,
    groups=("a", "b"),
    origin=ORIGIN,
)


@pytest.mark.parametrize(
    "state",
    [
        STATE,
        RestoreProgress(topic_id="id", start=7, records=8, bytes=9, producers=(1, 2), oldest=None),
        RestoreProgress(topic_id="id", start=0, records=0, bytes=0, producers=(), oldest=5),
    ],
)
def test_states_are_remembered_as_they_are(state: TopicState | RestoreProgress) -> None:
    assert progress.loads(type(state), progress.dumps(state, "topic")) == state


def test_what_is_left_out_has_its_default() -> None:
    """Taken for nothing, it would be restored once more."""
    metadata = '{"topic_id":"id","start":7,"records":8,"bytes":9,"producers":[1,2],"oldest":null}'
    assert progress.loads(RestoreProgress, metadata) == RestoreProgress(
        topic_id="id", start=7, records=8, bytes=9, producers=(1, 2)
    )


@pytest.mark.parametrize("metadata", ["", "{}", "null", '{"topic_id":1}', "text"])
def test_other_metadata_is_no_state(metadata: str) -> None:
    assert progress.loads(RestoreProgress, metadata) is None
    assert progress.loads(TopicState, metadata) is None


def test_what_kafka_would_not_keep_is_refused() -> None:
    long = replace(STATE, holds={"x": "y" * 4096})
    with raises(Refused, "restore-state-too-large") as caught:
        progress.dumps(long, "topic a")
    assert "topic a" in str(caught.value)


def test_a_run_knows_what_it_wrote() -> None:
    before = RestoreProgress(topic_id="id", start=7, records=0, bytes=0, producers=()).written(
        "one", 10, 1_000
    )
    after = before.written("other", 5, 500).written("other", 1, 100)
    assert (before.by("one"), before.by("other")) == ((10, 1_000), (0, 0))
    assert (after.by("other"), after.records, after.bytes) == ((6, 600), 16, 1_600)


def test_plans_are_found_by_their_groups_names() -> None:
    assert progress.id_of_plan_group(progress.plan_group("a-1")) == "a-1"
    for other in (progress.group("a-1"), progress.waiting_group("a-1", "g"), "group.plan"):
        assert progress.id_of_plan_group(other) is None


def test_what_is_not_set_back_is_pending() -> None:
    assert STATE.pending == BACK
    assert replace(STATE, done=True, held={"retention.ms": "5"}).pending == {"retention.ms": "5"}


def test_group_patterns_match_whole_names() -> None:
    names = ["a", "ab", "b\n", "c"]
    assert progress.matched((), names) == set()
    assert progress.matched(("a", "c|d"), names) == {"a", "c"}
    assert progress.matched((progress.EVERY_GROUP,), names) == set(names)
