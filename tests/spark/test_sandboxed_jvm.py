"""Spark's JVM on a cluster: it does its work, and cannot read the keys of the command that started it."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from kit import clients

from aqueduct.common.keys import ReceiverKey
from aqueduct.work import sandbox
from servers.broker import Broker

BOUND_SECONDS = 1000  # of Spark, which can wait for ever
RECORDS = 1_000


@pytest.fixture(scope="module")
def keys() -> Iterator[Path]:
    """Return a folder with keys, outside of /tmp, where Spark has files of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        signing, recipient = Ed25519PrivateKey.generate(), ReceiverKey.generate()
        private = signing.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = signing.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for name, data in {
            "signing.pem": private,
            "signing.pub": public,
            "recipient.key": recipient.text().encode(),
            "recipient.pub": recipient.public.text().encode(),
        }.items():
            path = Path(folder, name)
            path.write_bytes(data)
            path.chmod(0o600)
        yield Path(folder)


@pytest.fixture(scope="module")
def found(keys: Path, brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a backup and a restore came to, and what the JVM could read."""
    topic = clients.numbered(brokers[0], "sandboxed", 2, RECORDS)
    program = Path(__file__).with_name("sandboxed.py")
    folder = tmp_path_factory.mktemp("sandboxed")
    ends = (each.plaintext for each in brokers)
    command = [sys.executable, str(program), str(folder), str(keys), *ends, topic]
    run = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS)
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    said = [told[verb]["said"] for verb in ("backup", "restore")]
    assert (told["backup"]["code"], told["restore"]["code"]) == (0, 3), "\n".join(said)
    return {**told, "restored": len(clients.records(brokers[1], topic, 0, 1))}


def test_this_kernel_has_landlock() -> None:
    """Without it, the tests below could not tell whether keys are hidden."""
    assert sandbox.supported()


def test_a_backup_and_a_restore_work(found: dict[str, Any]) -> None:
    assert found["restored"] == 2 * RECORDS


@pytest.mark.parametrize(
    "key", ["signing.pem", "recipient.key", "the memory of the driver", "a file in memory of the driver"]
)
def test_the_jvm_reads_no_key(found: dict[str, Any], key: str) -> None:
    assert not found["read"][key]


@pytest.mark.parametrize("file", ["signing.pub", "recipient.pub", "its own log"])
def test_the_jvm_reads_other_files(found: dict[str, Any], file: str) -> None:
    assert found["read"][file]


def test_key_readable_by_jvm_is_reported(found: dict[str, Any]) -> None:
    assert "spark-key-within-reach" not in found["backup"]["said"]
    (line,) = [each for each in found["restore"]["said"].splitlines() if "[spark-key-within-reach]" in each]
    assert "recipient.key" in line
    report = found["restore"]["report"]
    assert report["exit_code"] == 3
    assert [entry["id"] for entry in report["left_out"]] == ["spark-key-within-reach"]
    assert found["read"]["a key in a folder that Spark needs"]


def test_a_process_without_the_sandbox_reads_them(keys: Path) -> None:
    """The control: the same user, and no sandbox."""
    key = keys / "signing.pem"

    def cat() -> bool:
        return subprocess.run(["cat", key], capture_output=True, timeout=BOUND_SECONDS).returncode == 0

    assert cat()
    assert not sandbox.without([str(key)], cat)
