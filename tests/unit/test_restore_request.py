import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.kafka.batches.cutting import Window
from aqueduct.snapshots.restore.request import Request, parse_id, parse_instance
from aqueduct.store.manifest import Instance, InstanceState, StoredTopic


def topic(name: str, *instances: Instance) -> StoredTopic:
    return StoredTopic(
        name=name,
        topic_id="id",
        partitions=1,
        replication_factor=1,
        compacted=False,
        settings={},
        instances=instances,
    )


ACTIVE = Instance(2, "id", InstanceState.ACTIVATE, 0)
BEFORE = Instance(1, "id", InstanceState.PASSIVATE, 0)
TOPICS = {"a": topic("a", BEFORE, ACTIVE), "b": topic("b", ACTIVE)}


def test_instances_are_chosen_by_state_or_number() -> None:
    assert Request().choose(TOPICS) == {"a": (TOPICS["a"], ACTIVE), "b": (TOPICS["b"], ACTIVE)}
    assert Request((("a", "z"),), "passivate").choose(TOPICS) == {"z": (TOPICS["a"], BEFORE)}
    assert Request((), "g1").choose(TOPICS) == {"a": (TOPICS["a"], BEFORE)}
    for request in (Request((), "g9"), Request((("b", "b"),), "g1")):
        with raises(Refused, "snapshot-instance-unknown"):
            request.choose(TOPICS)
    with raises(Refused, "snapshot-topic-unknown") as caught:
        Request((("c", "c"), ("a", "a"))).choose(TOPICS)
    assert " c." in str(caught.value)
    with raises(Refused, "snapshot-instance-unknown") as caught:
        Request((), "g9").choose(TOPICS)
    assert "g9 of a (its instances: g1 PASSIVATE, g2 ACTIVATE), b (" in str(caught.value)


def test_topics_of_the_brokers_are_no_targets() -> None:
    own = "__consumer_offsets"
    with raises(Refused, "topic-reserved", own):
        Request((("a", own),)).choose(TOPICS)
    with raises(Refused, "topic-reserved", own):
        Request().choose({own: topic(own, ACTIVE)})
    assert list(Request((("a", "__debezium-heartbeat"),)).choose(TOPICS)) == ["__debezium-heartbeat"]


@pytest.mark.parametrize("text", ["newest", "g", "1", "g-1", "g0", "g\u0661", ""])
def test_what_is_no_instance_is_refused(text: str) -> None:
    with raises(Refused, "instance-invalid"):
        parse_instance(text)
    assert parse_instance("ACTIVATE") == "activate"


def test_a_restore_id_fits_into_groups_names() -> None:
    assert parse_id("Drill_7-b") == "Drill_7-b"
    for text in ("", "a.plan", "a b", "x" * 101):
        with raises(Refused, "restore-id-invalid"):
            parse_id(text)


def test_digest_depends_on_request_but_not_order() -> None:
    pairs = (("a", "a"), ("b", "c"))
    digests = {
        Request(pairs).digest("store", "cluster"),
        Request(pairs[:1]).digest("store", "cluster"),
        Request().digest("store", "cluster"),
        Request().digest("other", "cluster"),
        Request().digest("store", "other"),
        Request(instance="g1").digest("store", "cluster"),
        Request(window=Window(first_time=1)).digest("store", "cluster"),
        Request(window=Window(last_time=1)).digest("store", "cluster"),
    }
    assert len(digests) == 8
    assert Request(pairs[::-1]).digest("store", "cluster") in digests
