"""What a job's tasks have of their driver's, and what stops them before they write."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyspark.accumulators import INT_ACCUMULATOR_PARAM, Accumulator

from aqueduct.common import job_files, keys
from aqueduct.common.job_files import JobFiles
from aqueduct.errors import Failed
from aqueduct.kafka import client_config
from aqueduct.store.backends import open_store
from aqueduct.store.signing import signing_key
from aqueduct.work import environment, results, spark_errors
from aqueduct.work.spark import _attempt
from servers.pki import Authority

HOST = os.uname().nodename
COUNT = Accumulator(0, 0, INT_ACCUMULATOR_PARAM)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder of a store, which is the only one of its driver; others may look into it."""
    for known in ("_shared", "_proofs", "_named"):
        monkeypatch.setattr(job_files, known, type(getattr(job_files, known))())
    with tempfile.TemporaryDirectory() as outer:
        Path(outer).chmod(0o755)
        folder = Path(outer, "store")
        open_store(f"file://{folder}").create("store.json", b"one")
        yield folder


@pytest.fixture
def files(store: Path) -> Iterator[JobFiles]:
    with job_files.packed() as files:
        yield files


def attempt(files: JobFiles, folder: Path, code: str = environment.OWN_CODE) -> str:
    """Run a task that would write; return why it was refused, before it wrote."""
    written = folder / "written"

    def write(text: str) -> int:
        return written.write_text(text)

    _, result = results.loads(int, _attempt(write, code, files, COUNT, COUNT, ("by a task", 0)))
    assert not written.exists()
    assert isinstance(result, Failed)
    return str(result)


def test_the_drivers_folder_is_worked_in(files: JobFiles, store: Path) -> None:
    def write(text: str) -> int:
        return (store / "written").write_text(text)

    returned = _attempt(write, environment.OWN_CODE, files, COUNT, COUNT, ("by a task", 0))
    assert results.loads(int, returned) == (HOST, 9)


@pytest.mark.usefixtures("store")
def test_tasks_ask_hdfs_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "lander")
    with job_files.packed() as files:
        assert files.variables["HADOOP_USER_NAME"] == "lander"


def test_another_folder_at_the_same_path_is_refused(files: JobFiles, store: Path) -> None:
    """Put a copy there that is as old as the job: a host's own disk, where the mount is missing."""
    store.rename(store.with_name("mount"))
    shutil.copytree(store.with_name("mount"), store, ignore=shutil.ignore_patterns("probe-*"))
    said = f"On {HOST}, {store} is not the folder of the driver."
    assert attempt(files, store).startswith(said)
    (store / files.probes[0].path).write_bytes(b"of another job")
    assert attempt(files, store).startswith(said)


def test_error_names_store_unreadable_for_task_user(files: JobFiles, store: Path) -> None:
    (store / ".writing").chmod(0o700)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)  # root may read everywhere
    else:
        (store / ".writing").chmod(0)
    try:
        said = attempt(files, store)
        assert said.startswith(
            f"On {HOST}, user {os.geteuid()} cannot read the file:// store {store}: Permission denied"
        )
    finally:
        os.seteuid(before)
        (store / ".writing").chmod(0o700)


def test_unwritable_store_is_recognised_by_existing_file(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(store / ".writing")
    (store / ".writing").write_bytes(b"no folder")
    with job_files.packed() as files:
        assert [each.path for each in files.probes] == ["store.json"]
        files.unpack()
        (store / "store.json").write_bytes(b"another")
        assert attempt(files, store).startswith(f"On {HOST}, {store} is not the folder of the driver.")


@pytest.fixture
def forgotten() -> Iterator[None]:
    job_files.forget()
    yield
    job_files.forget()


@pytest.mark.usefixtures("forgotten")
def test_keys_that_no_task_needs_are_known(tmp_path: Path) -> None:
    """Have an administrator's key, a signing key and a recipient's: Spark's JVM must not read them."""
    admin, tasks = (Authority(tmp_path / name).client_config(name) for name in ("admin", "tasks"))
    signing, recipient = tmp_path / "signing.pem", tmp_path / "recipient.key"
    pair = Ed25519PrivateKey.generate()
    signing.write_bytes(pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    recipient.write_text(keys.ReceiverKey.generate().text())
    for key in (signing, recipient):
        key.chmod(0o600)
    signing_key(signing)
    keys.load(keys.ReceiverKey, recipient)
    client_config.load(admin)
    client_config.load(tasks, for_tasks=True)
    assert job_files.kept() == {*map(str, (signing, recipient, admin, admin.with_suffix(".pem")))}


def test_executor_with_other_code_version_runs_nothing(files: JobFiles, store: Path) -> None:
    assert attempt(files, store, code="another version's") == spark_errors.OTHER_VERSION
