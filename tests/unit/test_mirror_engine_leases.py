"""When a process starts the tasks of a shared flow."""

from aqueduct.mirror.engine.leases import RECLAIM_SECONDS, SESSION_SECONDS, Lease, LeaseBook


def by_task(*leases: Lease) -> dict[int, Lease]:
    return {lease.task: lease for lease in leases}


def test_each_lease_starts_once() -> None:
    book, leases = LeaseBook(), by_task(Lease(1), Lease(0))
    assert book.startable(leases, 0) == [leases[0], leases[1]]
    book.note_started(leases[0])
    assert book.startable(leases, 1) == [leases[1]]


def test_lease_that_has_ended_does_not_start() -> None:
    lease = Lease(0)
    lease.ended.set()
    assert LeaseBook().startable(by_task(lease), 0) == []


def test_task_starts_under_its_next_lease_only_after_it_has_ended_under_the_former() -> None:
    book, former, next_ = LeaseBook(), Lease(0), Lease(0)
    book.note_started(former)
    former.ended.set()
    assert book.startable(by_task(next_), 0) == []
    book.note_ended(0)
    assert book.startable(by_task(next_), 0) == [next_]


def test_fenced_task_waits_longer_than_a_session_under_the_same_lease() -> None:
    book, lease = LeaseBook(), Lease(0)
    book.note_started(lease)
    book.note_fenced(0, 100)
    assert book.startable(by_task(lease), 100 + SESSION_SECONDS) == []
    assert book.startable(by_task(lease), 100 + RECLAIM_SECONDS) == [lease]


def test_fenced_task_starts_at_once_under_another_lease() -> None:
    book, former, next_ = LeaseBook(), Lease(0), Lease(0)
    book.note_started(former)
    book.note_fenced(0, 100)
    former.ended.set()
    assert book.startable(by_task(next_), 100) == [next_]
