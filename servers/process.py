"""How a server's process is started, killed and started again."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

START_SECONDS = 400  # a limit only ends waits that would never end
STOP_SECONDS = 60
PORTS = range(20_000, 32_000)  # below those of outgoing connections (ip_local_port_range), which may take any
WORKERS = 8  # of pytest's, at most, on one machine
GIVEN: set[int] = set()  # ports
GIVING = Lock()
# A JVM that starts soon, or one with both compilers: without C2 a broker is several times slower.
QUICK = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
FAST = ("-Xmx1g",)


class Process:
    """A server's process, which may be killed and started again: what it wrote stays."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._log, self._ready, self._environment = command, log, ready, environment

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Return whether the server has ended since it was started, by itself or killed."""
        return self._process.poll() is not None

    def start(self) -> None:
        """Return when the server is ready to be used; RuntimeError with what it said if it does not start."""
        with self._log.open("a") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, env=self._environment)
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                state = f"is not ready after {START_SECONDS} s" if code is None else f"ended with {code}"
                raise RuntimeError(f"{self._command[0]} {state}:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Stop the server as a host does that loses its power, but for its disks."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the server as systemd does."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pause the server: it takes connections, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.id, os.WSTOPPED)  # on a busy machine a thread may answer until then
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def running(self) -> Iterator["Process"]:
        """Yield it from when it is ready on; nothing of it is kept."""
        self.start()
        try:
            yield self
        finally:
            self.kill()


def binary(name: str) -> str:
    """Return what a variable of the environment names."""
    if not (path := os.environ.get(name)):
        raise RuntimeError(f"{name} is not set: have_test_software of script/_setup.sh sets it")
    return path


def java(
    main: str, *arguments: str | Path, jvm: Sequence[str] = QUICK, variable: str = "AQUEDUCT_KAFKA_JARS"
) -> list[str]:
    """Return the command that runs a program of Kafka's, from the jars that a variable names."""
    jars = binary(variable)
    shared = ("-Xshare:auto", f"-XX:SharedArchiveFile={jars}.jsa", "-Xlog:cds*=off")  # see kafka_classes
    return ["java", *jvm, *shared, "-cp", f"{jars}/*", main, *map(str, arguments)]


def free_ports(number: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Return ports of 127.0.0.1 that nobody has, and that nobody is given before they are used.

    A server takes its port seconds after this looked. So each of pytest's workers has ports of its own, and
    gives each away once.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = PORTS[worker % WORKERS :: WORKERS]
    found: dict[int, socket.socket] = {}
    with GIVING, ExitStack() as stack:
        if len(GIVEN) > len(own) // 2:
            GIVEN.clear()
        while len(found) < number:
            port = random.choice(own)  # noqa: S311
            if port in GIVEN:
                continue
            probe = stack.enter_context(socket.socket(type=kind))
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found[port] = probe
                GIVEN.add(port)
        return list(found)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
