"""A real S3 server: versitygw, whose binary AQUEDUCT_VERSITYGW names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.pki import Authority
from servers.process import Process, binary, free_ports, listens

ACCESS_KEY = "tests-access-key"
SECRET_KEY = "tests-secret-key"  # noqa: S105
REGION = "eu-test-1"


@dataclass(frozen=True)
class Gateway:
    """A server on a port of its own, which it keeps when it is started again. Buckets are folders."""

    directory: Path
    authority: Authority | None  # None: without TLS
    port: int
    process: Process

    @property
    def endpoint(self) -> str:
        return f"http{'s' if self.authority else ''}://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment by which an S3 client finds it, with all rights."""
        common = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION}
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        trust = {"AWS_CA_BUNDLE": str(self.authority.certificate)} if self.authority else {}
        return common | keys | (trust or {"AWS_ALLOW_HTTP": "true"})

    def bucket(self, name: str) -> Path:
        folder = self.directory / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@contextmanager
def running(directory: Path, authority: Authority | None, *options: str) -> Iterator[Gateway]:
    """Yield a server that keeps everything in the directory, with the bucket `store`."""
    [port] = free_ports(1)
    data, users = directory / "data", directory / "iam"
    for folder in (data / "store", users):
        folder.mkdir(parents=True, exist_ok=True)
    command = [binary("AQUEDUCT_VERSITYGW"), "--port", f"127.0.0.1:{port}", "--region", REGION, *options]
    command += ["--iam-dir", str(users), "--quiet"]
    if authority:
        pem = str(authority.issue("gateway"))
        command += ["--cert", pem, "--key", pem]
    keys = {"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    log = directory / "gateway.log"
    process = Process([*command, "posix", str(data)], log, lambda: listens(port), keys)
    with process.running():
        yield Gateway(directory, authority, port, process)
