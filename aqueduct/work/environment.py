"""The environment of a cluster's Python workers, as an archive for Spark's `--archives`.

It holds what this process runs on: Aqueduct, and the packages that its tasks need, in the versions that are
installed here. Nothing is fetched. PySpark is left out: executors have their own, which Spark puts on their
path. A worker's Python is its host's: `bin/python` finds it, and says so where there is another one.
"""

import gzip
import hashlib
import os
import platform
import re
import sys
import tarfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import aqueduct
from aqueduct.errors import Failed, Refused

OWN, EXTRA = aqueduct.DISTRIBUTION, "spark"
OF_SPARK = {"pyspark", "py4j"}
SUFFIXES = (".tar.gz", ".tgz")
FAST = 1  # of gzip: half the time of 6, for an eighth more bytes
# As metadata writes a requirement: a name, what versions, and when.
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")
OF_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)""")
LAUNCHER = """#!/bin/sh
# Runs the host's Python with the packages of ../lib.
here=$(cd "$(dirname "$0")/.." && pwd)
fail() {{
    echo "aqueduct: The worker $(uname -n) $1: its environment is for Python {python} on {machine}." >&2
    exit 1
}}
[ "$(uname -m)" = {machine} ] || fail "has the machine type $(uname -m)"
for python in python{python} python3; do
    if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = {python} ]; then
        PYTHONPATH=$here/lib${{PYTHONPATH:+:$PYTHONPATH}} exec "$python" "$@"
    fi
done
fail "has no python{python}"
"""


def write(out: Path) -> list[str]:
    """Write the archive, and return its packages with their versions; the same packages make the same bytes.

    It appears under its name when it is whole. Refused if its name can't be right, or a package is missing
    here; Failed if a file is not as it was installed, or the archive can't be written.
    """
    if not out.name.endswith(SUFFIXES):
        raise Refused(
            "archive-name-invalid",
            f"Spark cannot unpack {out}, because the name does not end with {' or '.join(SUFFIXES)}. Pass a "
            "name that ends with .tar.gz.",
        )
    packages = sorted(needed(), key=_name)
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        try:
            with partial.open("xb") as stream:
                _write(stream, packages)
            partial.replace(out)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise Failed(
            "archive-unwritable",
            f"Cannot write the archive {out}: {error}. Check the path, the free space and your rights.",
        ) from None
    return [f"{_name(package)} {package.version}" for package in packages]


def fingerprint() -> str:
    """Return a digest of our modules, which is the same wherever they are."""
    digest = hashlib.sha256()
    for name, content in sorted(_modules()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def needed() -> Iterator[Distribution]:
    """Yield the packages that tasks need, ours too; Refused if one is not installed here."""
    seen = set(OF_SPARK)
    required = [(OWN, "")]
    while required:
        name, by = required.pop()
        if _plain(name) in seen:
            continue
        seen.add(_plain(name))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            raise Refused(
                "python-package-missing",
                f"The Python package {name}, which {by} requires, is not installed on this host. Install "
                f"{OWN}[{EXTRA}].",
            ) from None
        yield package
        extras = {EXTRA} if name == OWN else set()
        required += [(dependency, name) for dependency in requirements(package.requires or [], extras)]


def requirements(written: list[str], extras: set[str]) -> Iterator[str]:
    """Yield the names of required packages; those that only some hosts need, if they are installed here."""
    for requirement in written:
        match = REQUIREMENT.match(requirement)
        if not match:
            continue
        name, marker = match[1], match[2] or ""
        if of := OF_EXTRA.search(marker):
            if of[1] in extras:
                yield name
        elif not marker or _installed(name):
            yield name


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _write(stream: BinaryIO, packages: list[Distribution]) -> None:
    # Without times, users and the file's name.
    with (
        gzip.GzipFile("", "wb", compresslevel=FAST, mtime=0, fileobj=stream) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        launcher = LAUNCHER.format(python=python, machine=platform.machine()).encode()
        _add(archive, "bin/python", launcher, mode=0o755)
        for package in packages:
            for name, content in sorted(_own(package) if _name(package) == OWN else _files(package)):
                _add(archive, f"lib/{name}", content)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, BytesIO(content))


def _files(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield all files that were installed below site-packages, but what Python makes itself."""
    for path in package.files or []:
        if ".." in path.parts or path.suffix == ".pyc" or path.name in ("RECORD", "INSTALLER", "REQUESTED"):
            continue
        content = Path(str(path.locate())).read_bytes()
        if path.hash and _digest(path.hash.mode, content) != path.hash.value:
            raise Failed(
                "spark-environment-mismatch",
                f"{path.locate()} differs from the file that {_name(package)} {package.version} installed. "
                "Install this package again.",
            )
        yield str(path), content


def _own(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield our modules, and what tells their version."""
    yield from _modules()
    metadata = str(package.read_text("METADATA"))
    yield f"{OWN.replace('-', '_')}-{package.version}.dist-info/METADATA", metadata.encode()


def _modules() -> Iterator[tuple[str, bytes]]:
    """Yield our modules from where they are, which may be a checkout."""
    folder = Path(aqueduct.__file__).parent
    for path in folder.rglob("*.py"):
        yield str(path.relative_to(folder.parent)), path.read_bytes()


def _digest(algorithm: str, content: bytes) -> str:
    """Return a digest as RECORD writes it."""
    return urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()


def _name(package: Distribution) -> str:
    return str(package.metadata["Name"])


def _plain(name: str) -> str:
    """Return a package's name as all ways to write it have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# Of the modules as they were when this process began: files may be replaced under a service that runs on.
OWN_CODE = fingerprint()
