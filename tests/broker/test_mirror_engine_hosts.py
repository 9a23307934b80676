"""A flow that several processes share: one is killed or frozen, and the others continue it, exactly once."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest
from kit import clients
from kit.clients import Record, unique
from kit.mirror_engine_flows import PROGRAM, Flow, started

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client_config import End
from aqueduct.mirror.engine.membership import Membership
from aqueduct.mirror.engine.names import positions_topic
from aqueduct.mirror.engine.position import task_of
from servers import broker
from servers.broker import Broker
from servers.process import free_ports, suspend

PARTITIONS = 0, 1, 2, 3
TAKEN = "mirror-task-taken"
UNREADABLE = "mirror-position-unreadable"
# Large enough to be moving for a while. The values are distinct, so that a record that comes twice is seen.
PADDING = "x" * 300
RECORDS = 40  # for each partition, twenty times a second
# A program whose tasks start again sooner than usual. A task that was fenced waits for 12 seconds instead of
# 20: by then the other process must have stored that it has the task. A task that failed waits for 1 to 8
# seconds instead of 5 to 40.
SOON_AGAIN = (
    "-c",
    "import sys; from aqueduct.cli import main; from aqueduct.mirror.engine import leases; "
    "leases.RECLAIM_SECONDS, leases.RETRY_SECONDS = 12, (1, 8); sys.exit(main(sys.argv[1:]))",
)


class Worker:
    """A process of a shared flow. Its journal is a file."""

    def __init__(
        self,
        flow: Flow,
        folder: Path,
        name: str,
        tasks: int,
        enter: Sequence[str] = (),
        program: Sequence[str] = PROGRAM,
    ) -> None:
        [self.port] = free_ports(1)
        self._enter, self._program = enter, program
        self.journal = folder / name
        self._options = (
            *(*flow.options, "--refresh", "1s", "--shared"),
            *("--tasks", str(tasks), "--metrics-port", str(self.port)),
        )

    @contextmanager
    def running(self) -> Iterator["Worker"]:
        with (
            self.journal.open("w+") as journal,
            started(*self._options, output=journal, enter=self._enter, program=self._program) as self.process,
        ):
            yield self

    @property
    def metrics(self) -> dict[str, float]:
        """Return its metrics by name; none while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return {}
        pairs = (line.split() for line in lines if line.startswith("aqueduct_mirror"))
        return {name.removeprefix("aqueduct_mirror_"): float(number) for name, number in pairs}

    @property
    def tasks(self) -> float | None:
        return self.metrics.get("tasks")

    @property
    def stands_by(self) -> bool:
        """Return whether it last reported so. Its other lines are of clients that reach no broker."""
        lines = self.journal.read_text().splitlines()
        reports = [line for line in lines if line.endswith("is on standby") or " has tasks " in line]
        return bool(reports) and reports[-1].endswith("is on standby")

    @property
    def fences(self) -> int:
        return self.count("producer-fenced")

    def count(self, identifier: str) -> int:
        return self.journal.read_text().count(f"[{identifier}]")


@contextmanager
def written_meanwhile(flow: Flow) -> Iterator[None]:
    """Write numbered records to all partitions all the time, and wait for the last acknowledgement."""
    stopping = Event()

    def write() -> None:
        producer = clients.idempotent(flow.source, **{"linger.ms": 20})
        number = 0
        while not stopping.wait(0.05):
            for partition in PARTITIONS:
                values = [f"{partition} {number + n} {PADDING}" for n in range(RECORDS)]
                clients.write(producer, flow.topic, values, partition)
            number += RECORDS
        assert producer.flush(clients.SECONDS) == 0

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stopping.set()
        writer.join()


def moved(flow: Flow) -> int:
    return sum(clients.ends(flow.target, flow.topic, *PARTITIONS))


def wait_for_more(flow: Flow) -> None:
    before = moved(flow)
    clients.wait_for("more records", lambda: moved(flow) > before + 1_000)


def wait_for_tasks(workers: Sequence[Worker], *numbers: int) -> None:
    """Wait until the workers have so many tasks, in any order."""
    clients.wait_for(f"tasks {numbers}", lambda: sorted(w.tasks or 0 for w in workers) == sorted(numbers))


@pytest.fixture
def shared(source: Broker, target: Broker, tmp_path: Path) -> Flow:
    return Flow(source, target, clients.create(source, clients.unique("shared"), len(PARTITIONS)), tmp_path)


def check_all_arrived_once(flow: Flow) -> None:
    ends = clients.ends(flow.source, flow.topic, *PARTITIONS, isolation="read_committed")
    for partition, end in zip(PARTITIONS, ends, strict=True):
        arrived = clients.wait_for(f"partition {partition}", partial(records, flow, partition, end))
        values = [value for _, value, _, _ in arrived]
        assert values == [f"{partition} {number} {PADDING}".encode() for number in range(end)]


def flow_workers(flow: Flow) -> list[list[int]] | None:
    """Return the tasks of each worker, as `aqueduct mirror` lists them; None: they are unknown."""
    workers = flow.looked()["workers"]
    if workers is None:
        return None
    assert {worker["host"] for worker in workers} <= {socket.gethostname()}
    return sorted(worker["tasks"] for worker in workers)


def records(flow: Flow, partition: int, count: int) -> list[Record] | None:
    """Return the records of a target partition when it has so many; None before."""
    arrived = clients.records(flow.target, flow.topic, partition)
    return arrived if len(arrived) >= count else None


def test_standby_continues_after_kill_and_freeze(shared: Flow, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second, third = (Worker(shared, tmp_path, name, tasks=1) for name in ("1st", "2nd", "3rd"))
        stack.enter_context(first.running())
        wait_for_tasks([first], 1)
        stack.enter_context(second.running())
        clients.wait_for("a process that is on standby", lambda: second.tasks == 0)
        clients.wait_for("both workers", lambda: flow_workers(shared) == [[], [0]])
        assert shared.findings("--wait=400s") == []  # a stand-by is well
        with written_meanwhile(shared):
            wait_for_more(shared)
            first.process.kill()
            wait_for_tasks([second], 1)
            wait_for_more(shared)
            stack.enter_context(third.running())
            clients.wait_for("another that is on standby", lambda: third.tasks == 0)
            suspend(second.process.pid)
            wait_for_tasks([third], 1)
            wait_for_more(shared)
            second.process.send_signal(signal.SIGCONT)
            clients.wait_for("that it is on standby", lambda: second.tasks == 0)
            wait_for_more(shared)
        check_all_arrived_once(shared)
        assert (third.tasks, third.fences) == (1, 0)  # it was not fenced in turn
        assert second.process.poll() is None
        assert second.fences <= 1
        third.process.terminate()  # it leaves the group, so the other need not wait
        assert third.process.wait(clients.SECONDS) == 0
        wait_for_tasks([second], 1)
        clients.produce(shared.source, shared.topic, ["last"])
        clients.wait_for(
            "the last record",
            lambda: clients.records(shared.target, shared.topic)[-1][1] == b"last",
        )
        with Worker(shared, tmp_path, "4th", tasks=1).running() as fourth:
            clients.wait_for("a process that is on standby", lambda: fourth.tasks == 0)
            fourth.process.terminate()
            assert fourth.process.wait(clients.SECONDS) == 0


def test_tasks_are_shared_and_counted_once(shared: Flow, tmp_path: Path) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(shared, tmp_path, name, tasks=4).running()) for name in "abc"]
        wait_for_tasks(workers, 1, 1, 2)
        with written_meanwhile(shared):
            wait_for_more(shared)
            suspend(workers[0].process.pid)
            wait_for_tasks(workers[1:], 2, 2)
            wait_for_more(shared)
            workers[0].process.send_signal(signal.SIGCONT)
            wait_for_tasks(workers, 1, 1, 2)
            wait_for_more(shared)
            workers[1].process.terminate()
            assert workers[1].process.wait(clients.SECONDS) == 0
            wait_for_tasks([workers[0], workers[2]], 2, 2)
        check_all_arrived_once(shared)
        clients.wait_for("that each partition is counted once", partial(is_counted_once, workers[::2]))
        assert sum(worker.fences for worker in workers[1:]) == 0


def is_counted_once(workers: Sequence[Worker]) -> bool:
    """Return whether their metrics together are those of a flow that has caught up."""
    metrics = [worker.metrics for worker in workers]
    return [sum(of.get(name, -1) for of in metrics) for name in ("partitions", "lag")] == [len(PARTITIONS), 0]


def test_workers_yield_while_process_without_sharing_runs(shared: Flow, tmp_path: Path) -> None:
    with Worker(shared, tmp_path, "shared", tasks=1, program=SOON_AGAIN).running() as worker:
        wait_for_tasks([worker], 1)
        with written_meanwhile(shared):
            wait_for_more(shared)
            with shared.running() as other:
                wait_for_tasks([worker], 0)
                clients.wait_for("that it stands back, again and again", lambda: worker.count(TAKEN) >= 2)
                wait_for_more(shared)
                assert other.poll() is None
                clients.wait_for("the finding", lambda: {*labels(shared)} == {f"[{TAKEN}]"})
                clients.wait_for("the refused task", lambda: worker.metrics.get("refused") == 1)
                other.terminate()
                assert other.wait(clients.SECONDS) == 0
            wait_for_tasks([worker], 1)
            wait_for_more(shared)
        check_all_arrived_once(shared)
        assert shared.catch_up() == 0  # it has all tasks meanwhile
        wait_for_tasks([worker], 1)
        assert shared.findings("--wait=400s") == []
        assert worker.process.poll() is None


def test_task_that_fails_does_not_end_others(shared: Flow, tmp_path: Path) -> None:
    """The record in the topic of positions has a key that a later version may write."""
    assert shared.catch_up("--tasks", "2") == 0
    clients.produce(shared.target, positions_topic(shared.name), [{"key": '["x"]', "value": "y"}], 0)
    mine = [p for p in PARTITIONS if task_of(TopicPartition(shared.topic, p), 2) == 1]
    assert 0 < len(mine) < len(PARTITIONS)
    with Worker(shared, tmp_path, "worker", tasks=2, program=SOON_AGAIN).running() as worker:
        for number in range(3):  # also after the failed task was tried again
            clients.wait_for("the failure", partial(has_failed, worker, number + 1))
            for partition in PARTITIONS:
                clients.produce(shared.source, shared.topic, [f"{number}"], partition)
            for partition in mine:
                clients.wait_for("the record", partial(records, shared, partition, number + 1))
        clients.wait_for("the refused task", lambda: worker.metrics.get("refused", 0) >= 1)
        # One is the record, the other one is the status of the task.
        clients.wait_for("both findings", lambda: labels(shared) == [f"[{UNREADABLE}]"] * 2)
        assert worker.process.poll() is None


def labels(flow: Flow) -> list[str]:
    return [finding.split()[0] for finding in flow.findings()]


def has_failed(worker: Worker, times: int) -> bool:
    return worker.count(UNREADABLE) >= times


def test_task_moves_after_former_process_ends_its_work(target: Broker) -> None:
    flow = unique("flow")
    clients.create(target, positions_topic(flow), 2)
    end = End("target", target.plaintext)
    busy = Event()
    busy.set()
    with Membership(end, flow, lambda task: busy.is_set()) as former:
        clients.wait_for("both tasks", lambda: former.leases.keys() == {0, 1})
        leases = former.leases
        with Membership(end, flow, lambda task: False) as next_:
            [moved] = clients.wait_for(
                "the end of a lease", lambda: [of for of in leases.values() if of.ended.is_set()]
            )
            for _ in range(20):
                time.sleep(0.1)
                assert moved.task not in next_.leases
            busy.clear()
            clients.wait_for("the task", lambda: moved.task in next_.leases)


class OtherHost:
    """A network namespace that is joined with this machine's by a pair of virtual cards."""

    def __init__(self) -> None:
        number = os.getpid() % 250
        self.name, self._here, self._there = (f"aqueduct-{end}{number}" for end in ("h", "a", "b"))
        self.address = f"198.18.{number}.1"  # this machine's (RFC 2544)
        self._peer = f"198.18.{number}.2"
        self.enter = ["ip", "netns", "exec", self.name]

    @contextmanager
    def up(self) -> Iterator["OtherHost"]:
        ip("netns", "add", self.name)
        try:
            ip("link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self.name)
            ip("address", "add", f"{self.address}/30", "dev", self._here)
            ip("-n", self.name, "address", "add", f"{self._peer}/30", "dev", self._there)
            ip("link", "set", self._here, "up")
            ip("-n", self.name, "link", "set", "lo", "up")
            self.join()
            yield self
        finally:
            ip("netns", "delete", self.name)

    def cut(self) -> None:
        ip("-n", self.name, "link", "set", self._there, "down")

    def join(self) -> None:
        ip("-n", self.name, "link", "set", self._there, "up")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def test_standby_continues_for_a_host_without_network(tmp_path: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor() as starting:
        other_host = stack.enter_context(OtherHost().up())
        folders = [tmp_path / end for end in ("source", "target")]
        for folder in folders:
            folder.mkdir()
        running = [broker.running(folder, address=other_host.address) for folder in folders]
        ends = list(starting.map(stack.enter_context, running))
        topic = clients.create(ends[0], clients.unique("shared"), len(PARTITIONS))
        flow = Flow(ends[0], ends[1], topic, tmp_path)
        far = Worker(flow, tmp_path, "far", 1, other_host.enter)
        stack.enter_context(far.running())
        clients.wait_for("the far host's task", lambda: flow_workers(flow) == [[0]])
        near = stack.enter_context(Worker(flow, tmp_path, "near", 1).running())
        clients.wait_for("both workers", lambda: flow_workers(flow) == [[], [0]])
        assert near.tasks == 0
        with written_meanwhile(flow):
            wait_for_more(flow)
            other_host.cut()
            wait_for_tasks([near], 1)
            wait_for_more(flow)
            clients.wait_for("that the far host's task ends", lambda: far.stands_by)
            other_host.join()
            clients.wait_for("both workers", lambda: flow_workers(flow) == [[], [0]])
            wait_for_more(flow)
        check_all_arrived_once(flow)
        assert (near.tasks, near.fences, far.process.poll()) == (1, 0, None)
