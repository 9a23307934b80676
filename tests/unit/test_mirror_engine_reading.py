"""The workers that share a flow, as the target's group coordinator describes them."""

from aqueduct.mirror.engine.names import member_host, member_id
from aqueduct.mirror.engine.reading import FlowWorker, assigned_tasks


def test_tasks_are_partitions_of_the_assignment() -> None:
    # Version 0, one topic with partitions 2 and 0, and no user data.
    assignment = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\2\0\0\0\0" + b"\xff\xff\xff\xff"
    assert assigned_tasks(assignment) == (0, 2)


def test_member_without_assignment_stands_by() -> None:
    assert assigned_tasks(b"") == ()
    assert assigned_tasks(b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff") == ()
    assert str(FlowWorker("lake-1", ())) == "lake-1 (stands by)"
    assert str(FlowWorker("lake-1", (0, 2))) == "lake-1 (tasks 0, 2)"


def test_host_of_a_member_is_in_its_client_id() -> None:
    assert member_host(member_id("pro1", "lake-1.example.com")) == "lake-1.example.com"
    assert member_host("another") == ""
