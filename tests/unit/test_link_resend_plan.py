"""The part of a bundle that is sent."""

from typing import Any
from uuid import UUID

from aqueduct.kafka.client import Topic
from aqueduct.link.resend import Asked, fitting

PARTITION: Any = None  # nothing is asked of one but that it is there


def test_what_is_of_another_topic_now_is_left_out_of_a_resend() -> None:
    old, new = (str(UUID(int=number)) for number in (1, 2))
    there = {"t": Topic(UUID(int=2), "t", (PARTITION,))}
    fits = [Asked("t", 0, 1, 2, topic_id=new), Asked("t", 0, 4, 4)]
    wrong = [Asked("t", 0, 0, 9, topic_id=old), Asked("t", 1, 0, 9, topic_id=new), Asked("none", 0, 0, 9)]
    found, misfits = fitting(fits + wrong, there)
    assert found == fits
    assert [each.split(" ")[0] for each in misfits] == ["t-0", "t-1", "none-0"]
    assert f"with the id {old}, and the one there is now has {new}" in misfits[0]
