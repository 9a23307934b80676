"""A captured JVM of Spark that puts the driver's hidden keys where files for workers are.

The "JVM" is a shell that the real sandbox starts. The driver is this process.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from aqueduct.common import guarded_files, job_files
from aqueduct.errors import Failed
from aqueduct.store import sessions
from aqueduct.store.backends import open_store
from aqueduct.work import sandbox

BOUND_SECONDS = 60
ADMIN, TASK, CA, SIGNING = (f"{name} PRIVATE KEY" for name in ("ADMIN", "TASK", "CA", "SIGNING"))
ID = "task-file-replaced"


@pytest.fixture(autouse=True)
def _driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be a new driver, without a JVM."""
    monkeypatch.setattr(guarded_files, "_running", [False])
    job_files.forget()
    yield
    job_files.forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a restore: the key of `admin`, a CA, and below it the key of tasks."""
    (tmp_path / "tasks").mkdir()
    files = {"admin.pem": ADMIN, "client.properties": "x", "ca.pem": CA, "tasks/restore.pem": TASK}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    job_files.keep(tmp_path / "admin.pem")
    job_files.remember(str(tmp_path / "tasks/restore.pem"))
    return tmp_path


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    return {"AWS_CA_BUNDLE": str(folder / "ca.pem"), "AWS_ACCESS_KEY_ID": "id"}


def sent(environment: Mapping[str, str]) -> dict[str, bytes]:
    with job_files.packed(environment) as files:
        return {Path(name).name: content for name, content in files.contents.items()}


def refused(environment: Mapping[str, str]) -> bool:
    with pytest.raises(Failed) as failure, job_files.packed(environment):
        pass
    return failure.value.id == ID


def shell(script: str, folder: Path) -> int:
    return subprocess.run(
        ["/bin/sh", "-c", script], cwd=folder, capture_output=True, timeout=BOUND_SECONDS
    ).returncode


ATTACKS = {
    "a link": "ln -sf {0}/admin.pem {1}",
    "a relative link": "rm {1}; cd $(dirname {1}); ln -s $(realpath --relative-to=. {0}/admin.pem) {1}",
    "a hard link": "ln -f {0}/admin.pem {1}",
    "the file itself": "mv {0}/admin.pem {1}",
    "a folder that is a link": "mv {0}/tasks {0}/old; mkdir {0}/x; ln {0}/admin.pem {0}/x/restore.pem;"
    " ln -s {0}/x {0}/tasks; ln -sf {0}/admin.pem {0}/ca.pem",
    "a copy": "cp --remove-destination {0}/admin.pem {1}",
    "two links": "ln -s {0}/admin.pem {0}/z; ln -sf z {0}/ca.pem; ln -sf {0}/z {1}",
}


@pytest.mark.parametrize("file", ["ca.pem", "tasks/restore.pem"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hidden_key_is_not_sent(folder: Path, environment: dict[str, str], attack: str, file: str) -> None:
    """Replace files without the sandbox, so that nothing but the driver stands in the way."""
    assert sent(environment) == {"ca.pem": CA.encode(), "restore.pem": TASK.encode()}
    shell(ATTACKS[attack].format(folder, folder / file), folder)
    assert refused(environment)


def test_a_renewed_hidden_key_is_not_sent(folder: Path, environment: dict[str, str]) -> None:
    sent(environment)
    (folder / "new").write_text("RENEWED")
    (folder / "new").rename(folder / "admin.pem")
    (folder / "ca.pem").unlink()
    os.link(folder / "admin.pem", folder / "ca.pem")
    assert refused(environment)


def test_a_key_in_memory_is_not_sent(folder: Path, environment: dict[str, str]) -> None:
    inline = job_files.in_memory(b"INLINE")
    job_files.keep(inline)
    sent(environment)
    (folder / "ca.pem").unlink()
    (folder / "ca.pem").symlink_to(inline)
    assert refused(environment)


def test_renewed_files_are_sent(folder: Path, environment: dict[str, str]) -> None:
    sent(environment)
    for name in ("ca.pem", "tasks/restore.pem"):
        (folder / "new").write_text("renewed")
        (folder / "new").rename(folder / name)
    assert sent(environment) == {"ca.pem": b"renewed", "restore.pem": b"renewed"}


def test_in_memory_files_and_existing_symlinks_are_sent(folder: Path, environment: dict[str, str]) -> None:
    (folder / "link.pem").symlink_to("tasks/../ca.pem")
    inline = job_files.in_memory(b"inline")
    job_files.remember(inline)
    environment["AWS_CA_BUNDLE"] = str(folder / "link.pem")
    expected = {"link.pem": CA.encode(), "restore.pem": TASK.encode(), Path(inline).name: b"inline"}
    assert sent(environment) == expected
    assert sent(environment) == expected


def test_a_link_that_another_user_renews_is_followed() -> None:
    with tempfile.TemporaryDirectory() as outer:
        Path(outer).chmod(0o755)
        link = Path(outer, "token")
        for name in ("first", "second"):
            Path(outer, name).write_text(name)
        environment = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(link)}
        link.symlink_to("first")
        assert sent(environment) == {"token": b"first"}
        link.unlink()
        link.symlink_to("second")
        assert refused(environment)
        os.seteuid(65534)
        try:
            assert sent(environment) == {"token": b"second"}
        finally:
            os.seteuid(0)


def test_hidden_key_that_user_gives_tasks_is_sent(folder: Path, environment: dict[str, str]) -> None:
    job_files.keep(folder / "tasks/restore.pem")
    assert sent(environment)["restore.pem"] == TASK.encode()
    assert sent(environment)["restore.pem"] == TASK.encode()
    shell("ln -f admin.pem tasks/restore.pem", folder)
    assert refused(environment)


def test_default_s3_files_are_fixed_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("mine")
    (tmp_path / "signing.pem").write_text(SIGNING)
    job_files.keep(tmp_path / "signing.pem")
    job_files.prove("s3://bucket/prefix", lambda: None)
    assert sent({}) == {"credentials": b"mine"}
    (tmp_path / ".aws/config").symlink_to(tmp_path / "signing.pem")
    assert sent({}) == {"credentials": b"mine"}
    (tmp_path / ".aws/credentials").unlink()
    (tmp_path / ".aws/credentials").symlink_to(tmp_path / "signing.pem")
    assert refused({})


def test_credential_process_changed_after_start_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sessions, "_programs", set())
    config, ran = tmp_path / "config", tmp_path / "ran"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    answer = tmp_path / "answer.json"
    answer.write_text('{"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "secret"}')
    config.write_text(f"[default]\ncredential_process = cat {answer}\n")
    open_store("s3://bucket/prefix")
    sent({})
    open_store("s3://bucket/prefix")
    config.write_text(f"[default]\ncredential_process = touch {ran}\n")
    with pytest.raises(Failed) as failure:
        open_store("s3://bucket/prefix")
    assert failure.value.id == ID
    assert not ran.exists()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_unwritable_store_cannot_use_linked_key_as_probe(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "signing.pem").write_text(SIGNING)
    job_files.keep(tmp_path / "signing.pem")
    store = open_store(f"file://{tmp_path}/store")
    store.create("store.json", b"one")
    sent({})
    (tmp_path / "store/.writing").rename(tmp_path / "moved")
    (tmp_path / "store/.writing").write_bytes(b"no folder")
    (tmp_path / "store/store.json").unlink()
    link(tmp_path / "signing.pem", tmp_path / "store/store.json")
    assert refused({})
    with pytest.raises(Failed) as failure:
        store.read("store.json")
    assert failure.value.id == ID
    with pytest.raises(Failed) as failure:
        list(store.stream("store.json"))
    assert failure.value.id == ID


@pytest.mark.parametrize("file", ["ca.pem", "tasks/restore.pem"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_jvm_cannot_put_a_key_there(
    folder: Path, environment: dict[str, str], attack: str, file: str
) -> None:
    """Start the attack in the sandbox: the kernel refuses it, and the next job gets what it needs."""
    task_files = job_files.fix(environment)
    script = ATTACKS[attack].format(folder, folder / file)
    sandbox.without(job_files.kept(), lambda: shell(script, folder), task_files)
    assert sent(environment) == {"ca.pem": CA.encode(), "restore.pem": TASK.encode()}
    assert (folder / "admin.pem").read_text() == ADMIN


def test_the_jvm_works_in_its_own_folders(folder: Path, environment: dict[str, str]) -> None:
    for name in ("own", "tasks/own"):
        (folder / name).mkdir()
    script = "cat ../ca.pem && echo 1 > a && ln -s a b && mkdir c && mv a c/a && cat c/a && rm -r b c"
    task_files = job_files.fix(environment)
    for name in ("own", "tasks/own"):
        run = script.replace("../ca.pem", str(folder / "ca.pem"))
        assert sandbox.without(job_files.kept(), lambda: shell(run, folder / name), task_files) == 0  # noqa: B023
    assert shell("cat admin.pem", folder) == 0
    assert sandbox.without(job_files.kept(), lambda: shell("cat admin.pem", folder)) != 0
