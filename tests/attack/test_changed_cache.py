"""Somebody changes the control node's cache, or what is on its way to a host: nothing of it is installed."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import sys
import tarfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit import ansible_process, plugin_modules
from kit.identifiers import raises

from aqueduct.control_node import artifacts, names
from aqueduct.errors import Failed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lock one package, which an index of our own has."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "some_package-1.0-py3-none-any.whl"
    about = "some_package-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as members:
        members.writestr("some_package.py", "")
        members.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: some-package\nVersion: 1.0\n")
        members.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        members.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    path = tmp_path / "some.txt"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    path.write_text(f"some-package==1.0 \\\n    --hash=sha256:{digest}\n")
    return path


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("at", [0, 700, -1])
def test_changed_wheelhouse_stops_play_and_is_named(lock: Path, tmp_path: Path, at: int) -> None:
    cache = str(tmp_path / "cache")
    made = artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache)
    assert artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache) == artifacts.Artifact(
        made.path, fetched=False, sha256=hashlib.sha256(made.path.read_bytes()).hexdigest()
    )
    flip(made.path, at)
    with raises(Failed, "artifact-digest-mismatch") as caught:
        artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache)
    assert str(made.path) in str(caught.value)


def test_a_wheelhouse_without_its_digest_is_made_anew(lock: Path, tmp_path: Path) -> None:
    """As an earlier version left it, or somebody who wants his own to be taken."""
    cache = str(tmp_path / "cache")
    made = artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache)
    Path(f"{made.path}.sha256").unlink()
    made.path.write_bytes(b"of somebody else")
    assert artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache) == made


def test_hosts_ask_for_the_very_wheels(lock: Path, tmp_path: Path) -> None:
    made = artifacts.wheelhouse(lock=str(lock), python="3.11", cache=str(tmp_path / "cache"))
    with tarfile.open(made.path) as archive:
        required = archive.extractfile("requirements.txt")
        assert required
        text = required.read().decode()
    assert text.split() == ["some-package==1.0", lock.read_text().split()[-1]]


def test_changed_own_wheel_stops_play_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "aqueduct").mkdir()
    (tmp_path / "aqueduct/__init__.py").touch()
    (tmp_path / "VERSION").write_text("1.0")
    (tmp_path / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'aqueduct-estate'\ndynamic = ['version']\n"
        "[tool.setuptools]\npackages = ['aqueduct']\n"
        "[tool.setuptools.dynamic]\nversion = {file = 'VERSION'}\n"
    )
    cache = str(tmp_path / "cache")
    made = artifacts.own_wheel(repository=str(tmp_path), cache=cache)
    assert not artifacts.own_wheel(repository=str(tmp_path), cache=cache).fetched
    flip(made.path, 200)
    with raises(Failed, "artifact-digest-mismatch") as caught:
        artifacts.own_wheel(repository=str(tmp_path), cache=cache)
    assert str(made.path) in str(caught.value)


def entry(name: str, content: bytes = b"", **header: Any) -> tuple[tarfile.TarInfo, bytes]:
    """Return an archive's entry as the cache has them, but for what `header` says."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uname, member.gname = len(content), 0o644, "root", "root"
    for attribute, value in header.items():
        setattr(member, attribute, value)
    return member, content


def packed(target: Path, files: dict[str, bytes]) -> str:
    """Write an archive as the cache has them; return its digest."""
    return packed_entries(
        target, [entry(name, content) for name, content in {**files, "complete": b""}.items()]
    )


def packed_entries(target: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> str:
    with tarfile.open(target, "w") as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content))
    return hashlib.sha256(target.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"libs/b.jar": b"of somebody else"}, "b.jar has another digest"),
        ({"libs/c.jar": b"one more"}, "c.jar is not in the lock"),
        ({"libs/b.jar": None}, "b.jar is missing"),
    ],
)
def test_jars_that_changed_stop_the_play_by_name(
    tmp_path: Path, changed: dict[str, bytes | None], why: str
) -> None:
    jars = {"libs/a.jar": b"a", "libs/b.jar": b"b"}
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    digests = {Path(name).name: hashlib.sha256(content).hexdigest() for name, content in jars.items()}
    lock.write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))

    packed(archive, jars)
    assert not jars_of(tmp_path, lock).fetched
    packed(archive, {name: content for name, content in {**jars, **changed}.items() if content is not None})
    with raises(Failed, "artifact-digest-mismatch") as caught:
        jars_of(tmp_path, lock)
    assert re.match(rf"{archive} does not match {lock}: {why}", str(caught.value))


EVIL = b"of somebody else"
A, B, LAST = entry("libs/a.jar", b"a"), entry("libs/b.jar", b"b"), entry("complete")
LINK, HARD_LINK = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}


def jars_of(cache: Path, lock: Path) -> artifacts.Artifact:
    return artifacts.kafka_jars(
        version="9.9",
        source="archive",
        archive_url="http://localhost:1/never-asked",
        archive_sha256="",
        lock=str(lock),
        cache=str(cache),
    )


@pytest.mark.parametrize(
    ("entries", "tail"),
    [
        pytest.param([A, entry("libs/b.jar", EVIL), entry("other/b.jar", b"b"), LAST], b"", id="two paths"),
        pytest.param([A, entry("libs/b.jar", EVIL), B, LAST], b"", id="one name twice"),
        pytest.param([A, entry("libs/b.jar", b"b", mode=0o4755), LAST], b"", id="setuid"),
        pytest.param([A, B, entry("complete", EVIL, mode=0o4755)], b"", id="the last entry is a program"),
        pytest.param([A, B, entry("x/b.jar", linkname="../libs/b.jar", **LINK), LAST], b"", id="link"),
        pytest.param([A, B, entry("x/b.jar", linkname="libs/b.jar", **HARD_LINK), LAST], b"", id="hard link"),
        pytest.param([entry("libs", type=tarfile.DIRTYPE, mode=0o777), A, B, LAST], b"", id="folder"),
        pytest.param([A, entry("../../etc/b.jar", b"b"), LAST], b"", id="another path"),
        pytest.param([A, entry("libs/b.jar", b"b", uid=1, gid=1), LAST], b"", id="another owner"),
        pytest.param([A, entry("libs/b.jar", b"b", pax_headers={"a": "b"}), LAST], b"", id="attributes"),
        pytest.param([A, B, LAST], EVIL * 64, id="more after its end"),
    ],
)
def test_archive_packed_differently_stops_play(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]], tail: bytes
) -> None:
    """The jars of the lock are there each time, and something else beside them, or they in another way."""
    jars = {"a.jar": b"a", "b.jar": b"b"}
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in jars.items()}
    lock.write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    packed_entries(archive, entries)
    archive.write_bytes(archive.read_bytes() + tail)
    with raises(Failed, "artifact-digest-mismatch") as caught:
        jars_of(tmp_path, lock)
    assert str(archive) in str(caught.value)


def _hostile_header(kind: bytes, size: int) -> bytes:
    """Return a header whose content tarfile reads whole before anyone can look at it."""
    member = tarfile.TarInfo("libs/a.jar")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(_hostile_header(tarfile.GNUTYPE_LONGNAME, 16 << 20), id="long name"),
        pytest.param(_hostile_header(tarfile.GNUTYPE_LONGLINK, 16 << 20), id="long link"),
        pytest.param(_hostile_header(tarfile.XHDTYPE, 16 << 20), id="attributes"),
        pytest.param(_hostile_header(tarfile.XGLTYPE, 16 << 20), id="attributes of all"),
        pytest.param(b"", id="nothing but zeros"),
    ],
)
@pytest.mark.parametrize("compress", [None, lzma.compress, gzip.compress, bz2.compress])
def test_an_archive_of_any_size_takes_no_memory(
    tmp_path: Path, hostile: bytes, compress: Callable[[bytes], bytes] | None
) -> None:
    """An archive of a few kilobytes decompresses to much, or announces a name of many megabytes."""
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    lock.write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.jar\n")
    content = hostile + bytes(16 << 20) + tarfile.TarInfo("libs/a.jar").tobuf() + bytes(1024)
    archive.write_bytes(compress(content) if compress else content)
    del content
    tracemalloc.start()
    try:
        with raises(Failed, "artifact-digest-mismatch") as caught:
            jars_of(tmp_path, lock)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(archive) in str(caught.value)
    assert most < 8 << 20


def test_archive_with_more_entries_than_lock_is_refused(tmp_path: Path) -> None:
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    lock.write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.jar\n")
    packed_entries(archive, [entry(f"libs/{number:05}.jar") for number in range(20_000)])
    tracemalloc.start()
    try:
        with raises(Failed, "artifact-digest-mismatch"):
            jars_of(tmp_path, lock)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20


def test_oversized_archive_is_refused_without_reading_it(tmp_path: Path) -> None:
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    lock.write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.jar\n")
    with archive.open("wb") as file:
        file.truncate(artifacts.MOST_BYTES + 1)  # holes, which no disk has
    with raises(Failed, "artifact-digest-mismatch") as caught:
        jars_of(tmp_path, lock)
    assert "GiB" in str(caught.value)


def test_a_download_has_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its server sends without an end, or so slowly that no read of the socket lacks an answer."""
    slow, cache = tmp_path / "slow.jar", str(tmp_path / "cache")
    os.mkfifo(slow)  # nobody writes into it
    large = tmp_path / "large.jar"
    large.write_bytes(bytes(4 << 20))
    monkeypatch.setattr(artifacts, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(artifacts, "DOWNLOAD_SECONDS", 1.0)
    for source in (slow, large):
        with raises(Failed, "artifact-unavailable"):
            artifacts.single_file(maven=None, url=source.as_uri(), sha256="0" * 64, lock="", cache=cache)


def test_the_digest_is_of_what_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody exchanges the archive after its jars were compared: a host asks for the digest of what was."""
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    lock.write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.jar\n")
    was = packed(archive, {"libs/a.jar": b"a"})
    compare = artifacts._check_jars

    def exchange(*given: Any) -> None:
        compare(*given)
        packed(archive, {"libs/a.jar": EVIL})

    monkeypatch.setattr(artifacts, "_check_jars", exchange)
    assert jars_of(tmp_path, lock).sha256 == was


def versitygw_of(archive: Path, cache: Path) -> artifacts.Artifact:
    return artifacts.versitygw(
        version="9.9",
        source="archive",
        archive_url=archive.as_uri(),
        archive_sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
        lock="",
        toolchain="",
        cache=str(cache),
    )


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """Return a vendor's archive of versitygw."""
    archive = tmp_path / "vendor.tgz"
    packed(archive, {"versitygw": b"the vendor's"})
    return archive


def test_binary_digest_is_computed_from_unpacked_content(
    vendor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody exchanges the binary as soon as it is in the cache."""
    write = artifacts._write

    def exchange(path: Path, content: bytes) -> None:
        write(path, content)
        if path.suffix != ".tgz":
            path.write_bytes(EVIL)

    monkeypatch.setattr(artifacts, "_write", exchange)
    made = versitygw_of(vendor, tmp_path / "cache")
    assert made.path.read_bytes() == EVIL
    assert made.sha256 == hashlib.sha256(b"the vendor's").hexdigest()  # so no host takes it


def test_a_binary_is_unpacked_from_what_was_checked(
    vendor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody exchanges the archive in the cache after its digest was compared."""
    cache = tmp_path / "cache"
    made = versitygw_of(vendor, cache)
    [archive] = cache.glob("*.tgz")
    packed(tmp_path / "evil.tgz", {"versitygw": EVIL})
    evil, unpack = (tmp_path / "evil.tgz").read_bytes(), tarfile.open

    def exchange(*given: Any, **more: Any) -> Any:
        archive.write_bytes(evil)
        return unpack(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(tarfile, "open", exchange)
        again = versitygw_of(vendor, cache)
    assert archive.read_bytes() == evil
    assert (again.sha256, again.path.read_bytes()) == (made.sha256, b"the vendor's")


def test_jars_exchanged_after_packing_stop_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, archive = tmp_path / "kafka.txt", tmp_path / "kafka-9.9.tar"
    lock.write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.jar\n")
    monkeypatch.setattr(artifacts, "_fetch_archive", lambda *given: _write_jar(given[-1]))
    pack = artifacts._pack

    def exchange(*given: Any) -> Any:
        result = pack(*given)
        packed(archive, {"libs/a.jar": EVIL})
        return result

    monkeypatch.setattr(artifacts, "_pack", exchange)
    with raises(Failed, "artifact-digest-mismatch"):
        jars_of(tmp_path, lock)


def _write_jar(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.jar").write_bytes(b"a")


def test_wheelhouse_exchanged_after_packing_gets_no_matching_digest(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = artifacts._pack

    def exchange(target: Path, *given: Any) -> Any:
        result = pack(target, *given)
        target.write_bytes(EVIL)
        return result

    cache = str(tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "_pack", exchange)
        made = artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache)
    assert made.sha256 != hashlib.sha256(EVIL).hexdigest()
    with raises(Failed, "artifact-digest-mismatch"):
        artifacts.wheelhouse(lock=str(lock), python="3.11", cache=cache)


class Stopped(Exception):
    pass


@pytest.fixture
def host_software() -> Any:
    return plugin_modules.load("host_software")


def test_what_changed_on_its_way_is_not_installed(host_software: Any, tmp_path: Path) -> None:
    def fail(msg: str) -> None:
        raise Stopped(msg)

    came = tmp_path / "kafka-1.tar"
    came.write_bytes(b"as it was")
    brought = {"kafka-1": {"path": str(came), "sha256": hashlib.sha256(came.read_bytes()).hexdigest()}}
    host = host_software.Host(SimpleNamespace(check_mode=False, params={"brought": brought}, fail_json=fail))
    assert host._take("kafka-1") == str(came)
    flip(came, 3)
    for install in (
        lambda: host.archive("kafka-1", str(tmp_path / "there")),
        lambda: host.file("kafka-1", str(tmp_path / "there"), "0644", "0" * 64),
    ):
        with pytest.raises(Stopped, match=rf" kafka-1\.tar .*{brought['kafka-1']['sha256']}"):
            install()
        assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    "hostile",
    [
        entry("../outside", EVIL),
        entry("/tmp/outside", EVIL),  # noqa: S108
        entry("out", type=tarfile.SYMTYPE, linkname="../outside"),
        entry("out", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        entry("out", type=tarfile.LNKTYPE, linkname="../outside"),
        entry("pipe", type=tarfile.FIFOTYPE),
        entry("disk", type=tarfile.BLKTYPE),
        entry("libs/a.jar", EVIL),
    ],
)
def test_a_host_unpacks_nothing_that_leads_elsewhere(
    host_software: Any, tmp_path: Path, hostile: tuple[tarfile.TarInfo, bytes]
) -> None:
    came, there = tmp_path / "some.tar", tmp_path / "there"
    there.mkdir()
    packed_entries(came, [A, hostile, LAST])
    with pytest.raises(ValueError, match=rf"^some\.tar: {re.escape(hostile[0].name)} "):
        host_software._unpack(came, there)
    assert list(there.iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_what_a_host_unpacks_makes_nobody_root(host_software: Any, tmp_path: Path) -> None:
    came, there = tmp_path / "some.tar", tmp_path / "there"
    there.mkdir()
    folder = entry("bin", type=tarfile.DIRTYPE, mode=0o2777)
    program = entry("bin/tool", b"#!/bin/sh", mode=0o6777, uid=1)
    packed_entries(came, [folder, program, entry("bin/t", type=tarfile.SYMTYPE, linkname="tool"), LAST])
    host_software._unpack(came, there)
    assert (there / "bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (there / "bin").stat().st_mode & 0o7777 == 0o755
    assert (there / "bin/t").read_text() == "#!/bin/sh"


@pytest.mark.parametrize(
    ("asked", "why"), [("with its digest", r"Computed: *sha256:"), ("without", "must have a hash")]
)
def test_wheel_that_differs_from_requirement_is_not_installed(
    host_software: Any, lock: Path, tmp_path: Path, asked: str, why: str
) -> None:
    """Also where the archive's digest fits: uv compares each wheel with what asks for it, by its digest."""

    def fail(msg: str) -> None:
        raise Stopped(msg)

    made = artifacts.wheelhouse(lock=str(lock), python="3.11", cache=str(tmp_path / "cache"))
    with tarfile.open(made.path) as archive:
        files = {each.name: (archive.extractfile(each) or io.BytesIO()).read() for each in archive}
    [wheel] = (name for name in files if name.endswith(".whl"))
    with zipfile.ZipFile(io.BytesIO(files[wheel])) as members:
        content = {name: members.read(name) for name in members.namelist()}
    exchanged = io.BytesIO()
    with zipfile.ZipFile(exchanged, "w") as members:
        for name, text in {**content, "some_package.py": b"of = 'somebody else'"}.items():
            members.writestr(name, text)
    if asked == "without":
        files["requirements.txt"] = b"some-package==1.0\n"
    came, own = tmp_path / "base.tar", tmp_path / "aqueduct-1.0-py3-none-any.whl"
    own.write_bytes(b"")
    brought = {
        "base": {"path": str(came), "sha256": packed(came, {**files, wheel: exchanged.getvalue()})},
        host_software.OWN: {"path": str(own), "sha256": hashlib.sha256(b"").hexdigest()},
    }
    host = host_software.Host(SimpleNamespace(check_mode=False, params={"brought": brought}, fail_json=fail))
    uv, there = str(Path(sys.executable).with_name("uv")), tmp_path / "there"
    with pytest.raises(Stopped, match=why):
        host.environment("base", str(there), "wheels", own.name, uv)
    assert not list(there.glob("lib/*/site-packages/some_package*"))


def test_maven_runs_only_plugin_with_full_coordinates() -> None:
    text = (ROOT / "aqueduct/control_node/artifacts.py").read_text()
    assert '"dependency:' not in text
    assert len(artifacts.MAVEN_PLUGIN.split(":")) == 3


def test_a_play_stops_before_anything_is_pushed(lock: Path, tmp_path: Path) -> None:
    """The play of all software, on this machine as the host; what its environments need was changed."""
    repository, root, cache = (tmp_path / each for each in ("repository", "root", "cache"))
    (repository / "locks").mkdir(parents=True)
    (repository / "locks/base.txt").write_text(lock.read_text())
    (repository / "VERSION").write_text("1.0")
    (repository / "pyproject.toml").write_text("")
    own = names.own_wheel_name(str(repository))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    made = artifacts.wheelhouse(lock=str(repository / "locks/base.txt"), python=python, cache=str(cache))
    flip(made.path, 600)
    needs = {
        **{kind: [] for kind in ("users", "folders", "packages", "kafka", "hadoop", "files", "versitygw")},
        "environments": ["base"],
    }
    task = {
        "aqueduct.estate.host_software": {
            "needs": needs,
            "repository": str(repository),
            "root": str(root),
            "cache": str(cache),
            "kafka_source": "maven",
            "versitygw_source": "go",
        }
    }
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    done = ansible_process.play(
        play,
        *("--inventory=localhost,", "--connection=local"),
        f"--extra-vars=ansible_python_interpreter={sys.executable}",
    )
    assert done.returncode == 2
    said = " ".join(done.stdout.split())
    assert f"[artifact-digest-mismatch] {made.path} " in said
    assert not root.exists()
    assert not (cache / own).exists()


@pytest.mark.parametrize("other", ["app/run.jar", "app//run.jar", "./app/run.jar"])
def test_zip_with_duplicate_name_is_not_unpacked(host_software: Any, tmp_path: Path, other: str) -> None:
    archive, folder = tmp_path / "app.zip", tmp_path / "there"
    folder.mkdir()
    with zipfile.ZipFile(archive, "w") as packed_:
        packed_.writestr("app/run.jar", b"a")
        with warnings.catch_warnings(action="ignore"):
            packed_.writestr(other, EVIL)
    with pytest.raises(ValueError, match=r"^app\.zip: app/run\.jar "):
        host_software._unpack(archive, folder)
    assert list(folder.iterdir()) == []
