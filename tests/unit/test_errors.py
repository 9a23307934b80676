import pickle

from kafka.errors import KafkaError

from aqueduct.errors import AqueductError, Failed, Refused, Skipped, left_out_entries
from aqueduct.kafka.groups import LiveGroup
from aqueduct.store.objects import ObjectTooLarge


def test_an_error_has_its_identifier_in_front() -> None:
    error = Refused("target-not-empty", "Topic orders contains records.")
    assert (error.id, str(error)) == ("target-not-empty", "Topic orders contains records.")
    assert error.labelled == "[target-not-empty] Topic orders contains records."
    assert (Failed("It broke.").id, Failed("It broke.").labelled) == ("", "It broke.")


def test_error_class_may_define_identifier() -> None:
    assert LiveGroup("It has members.").labelled == "[group-has-members] It has members."
    assert ObjectTooLarge.of("file:///s", "a", 2, 1).id == "object-too-large"


def test_task_error_is_unchanged_on_driver() -> None:
    errors: list[AqueductError] = [Failed("a-b", "c."), Failed("c."), LiveGroup("c."), LiveGroup("a-b", "c.")]
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(copy), copy.id, str(copy)) == (type(error), error.id, str(error))


def test_concerning_keeps_error_class_and_identifier() -> None:
    for error in (LiveGroup("It broke."), Failed("it-broke", "It broke."), Failed("It broke.")):
        concerning = error.concerning("a-0")
        assert (type(concerning), concerning.id) == (type(error), error.id)
        assert str(concerning) == "a-0: It broke."


def test_skipped_items_have_the_identifier_of_the_error() -> None:
    skipped = [
        Skipped("group a", "it has members", "group-has-members"),
        Skipped.because_of("group b", LiveGroup("It has members.")),
        Skipped.because_of("group c", KafkaError("no")),
    ]
    assert [str(each) for each in skipped] == [
        "[group-has-members] group a: it has members",
        "[group-has-members] group b: It has members",
        "[cluster-request-failed] group c: KafkaError: no",
    ]
    assert left_out_entries(skipped[:1]) == [
        {"id": "group-has-members", "what": "group a", "why": "it has members"}
    ]
