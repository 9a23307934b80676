"""Artifacts that hosts can't fetch themselves: fetched once on the control node, checked, packed, cached.

Four artifacts: jars of Kafka or Hadoop (one tar with a `libs/` folder), a wheelhouse (one tar with wheels and
the requirements to install), versitygw (one static binary) and single files, such as Connect's plugins. Every
download is checked against a lock file in the repository, or against a digest in the inventory; cached jars,
binaries and files are checked again at every use. What is made here has no digest in a lock: it gets one
beside it in the cache, and is checked against that.
"""

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self
from xml.sax.saxutils import escape

from aqueduct.common.deadlines import within
from aqueduct.control_node.names import (
    file_and_digest,
    own_sources,
    own_version,
    own_wheel_name,
    read_lock,
    sha256_of,
    wheels_digest,
)
from aqueduct.errors import Failed, Refused

KAFKA_MODULES = ("kafka_2.13", "kafka-tools", "connect-runtime", "connect-mirror", "connect-file")
BROKERS_ONLY = {"4.4.0": {"connect-mirror", "connect-file"}}  # what Maven Central does not have of a version
# The logging that Kafka speaks to and does not bring by itself.
LOG4J_MODULES = ("log4j-slf4j-impl", "log4j-1.2-api")
LOG4J_VERSION = "2.25.4"
# What these modules themselves bring is neither all nor of one version.
HADOOP_MODULES = (
    *("hadoop-common", "hadoop-hdfs", "hadoop-hdfs-client"),
    *(f"hadoop-yarn-server-{name}" for name in ("resourcemanager", "nodemanager", "timelineservice")),
)
HADOOP_JACKSON = "com.fasterxml.jackson.core:jackson-core:2.12.7"
# An empty file at the end of an archive: where it is, the archive was unpacked to its end.
LAST_ENTRY = "complete"
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"
# Named whole: by its short name Maven would run whatever version the repository calls the newest.
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
MAVEN_OPTIONS = ("--quiet", "--batch-mode")
REACH_MAVEN = "check that the control node can reach a Maven repository (set a mirror in ~/.m2/settings.xml)"
# Go's and `uname`'s words for a machine.
GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# The user can set how Go reaches modules. Other Go variables, which could change the binary, are ignored.
GO_NETWORK = {"GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOAUTH"}
MOST_BYTES = 2 << 30  # of an artifact, several times the largest one that is known
DOWNLOAD_SECONDS = 3600.0  # for all of an artifact, however slowly it is sent
# What a header of a tar may announce that tarfile reads whole into memory, before anyone can look at it.
EXTENDED = {
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
}
GO_SETTINGS = {
    "GOENV": "off",
    "GOTOOLCHAIN": "local",
    "GOOS": "linux",
    "CGO_ENABLED": "0",
    # Paths and repositories of the machine stay out of the binary; a scratch folder can be removed.
    "GOFLAGS": "-trimpath -buildvcs=false -modcacherw",
}


@dataclass(frozen=True)
class Artifact:
    """A checked file in the cache; `fetched` is False when it was there already."""

    path: Path
    fetched: bool
    sha256: str


def kafka_jars(
    *,
    version: str,
    source: str,
    archive_url: str | None,
    archive_sha256: str | None,
    lock: str,
    cache: str,
) -> Artifact:
    """Fetch the jars of one Kafka version from Maven's repository or a vendor's archive, and pack them."""

    def fetch(jars: Path) -> None:
        if source == "maven":
            lacking = BROKERS_ONLY.get(version, set())
            modules = [
                f"org.apache.kafka:{module}:{version}" for module in KAFKA_MODULES if module not in lacking
            ]
            loggers = () if version.startswith("3.") else LOG4J_MODULES  # it brings its own
            log4j = [f"org.apache.logging.log4j:{module}:{LOG4J_VERSION}" for module in loggers]
            _fetch_from_maven(
                [*modules, *log4j], jars, "Kafka's jars", "set artifact_kafka_source to archive"
            )
        else:
            _fetch_archive(str(archive_url), str(archive_sha256), jars)

    return _jars(Path(cache) / f"kafka-{version}.tar", lock, fetch)


def hadoop_jars(*, version: str, lock: str, cache: str) -> Artifact:
    """Fetch the jars of one Hadoop version from Maven's repository, and pack them."""
    modules = [f"org.apache.hadoop:{module}:{version}" for module in HADOOP_MODULES]
    return maven_jars(f"hadoop-{version}", [*modules, HADOOP_JACKSON], lock=lock, cache=cache)


def maven_jars(name: str, coordinates: Sequence[str], *, lock: str, cache: str) -> Artifact:
    """Fetch jars by their Maven coordinates (`group:artifact:version`), with what they need; pack them."""

    def fetch(jars: Path) -> None:
        _fetch_from_maven(coordinates, jars, f"the jars of {name}", f"do not use {name}")

    return _jars(Path(cache) / f"{name}.tar", lock, fetch)


def _jars(target: Path, lock: str, fetch: Callable[[Path], None]) -> Artifact:
    """Pack the jars that `fetch` brings into a folder, if they are those of the lock; else Failed."""
    locked_digests = read_lock(Path(lock))
    with _exclusive(target):
        if target.exists():
            digests, sha256 = _digests_in_tar(target, lock, locked_digests)
            _check_jars(digests, locked_digests, target, lock)
            return Artifact(target, fetched=False, sha256=sha256)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            jars = Path(scratch) / "libs"
            fetch(jars)
            _check_jars({p.name: sha256_of(p) for p in jars.iterdir()}, locked_digests, jars, lock)
            _pack(target, {f"libs/{p.name}": p for p in jars.iterdir()})
        # Of the cache, which others may have changed since.
        digests, sha256 = _digests_in_tar(target, lock, locked_digests)
        _check_jars(digests, locked_digests, target, lock)
    return Artifact(target, fetched=True, sha256=sha256)


def versitygw(
    *,
    version: str,
    source: str,
    archive_url: str | None,
    archive_sha256: str | None,
    lock: str,
    toolchain: str,
    cache: str,
) -> Artifact:
    """Build versitygw with Go, or take it from a vendor's archive, as a static binary of this machine's kind.

    The same toolchain (`toolchain`: a file of requirements for pip, with digests) makes the same binary
    everywhere. So the lock holds the digest of the binary itself, which answers for every source that a
    module proxy sent: Go runs none of their code while it compiles. An archive has a digest of its own.
    """
    if source == "archive":
        return _versitygw_from_archive(version, str(archive_url), str(archive_sha256), Path(cache))
    machine = GO_MACHINES.get(os.uname().machine, os.uname().machine)
    name = f"versitygw-linux-{machine}"
    locked_digest = read_lock(Path(lock)).get(name)
    if locked_digest is None:
        raise Refused(
            "artifact-digest-unknown",
            f"{lock} has no digest of {name}. Set artifact_versitygw_source to archive, or add the digest.",
        )
    target = Path(cache) / f"versitygw-{version}-{locked_digest[:12]}"
    with _exclusive(target):
        if target.exists():
            _check_digest(target, locked_digest, lock)
            return Artifact(target, fetched=False, sha256=locked_digest)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            binary = _build_versitygw(version, machine, toolchain, Path(scratch))
            _check_digest(binary, locked_digest, lock)
            binary.replace(target)
    return Artifact(target, fetched=True, sha256=locked_digest)


def single_file(*, maven: str | None, url: str | None, sha256: str | None, lock: str, cache: str) -> Artifact:
    """Fetch one file by its Maven coordinates (`group:artifact:version[:type[:classifier]]`) or its URL.

    Its digest is `sha256`, or else the lock's by the name of the file, which the artifact keeps.
    """
    name, digest = file_and_digest(maven=maven, url=url, sha256=sha256, lock=lock)
    target = Path(cache) / "files" / digest[:12] / name
    with _exclusive(target):
        if target.exists():
            _check_digest(target, digest, "sha256" if sha256 else lock)
            return Artifact(target, fetched=False, sha256=digest)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            fetched = Path(scratch) / name
            if maven:
                _copy_from_maven(maven, fetched.parent)
            else:
                fetched.write_bytes(_read(str(url), "its url"))
            _check_digest(fetched, digest, "sha256" if sha256 else lock)
            fetched.replace(target)
    return Artifact(target, fetched=True, sha256=digest)


def wheelhouse(*, lock: str, python: str, cache: str) -> Artifact:
    """Download the wheels of one lock file for one Python of the hosts ("3.11"), and pack them.

    pip checks every download against the lock. A package without a wheel (PySpark) is built here once. The
    requirements that are packed with them have the digests of these very wheels, for hosts to ask for.
    The name of the archive holds the digest of the lock file, so a changed pin is a new archive.
    """
    lock_file = Path(lock)
    digest = wheels_digest(lock)
    target = Path(cache) / f"wheels-{lock_file.stem}-py{python}-{digest}.tar"
    with _exclusive(target):
        if made_sha256 := _digest_beside(target):
            return Artifact(target, fetched=False, sha256=made_sha256)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            wheels = Path(scratch)
            _pip(
                [
                    "download",
                    "--no-deps",
                    "--require-hashes",
                    "--requirement",
                    lock,
                    "--dest",
                    scratch,
                    "--python-version",
                    python,
                    *_platforms(),
                ],
                f"the packages of {lock_file.name} for Python {python}",
            )
            for sdist in wheels.glob("*.tar.gz"):
                _pip(
                    ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(sdist)],
                    f"a wheel of {sdist.name}",
                )
                sdist.unlink()
            required = "".join(f"{_requirement(wheel)}\n" for wheel in sorted(wheels.glob("*.whl")))
            (wheels / "requirements.txt").write_text(required)
            sha256 = _pack(target, {p.name: p for p in wheels.iterdir()})
        _write_digest(target, sha256)
        return Artifact(target, fetched=True, sha256=sha256)


def _requirement(wheel: Path) -> str:
    """Require exactly this wheel, which was checked just now, or was built here."""
    package, version, *_ = wheel.name.split("-")
    return f"{package.replace('_', '-').lower()}=={version} --hash=sha256:{sha256_of(wheel)}"


def own_wheel(*, repository: str, cache: str) -> Artifact:
    """Build Aqueduct's own wheel."""
    root = Path(repository)
    sources, version = own_sources(root), own_version(repository)
    target = Path(cache) / own_wheel_name(repository)
    with _exclusive(target):
        if made_sha256 := _digest_beside(target):
            return Artifact(target, fetched=False, sha256=made_sha256)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            tree = Path(scratch) / "tree"
            for path in sources:
                copy = tree / path.relative_to(root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
            (tree / "VERSION").write_text(version)
            _pip(
                ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(tree)],
                "Aqueduct's own wheel",
            )
            wheel = next(Path(scratch).glob("*.whl"))
            sha256 = sha256_of(wheel)
            wheel.replace(target)
        _write_digest(target, sha256)
        return Artifact(target, fetched=True, sha256=sha256)


def _beside(target: Path) -> Path:
    return Path(f"{target}.sha256")


def _digest_beside(target: Path) -> str:
    """Return the digest of what was made here, empty if one of the two lacks; Failed if they differ."""
    if not (target.exists() and _beside(target).exists()):
        return ""
    digest = read_lock(_beside(target)).get(target.name, "")
    _check_digest(target, digest, str(_beside(target)))
    return digest


def _write_digest(target: Path, digest: str) -> None:
    partial = Path(f"{_beside(target)}.partial")
    partial.write_text(f"{digest}  {target.name}\n")
    partial.replace(_beside(target))


@contextmanager
def _exclusive(target: Path) -> Iterator[None]:
    """Lock an artifact, so that one process at a time makes it; the others wait and find it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{target}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _check_jars(digests: dict[str, str], locked: dict[str, str], where: Path, lock: str) -> None:
    problems = [
        f"{name} {'is missing' if name not in digests else 'has another digest'}"
        for name in locked
        if digests.get(name) != locked[name]
    ] + [f"{name} is not in the lock" for name in digests.keys() - locked.keys()]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise _changed(where, lock, f"{', '.join(sorted(problems)[:3])}{more}")


def _fetch_from_maven(coordinates: Sequence[str], destination: Path, goal: str, otherwise: str) -> None:
    maven = _maven(otherwise)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{module}</artifactId><version>{escape(number)}</version>"
        "</dependency>"
        for group, module, number in (coordinate.split(":") for coordinate in coordinates)
    )
    with tempfile.TemporaryDirectory() as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>aqueduct</groupId><artifactId>jars</artifactId><version>1</version>"
            f"<dependencies>{dependencies}</dependencies></project>"
        )
        _run(
            [
                maven,
                *MAVEN_OPTIONS,
                "--file",
                str(pom),
                f"{MAVEN_PLUGIN}:copy-dependencies",
                f"-DoutputDirectory={destination}",
                "-DincludeScope=runtime",
            ],
            f"fetch {goal} with Maven",
            REACH_MAVEN,
        )


def _copy_from_maven(coordinates: str, destination: Path) -> None:
    _run(
        [
            _maven("set the url of the file instead of its Maven coordinates"),
            *MAVEN_OPTIONS,
            f"{MAVEN_PLUGIN}:copy",
            f"-Dartifact={coordinates}",
            f"-DoutputDirectory={destination}",
        ],
        f"fetch {coordinates} with Maven",
        REACH_MAVEN,
    )


def _maven(otherwise: str) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise Refused(
            "maven-missing",
            "Maven (mvn) is not installed on the control node. Install it (apt-get install maven), or "
            f"{otherwise}.",
        )
    return maven


def _fetch_archive(url: str, sha256: str, destination: Path) -> None:
    content = _download(url, sha256, "artifact_kafka_archive")
    destination.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            path = Path(member.name)
            stream = (
                archive.extractfile(member) if path.parent.name == "libs" and path.suffix == ".jar" else None
            )
            if stream:
                (destination / path.name).write_bytes(stream.read())


def _build_versitygw(version: str, machine: str, toolchain: str, scratch: Path) -> Path:
    packages = scratch / "packages"
    _pip(
        [
            *("install", "--no-deps", "--no-compile", "--require-hashes"),
            *("--requirement", toolchain, "--target", str(packages)),
        ],
        "the Go toolchain",
    )
    _run(
        [str(packages / "go/bin/go"), "install", "-ldflags=-s -w", f"{VERSITYGW}@v{version}"],
        f"build versitygw {version}",
        "check that the control node can reach a Go module proxy (set another one in GOPROXY), "
        "or set artifact_versitygw_source to archive",
        {
            **{key: value for key, value in os.environ.items() if key[:2] != "GO" or key in GO_NETWORK},
            **GO_SETTINGS,
            "GOARCH": machine,
            "GOPATH": str(scratch / "path"),
            "GOCACHE": str(scratch / "cache"),
        },
    )
    return next((scratch / "path/bin").rglob("versitygw"))


def _versitygw_from_archive(version: str, url: str, sha256: str, cache: Path) -> Artifact:
    """Take the binary out of the archive, at every use; the archive is kept and checked."""
    target = cache / f"versitygw-{version}-archive-{sha256[:12]}"
    archive = Path(f"{target}.tgz")
    with _exclusive(target):
        fetched = not archive.exists()
        if fetched:
            _write(archive, _download(url, sha256, "artifact_versitygw_archive"))
        # Read once: the archive, and the binary in the cache, may be exchanged at any moment.
        try:
            with archive.open("rb") as file:
                packed = _limited(file)
        except OSError as error:
            raise _changed(archive, "artifact_versitygw_archive_sha256", str(error)) from error
        _check_content(archive, packed, sha256, "artifact_versitygw_archive_sha256")
        with tarfile.open(fileobj=io.BytesIO(packed)) as members:
            files = (member for member in members if Path(member.name).name == "versitygw")
            stream = next(filter(None, map(members.extractfile, files)), None)
            if stream is None:
                raise Failed(
                    "artifact-content-wrong",
                    f"{url} does not contain a file versitygw. Check artifact_versitygw_archive_url.",
                )
            binary = stream.read()
        _write(target, binary)
        return Artifact(target, fetched=fetched, sha256=hashlib.sha256(binary).hexdigest())


def _download(url: str, sha256: str, variable: str) -> bytes:
    """Fetch what the variables `<variable>_url` and `<variable>_sha256` name."""
    content = _read(url, f"{variable}_url")
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise Failed(
            "artifact-digest-mismatch",
            f"{url} has SHA-256 {actual}, but {variable}_sha256 is {sha256}. Nothing was installed. Find out "
            "which of them is wrong.",
        )
    return content


def _read(url: str, variable: str) -> bytes:
    try:
        content: bytes = within(DOWNLOAD_SECONDS, lambda: _read_whole(url))
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Failed("artifact-unavailable", f"Cannot read {url}: {error}. Check {variable}.") from error
    return content


def _read_whole(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 (file: is wanted: offline control nodes)
        return _limited(answer)


def _limited(file: IO[bytes]) -> bytes:
    """Read a file to its end; OSError if it is larger than any artifact."""
    content = io.BytesIO()
    while block := file.read(1 << 20):
        content.write(block)
        if content.tell() > MOST_BYTES:
            raise OSError(f"it has more than {MOST_BYTES} bytes")
    return content.getvalue()


def _check_content(path: Path, content: bytes, locked: str, lock: str) -> None:
    _compare(path, hashlib.sha256(content).hexdigest(), locked, lock)


def _check_digest(path: Path, locked: str, lock: str) -> None:
    _compare(path, sha256_of(path), locked, lock)


def _compare(path: Path, actual: str, locked: str, lock: str) -> None:
    if actual != locked:
        raise Failed(
            "artifact-digest-mismatch",
            f"{path} has SHA-256 {actual}, but {lock} says {locked}. Nothing was installed. If the file "
            "exists, move it away, and run the command again. If it happens again, find out who changed the "
            "file.",
        )


def _write(path: Path, content: bytes) -> None:
    """Write an executable that appears under its name when it is whole."""
    partial = Path(f"{path}.partial")
    partial.write_bytes(content)
    partial.chmod(0o755)
    partial.replace(path)


def _digests_in_tar(path: Path, lock: str, locked: Collection[str]) -> tuple[dict[str, str], str]:
    """Return the digest of each jar of an archive, and of the whole; Failed if `_pack` makes another one.

    `locked`: the names of the lock. The memory that this takes depends on them only, not on the archive.

    A jar that a reader does not see, or sees otherwise than its neighbour, may be what a host installs: a
    name twice, another path, a link, a mode, bytes after the end. So each entry is packed again while it is
    read, and the whole must be the same, byte by byte.
    """
    digests: dict[str, str] = {}
    whole, again = hashlib.sha256(), _Digest()
    try:
        with (
            path.open("rb") as file,
            tarfile.open(fileobj=file, mode="r:", tarinfo=_Entry) as archive,  # compressed, it is another one
            tarfile.open(fileobj=again, mode="w|") as packed,
        ):
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise _changed(path, lock, f"it has more than {MOST_BYTES >> 30} GiB")
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                parent, _, name = member.name.rpartition("/")
                if stream is None or (parent != "libs" if name != LAST_ENTRY else parent or member.size):
                    raise _changed(path, lock, f"{member.name} is not a jar in libs/")
                if name in digests:
                    raise _changed(path, lock, f"{name} exists twice")
                if name not in locked and name != LAST_ENTRY:
                    raise _changed(path, lock, f"{name} is not in the lock")
                entry = tarfile.TarInfo(member.name)
                entry.size = member.size
                content = _Digest(stream)
                packed.addfile(_plain(entry), content)
                digests[name] = content.hexdigest()
            file.seek(0)
            while block := file.read(1 << 20):
                whole.update(block)
    except (tarfile.TarError, EOFError, OSError, UnicodeError, ValueError) as error:
        raise _changed(path, lock, f"it is not an archive of jars ({error})") from error
    if again.hexdigest() != whole.hexdigest():
        raise _changed(path, lock, "its entries are not packed as Aqueduct packs them")
    digests.pop(LAST_ENTRY, None)
    return digests, whole.hexdigest()


class _Entry(tarfile.TarInfo):
    """An entry of an archive that `_pack` made: its header is one block."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in EXTENDED or entry.size < 0:
            raise tarfile.ReadError("an entry has an extended header, or no size")
        return entry


class _Digest(io.RawIOBase):
    """A file that keeps a digest of what is written to it, and to a sink, or is read from a source by it."""

    def __init__(self, source: IO[bytes] | None = None, sink: IO[bytes] | None = None) -> None:
        self._sha256, self._source, self._sink = hashlib.sha256(), source, sink

    def write(self, block: Any) -> int:
        self._sha256.update(block)
        if self._sink:
            self._sink.write(block)
        return len(block)

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(size) if self._source else b""
        self._sha256.update(block)
        return block

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def _changed(path: Path, lock: str, why: str) -> Failed:
    return Failed(
        "artifact-digest-mismatch",
        f"{path} does not match {lock}: {why}. Nothing was installed. Move the file out of the cache, and "
        "run the command again. If it happens again, find out who changed the file.",
    )


def _pack(target: Path, files: dict[str, Path]) -> str:
    """Write a tar that depends on names and contents only, and appears under its name when it is whole.

    Return the digest of what was written, whatever the cache has since.
    """
    partial = target.with_suffix(".partial")
    with partial.open("wb") as file:
        whole = _Digest(sink=file)
        with tarfile.open(fileobj=whole, mode="w|") as archive:
            for name in sorted(files):
                archive.add(files[name], name, filter=_plain)
            archive.addfile(_plain(tarfile.TarInfo(LAST_ENTRY)))
    partial.replace(target)
    return whole.hexdigest()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    member.mode = 0o644
    return member


def _platforms() -> list[str]:
    """Return the platforms of wheels for Debian 12 (glibc 2.36) and newer, of this architecture."""
    machine = os.uname().machine
    return [
        word
        for platform in ("2_34", "2_28", "2_27", "2_17", "2_12", "2_5")
        for word in ("--platform", f"manylinux_{platform}_{machine}")
    ] + ["--platform", f"manylinux2014_{machine}", "--platform", "any"]


def _pip(arguments: list[str], goal: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _run(
        [*pip, *arguments],
        f"get {goal} with pip",
        "check that the control node can reach a Python package index",
    )


def _run(command: list[str], goal: str, remedy: str, environment: Mapping[str, str] | None = None) -> None:
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    if completed.returncode:
        output = [
            line
            for line in (completed.stdout + completed.stderr).strip().splitlines()
            if not line.startswith("go: downloading")
        ]
        errors = (
            [line for line in output if "ERROR" in line] or output or ["the command failed without output"]
        )
        remedy = f"{remedy[:1].upper()}{remedy[1:]}"
        raise Failed("artifact-unavailable", f"Cannot {goal}: {errors[0].strip().rstrip('.')}. {remedy}.")
