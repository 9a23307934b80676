"""The archive of a cluster's Python workers, packed from what is installed here."""

import re
import shutil
import subprocess
import sys
import tarfile
from contextlib import redirect_stdout
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.identifiers import printed, raises

from aqueduct import cli
from aqueduct.errors import Failed, Refused
from aqueduct.work import environment


class Archive(NamedTuple):
    file: Path
    said: list[str]  # by the command that wrote it
    members: list[tarfile.TarInfo]
    folder: Path  # in which it is unpacked


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Write and unpack the archive once: it contains 400 MB."""
    out = tmp_path_factory.mktemp("environment") / "env.tar.gz"
    with redirect_stdout(StringIO()) as said:
        assert cli.main(["environment", "--out", str(out)]) == 0
    assert [each.name for each in out.parent.iterdir()] == [out.name]
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(out) as opened:
        opened.extractall(folder, filter="data")
        return Archive(out, said.getvalue().splitlines(), opened.getmembers(), folder)


def test_command_lists_packages_of_tasks(archive: Archive) -> None:
    assert archive.said[0].startswith(f"{archive.file}: {len(archive.said) - 1} packages, ")
    assert f"numpy {distribution('numpy').version}" in archive.said
    assert not any(each.startswith(("pyspark ", "py4j ", "pytest ")) for each in archive.said)


def test_the_same_packages_make_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [
        package
        for package in environment.needed()
        if sum(file.size or 0 for file in package.files or []) < 1_000_000
    ]
    monkeypatch.setattr(environment, "needed", lambda: iter(small))
    one, again = tmp_path / "one.tar.gz", tmp_path / "again.tgz"
    assert len(environment.write(one)) == len(small) > 10
    environment.write(again)
    assert again.read_bytes() == one.read_bytes()


def test_archive_contains_task_dependencies_and_no_host_files(archive: Archive) -> None:
    assert {(each.uid, each.mtime, each.isreg()) for each in archive.members} == {(0, 0, True)}
    program = (
        "import aqueduct.snapshots.backup.run, aqueduct.mirror.reconcile.reader, boto3, sys; "
        "from importlib.metadata import version; print(version('aqueduct-estate'), *sys.path)"
    )
    # Without what this process has: its Python is another installation's, if there is one.
    path = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"}
    command = [str(archive.folder / "bin/python"), "-c", program]
    done = subprocess.run(command, env=path, capture_output=True, text=True, cwd=archive.folder)
    assert done.stderr == ""
    version, *where = done.stdout.split()
    assert version == distribution("aqueduct-estate").version
    assert str(archive.folder / "lib") in where
    assert not any(each.startswith(sys.prefix) for each in where)


def test_a_host_with_another_python_says_so(archive: Archive, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, said in (("uname", "vm"), ("dirname", "/"), ("python3", "3.9")):
        (tools / name).write_text(f"#!/bin/sh\necho {said}\n")
        (tools / name).chmod(0o755)
    command = [str(archive.folder / "bin/python"), "-c", "print('ran')"]

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True)

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    done = run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aqueduct: The worker vm has the machine type vm: its environment is for ")

    (tools / "uname").unlink()
    (tools / "uname").symlink_to("/bin/uname")
    done = run()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"has no python{python}: its environment is for Python {python} on " in done.stderr


@pytest.mark.parametrize(
    ("out", "code", "id_"),
    [("env.zip", 2, "archive-name-invalid"), ("none/env.tar.gz", 1, "archive-unwritable")],
)
def test_bad_input_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, code: int, id_: str
) -> None:
    assert cli.main(["environment", "--out", str(tmp_path / out)]) == code
    said = capsys.readouterr().err
    assert printed(said) == [id_]
    assert str(tmp_path / out) in said
    assert said.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_a_changed_file_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the digest that stands for a file, instead of the file, which other tests use."""
    monkeypatch.setattr(environment, "_digest", lambda *_: "other")
    with raises(Failed, "spark-environment-mismatch") as error:
        environment.write(tmp_path / "env.tar.gz")
    assert re.search(r"^/\S+ .*\b\w\S* \d+\.\d", str(error.value)), "the file, its package and the version"
    assert not [*tmp_path.iterdir()]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_jmespath(name: str) -> Distribution:
        if name == "jmespath":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(environment, "distribution", without_jmespath)
    with raises(Refused, "python-package-missing", "jmespath", "aqueduct-estate[spark]") as error:
        environment.write(tmp_path / "env.tar.gz")
    assert re.search(r"\bboto\w+", str(error.value)), "the package that needs it"
    assert not [*tmp_path.iterdir()]


def test_requirements_as_metadata_writes_them() -> None:
    written = [
        'boto3==1.44.5; extra == "spark"',
        "ansible==1; extra == 'dev'",
        "kafka-python>=3,<4",
        "no-such-package; python_version < '3.0'",
        "numpy (>=1.23) ; python_version > '3.0'",
        "botocore[crt]<2; extra == 'crt'",
    ]
    assert [*environment.requirements(written, {"spark"})] == ["boto3", "kafka-python", "numpy"]
    assert [*environment.requirements(written, set())] == ["kafka-python", "numpy"]


def test_the_fingerprint_is_of_modules_wherever_they_are(archive: Archive, tmp_path: Path) -> None:
    for name in ("bin", "lib/aqueduct"):
        shutil.copytree(archive.folder / name, tmp_path / name)
    program = "from aqueduct.work.environment import fingerprint; print(fingerprint())"

    def there() -> str:
        command = [str(tmp_path / "bin/python"), "-c", program]
        path = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"}
        done = subprocess.run(command, env=path, capture_output=True, text=True, cwd=tmp_path, check=True)
        return done.stdout.strip()

    assert there() == environment.fingerprint()
    with (tmp_path / "lib/aqueduct/common/topic_names.py").open("a") as other:
        other.write("# another version\n")
    assert there() != environment.fingerprint()
