"""script/release, in a repository of its own: the files, the commit and the tag of a release; refusals."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from kit import release_files

VERSION = (release_files.ROOT / "VERSION").read_text().strip()


class Repository:
    """A repository with one commit: what git has of this checkout, or would take."""

    def __init__(self, folder: Path) -> None:
        self.folder = release_files.export(folder / "aqueduct")
        (self.folder / ".venv").symlink_to(sys.prefix)
        changelog = self.folder / "CHANGELOG.md"
        heading = rf"^## \[{re.escape(VERSION)}\] - .*$"
        open_section = f"## [{VERSION}] - Unreleased"
        changelog.write_text(re.sub(heading, open_section, changelog.read_text(), flags=re.MULTILINE))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "A maintainer")
        self.git("config", "user.email", "maintainer@example.com")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=Everything")

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def release(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [self.folder / "script/release", *arguments]
        bare = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))
        }
        return subprocess.run(command, env=bare, capture_output=True, text=True, check=False)

    def state(self) -> tuple[str, str, str, bool]:
        refs = self.git("for-each-ref"), self.git("status", "--porcelain"), self.git("tag")
        return *refs, (self.folder / "dist").exists()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("release"))


@pytest.fixture
def untouched(repository: Repository) -> Iterator[Repository]:
    before = repository.state()
    yield repository
    repository.git("checkout", "--quiet", "main")
    repository.git("reset", "--quiet", "--hard")
    repository.git("clean", "--quiet", "--force", "--exclude=.venv")
    assert repository.state() == before


@pytest.mark.parametrize(
    "version", [[], ["1"], ["1.2"], ["v1.2.3"], ["1.2.3", "4.5.6"], ["1.2.3-rc1"], ["01.2.3"]]
)
def test_what_is_no_version_is_refused(untouched: Repository, version: list[str]) -> None:
    assert untouched.release(*version).returncode == 2


@pytest.mark.parametrize("change", ["changed", "new"])
def test_a_dirty_tree_is_refused(untouched: Repository, change: str) -> None:
    (untouched.folder / ("README.md" if change == "changed" else "new")).write_text("not committed")
    done = untouched.release(VERSION)
    assert done.returncode == 2
    assert "not committed" in done.stderr


def test_version_missing_from_changelog_is_refused(untouched: Repository) -> None:
    done = untouched.release("99.0.0")
    assert done.returncode == 2
    assert "CHANGELOG.md has no section" in done.stderr


def test_without_a_branch_nothing_is_released(untouched: Repository) -> None:
    untouched.git("checkout", "--quiet", "--detach")
    assert untouched.release(VERSION).returncode == 2


def test_release_creates_files_commit_and_tag(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    done = repository.release(VERSION)
    assert done.returncode == 0, done.stdout + done.stderr

    files = repository.folder / "dist" / VERSION
    wheel, sdist = f"aqueduct_estate-{VERSION}-py3-none-any.whl", f"aqueduct_estate-{VERSION}.tar.gz"
    collection, sbom = f"aqueduct-estate-{VERSION}.tar.gz", f"aqueduct-estate-{VERSION}.cdx.json"
    names = {wheel, sdist, collection, sbom, "NOTES.md"}
    assert {path.name for path in files.iterdir()} == names | {"SHA256SUMS"}
    sums = dict(line.split()[::-1] for line in (files / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((files / name).read_bytes()).hexdigest() for name in names}

    with zipfile.ZipFile(files / wheel) as members:
        assert (
            f"Version: {VERSION}\n" in members.read(f"aqueduct_estate-{VERSION}.dist-info/METADATA").decode()
        )
        assert "aqueduct/control_node/starter/files/ansible.cfg" in members.namelist()
    with tarfile.open(files / collection) as archive:
        manifest = json.load(archive.extractfile("MANIFEST.json") or sys.stdin)
        assert manifest["collection_info"]["version"] == VERSION
        assert "galaxy.yml" not in archive.getnames()
    with tarfile.open(files / sdist) as archive:
        assert f"aqueduct_estate-{VERSION}/VERSION" in archive.getnames()

    text = (files / sbom).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    components = {component["name"]: component for component in json.loads(text)["components"]}
    assert components["kafka-python"]["scope"] == "required"
    assert components["pytest"]["scope"] == "optional"
    assert components["kafka-clients-4.3.1.jar"]["hashes"][0]["alg"] == "SHA-256"

    assert repository.git("rev-list", "--count", f"{first}..main") == "1"
    assert repository.git("rev-parse", f"v{VERSION}^{{commit}}") == repository.git("rev-parse", "main")
    assert repository.git("cat-file", "-t", f"v{VERSION}") == "tag"
    assert repository.git("status", "--porcelain") == ""
    changelog = repository.git("show", "main:CHANGELOG.md")
    assert f"## [{VERSION}] - 2" in changelog
    assert (files / "NOTES.md").read_text().count("### Added") == 1

    again = repository.release(VERSION)
    assert again.returncode == 2
    assert f"v{VERSION}" in again.stderr
