"""A site's Spark cluster, to break, and one of our commands that works there."""

import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from lab import Lab, wait_until

import demo.spark

AQUEDUCT = "/opt/aqueduct/spark/bin/aqueduct"
# A worker that hangs is given up soon, so that a test needs not wait for it; a cluster that recovers beside
# other scenarios takes minutes.
SOON = (
    "--wait=600s",
    "--conf=spark.executor.heartbeatInterval=2s",
    "--conf=spark.network.timeout=12s",
    "--conf=spark.network.timeoutInterval=2s",
)
EXECUTOR = "CoarseGrainedExecutorBackend"
_numbers = count()


class Command:
    """One of our commands in a host, as a unit that can be killed."""

    def __init__(self, lab: Lab, host: str, properties: Sequence[str], *arguments: str) -> None:
        self.lab, self.host, self.unit = lab, host, f"fault-{next(_numbers)}"
        unit = ("--quiet", "--wait", "--pipe", "--collect", f"--unit={self.unit}")
        own = (f"--property={each}" for each in properties)
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            lab.command(host, "systemd-run", *unit, *own, "--", AQUEDUCT, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    @property
    def said(self) -> str:
        return "".join(self._lines)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """kill -9 of the driver's Python; Spark's JVM is its child and goes by itself."""
        assert self.running, f"it had ended: {self.said}"
        self.lab.kill(self.host, self.unit)

    def ended(self) -> tuple[int, str]:
        """Return its exit code, and what it said."""
        code = self._process.wait(1800)
        self._reader.join(60)
        return code, self.said


@dataclass(frozen=True)
class SparkCluster:
    lab: Lab
    site: str
    master: str
    workers: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"spark://{self.master}:7077"

    def executors(self, worker: str) -> list[str]:
        """Return the process ids of a worker's executors."""
        found = self.lab.run(worker, "pgrep", "--full", EXECUTOR, check=False)
        return found.stdout.split()

    def wait_until_it_works(self, command: Command) -> None:
        """Wait until a command has compared its workers, and gives them tasks."""

        def works() -> bool:
            return f"on Spark at {self.url}," in command.said or not command.running

        wait_until("the command to work on Spark", works)
        assert command.running, f"it had ended: {command.said}"

    def at_work(self) -> list[str]:
        """Return the workers whose tasks speak with Kafka."""
        established = (":2384 01 ", "/proc/net/tcp", "/proc/net/tcp6")  # to port 9092
        seen = ((each, self.lab.run(each, "grep", "-qs", *established, check=False)) for each in self.workers)
        return [worker for worker, found in seen if found.returncode == 0]

    def _one_at_work(self, chance: random.Random) -> str:
        at_work: list[str] = wait_until("a worker at work", self.at_work)
        return chance.choice(at_work)

    def kill_executor(self, worker: str) -> None:
        """kill -9 of a worker's executors, or of the next one; the worker starts others."""
        kill = ("pkill", "-KILL", "--full", EXECUTOR)
        # One of an application that has ended may go by itself before the blow.
        wait_until(
            f"an executor of {worker}", lambda: self.lab.run(worker, *kill, check=False).returncode == 0
        )

    def kill_worker(self, worker: str) -> None:
        """kill -9 of a worker and all that it has started; systemd starts it again."""
        kill = ("systemctl", "kill", "--signal=KILL", "--kill-whom=all", "spark_worker")
        wait_until(f"the worker {worker}", lambda: self.lab.run(worker, *kill, check=False).returncode == 0)

    def kill_master(self, _: str) -> None:
        self.lab.kill(self.master, "spark_master")

    def lost_executors(self, application: str, since: float) -> int:
        """Count what an application has lost, by the event logs of the master's host."""
        logs = demo.spark.logs(self.lab, self.master, application, since)
        return sum(each["Event"] == "SparkListenerExecutorRemoved" for log in logs for each in log)

    def strike(self, chance: random.Random, *faults: str) -> None:
        """Kill one after another, each while tasks are at work; executors and workers, of those."""
        blows: dict[str, Callable[[str], None]] = {
            "executor": self.kill_executor,
            "worker": self.kill_worker,
            "master": self.kill_master,
        }
        for fault in faults:
            self._one_at_work(chance)
            time.sleep(chance.uniform(0, 1.5))
            worker = self._one_at_work(chance)
            blows[fault](worker)
            print(f"kill -9: {fault}{'' if fault == 'master' else f', {worker}'}", flush=True)

    def make_a_zombie(self, chance: random.Random, given: Callable[[], object]) -> None:
        """Stop a worker and all that it has started; let it go on when its task was `given` to another."""
        worker = self._one_at_work(chance)
        signal = ("systemctl", "kill", "--kill-whom=all")
        stopped = time.monotonic()
        self.lab.run(worker, *signal, "--signal=STOP", "spark_worker")
        try:
            wait_until(f"another worker with the task of {worker}, which hangs", given)
        finally:
            self.lab.run(worker, *signal, "--signal=CONT", "spark_worker")
        print(f"{worker} hung for {time.monotonic() - stopped:.0f} s, and came back as a zombie", flush=True)

    def whole_again(self) -> None:
        """Wait for the cluster, which systemd has started again."""
        done = self.lab.play("spark", f"--limit=site_{self.site}")
        assert done.returncode == 0, done.stdout
