"""A real S3 server for tests: versitygw, whose binary AQUEDUCT_VERSITYGW names."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pki import Authority

START_SECONDS = 60
ACCESS_KEY = "tests-access-key"
SECRET_KEY = "tests-secret-key"  # noqa: S105
REGION = "eu-test-1"


@dataclass
class Gateway:
    """A server on a port of its own, which it keeps when it is started again. Buckets are folders."""

    directory: Path
    authority: Authority | None  # None: without TLS
    options: tuple[str, ...] = ()
    port: int = 0
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"http{'s' if self.authority else ''}://127.0.0.1:{self.port}"

    def bucket(self, name: str) -> Path:
        folder = self.directory / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def start(self) -> None:
        binary = os.environ.get("AQUEDUCT_VERSITYGW")
        assert binary, "set AQUEDUCT_VERSITYGW to the binary of versitygw: this test runs a real S3 server"
        self.bucket("store")
        (self.directory / "iam").mkdir(exist_ok=True)
        self.port = self.port or _free_port()
        command = [binary, "--port", f"127.0.0.1:{self.port}", "--region", REGION, *self.options]
        command += ["--iam-dir", str(self.directory / "iam"), "--quiet"]
        if self.authority:
            pem = str(self.authority.issue("gateway"))
            command += ["--cert", pem, "--key", pem]
        environment = {
            "PATH": os.environ["PATH"],
            "ROOT_ACCESS_KEY": ACCESS_KEY,
            "ROOT_SECRET_KEY": SECRET_KEY,
        }
        with (self.directory / "gateway.log").open("a") as log:
            self._process = subprocess.Popen(
                [*command, "posix", str(self.directory / "data")], env=environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError(f"versitygw did not start:\n{(self.directory / 'gateway.log').read_text()}")

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(directory: Path, authority: Authority | None, *options: str) -> Iterator[Gateway]:
    """Yield a server that keeps everything in the directory, with the bucket `store`."""
    directory.mkdir(parents=True, exist_ok=True)
    gateway = Gateway(directory, authority, options)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
