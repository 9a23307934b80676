import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers import hdfs as hdfs_server
from servers.hdfs import HdfsServer
from servers.object_store import Gateway, running
from servers.pki import Authority


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a server over TLS, whose CA the system does not know."""
    directory = tmp_path_factory.mktemp("gateway")
    with running(directory, Authority(directory / "pki")) as started:
        yield started


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    with hdfs_server.running(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove settings, files and machine roles of AWS, and proxies, but those that a test sets."""
    for name in os.environ:
        if name.startswith(("AWS_", "SSL_CERT_", "HADOOP_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@pytest.fixture
def s3(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """Return the gateway, as the environment says."""
    for name, value in gateway.environment.items():
        monkeypatch.setenv(name, value)
    return gateway
