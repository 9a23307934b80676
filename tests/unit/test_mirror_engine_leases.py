"""When a process starts the tasks of a flow."""

from aqueduct.mirror.engine.leases import RECLAIM_SECONDS, RETRY_SECONDS, SESSION_SECONDS, Lease, LeaseBook


def by_task(*leases: Lease) -> dict[int, Lease]:
    return {lease.task: lease for lease in leases}


def test_each_lease_starts_once() -> None:
    book, leases = LeaseBook(), by_task(Lease(1), Lease(0))
    assert book.startable(leases, 0) == [leases[0], leases[1]]
    book.note_started(leases[0], 0)
    assert book.startable(leases, 1) == [leases[1]]


def test_lease_that_has_ended_does_not_start() -> None:
    lease = Lease(0)
    lease.ended.set()
    assert LeaseBook().startable(by_task(lease), 0) == []


def test_next_lease_starts_only_after_former_task_ended() -> None:
    book, former, next_ = LeaseBook(), Lease(0), Lease(0)
    book.note_started(former, 0)
    former.ended.set()
    assert book.startable(by_task(next_), 0) == []
    book.note_ended(0)
    assert book.startable(by_task(next_), 0) == [next_]


def test_fenced_task_with_same_lease_waits_beyond_session() -> None:
    book, lease = LeaseBook(), Lease(0)
    book.note_started(lease, 0)
    book.note_fenced(0, 100)
    assert book.startable(by_task(lease), 100 + SESSION_SECONDS) == []
    assert book.startable(by_task(lease), 100 + RECLAIM_SECONDS) == [lease]


def test_fenced_task_starts_at_once_under_another_lease() -> None:
    book, former, next_ = LeaseBook(), Lease(0), Lease(0)
    book.note_started(former, 0)
    book.note_fenced(0, 100)
    former.ended.set()
    assert book.startable(by_task(next_), 100) == [next_]


def pause_after_failure(book: LeaseBook, lease: Lease, started: float, failed: float) -> int:
    """Return the seconds until a task starts again that failed at this time."""
    book.note_started(lease, started)
    book.note_failed(lease.task, failed)
    return next(n for n in range(1000) if book.startable(by_task(lease), failed + n) == [lease])


def test_failed_task_starts_again_after_growing_pauses() -> None:
    book, lease = LeaseBook(), Lease(0)
    first, longest = RETRY_SECONDS
    pauses = [pause_after_failure(book, lease, 100 * n, 100 * n + 1) for n in range(6)]
    assert pauses == [first, 2 * first, 4 * first, longest, longest, longest]
    # It has worked for a while, so it begins with the first pause again.
    assert pause_after_failure(book, lease, 1000, 1000 + longest) == first


def test_failed_task_starts_at_once_under_another_lease() -> None:
    book, former, next_ = LeaseBook(), Lease(0), Lease(0)
    pause_after_failure(book, former, 0, 1)
    assert book.startable(by_task(next_), 1) == [next_]


def test_other_tasks_start_while_one_has_failed() -> None:
    book, leases = LeaseBook(), by_task(Lease(0), Lease(1))
    book.note_started(leases[0], 0)
    book.note_failed(0, 1)
    assert book.startable(leases, 1) == [leases[1]]
