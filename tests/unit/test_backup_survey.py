import pytest
from kit import manifests

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode
from aqueduct.kafka.groups import ConsumerGroup
from aqueduct.snapshots.backup import report, survey

SUPPORTED = ("", "classic", "consumer")


def a_group(name: str, kind: str) -> ConsumerGroup:
    return ConsumerGroup(name=name, protocol=kind, kind="", state="Empty")


@pytest.mark.parametrize("kind", ["streams", "queue", "consumer2", "unknown", "9"])
def test_groups_of_any_unknown_type_are_listed(kind: str) -> None:
    """Brokers have no other type than streams yet; share groups are taken out before."""
    listed = {f"g.{each}": a_group(f"g.{each}", each) for each in (*SUPPORTED, kind)}
    listed["empty"] = a_group("empty", kind)
    committed = {name: {TopicPartition("t", 0): (1, "")} for name in listed if name != "empty"}
    left_out = survey._unknown(survey._by_type(listed, listed), committed)
    assert sorted((skipped.id, skipped.what) for skipped in left_out) == [
        ("group-type-unsupported", "group empty"),
        ("group-type-unsupported", f"group g.{kind}"),
    ]
    assert report.exit_code(manifests.EMPTY, left_out) == ExitCode.INCOMPLETE
    assert all(kind in skipped.why for skipped in left_out)
    whys = {skipped.what: skipped.why for skipped in left_out}
    assert whys["group empty"] != whys[f"group g.{kind}"]  # nothing of it, or its committed offsets
