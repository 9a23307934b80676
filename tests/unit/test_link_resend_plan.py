"""The part of a bundle that is sent."""

from typing import Any
from uuid import UUID

from kit.identifiers import has_fact

from aqueduct.kafka.client import Topic
from aqueduct.link.resend import Asked, fitting

PARTITION: Any = None  # nothing is asked of one but that it is there


def test_resend_skips_entries_of_absent_instances() -> None:
    old, new = (str(UUID(int=number)) for number in (1, 2))
    there = {"t": Topic(UUID(int=2), "t", (PARTITION,))}
    fits = [
        Asked(topic="t", partition=0, first=1, last=2, topic_id=new),
        Asked(topic="t", partition=0, first=4, last=4),
    ]
    wrong = [
        Asked(topic="t", partition=0, first=0, last=9, topic_id=old),
        Asked(topic="t", partition=1, first=0, last=9, topic_id=new),
        Asked(topic="none", partition=0, first=0, last=9),
    ]
    found, misfits = fitting(fits + wrong, there)
    assert found == fits
    assert [each.split(" ")[0] for each in misfits] == ["t-0", "t-1", "none-0"]
    assert has_fact(misfits[0], old)
    assert has_fact(misfits[0], new)
