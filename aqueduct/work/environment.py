"""The Python environment of a cluster's workers, as an archive for Spark's `--archives`.

It contains Aqueduct and the packages that its tasks need, in the versions that are installed on this host.
Nothing is downloaded. PySpark is not part of it, because Spark adds its own to the path of executors. Workers
use the Python of their host: `bin/python` finds it, and fails if it has another version.
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
FAST = 1  # level of gzip: half the time of level 6, with an eighth more bytes
# A requirement in the metadata of a package: name, versions, and marker after a semicolon.
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
    """Write the archive, and return its packages as `name version`. Equal packages give equal bytes.

    The archive gets its name when it is complete. Refused if the name is not valid, or a package is not
    installed; Failed if an installed file was changed, or the archive cannot be written.
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
    """Return a digest of Aqueduct's modules. It does not depend on their folder."""
    digest = hashlib.sha256()
    for name, content in sorted(_modules()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def needed() -> Iterator[Distribution]:
    """Yield the packages that tasks need, including Aqueduct; Refused if one is not installed."""
    seen = set(OF_SPARK)
    required = [(OWN, "")]
    while required:
        name, by = required.pop()
        if _normalized(name) in seen:
            continue
        seen.add(_normalized(name))
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
    """Yield the names of required packages. A package with a marker is included only if it is installed.

    `written`: requirements as in metadata. `extras`: the extras whose requirements are included.
    """
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
    # Without times, users and file name, so that equal packages give equal bytes.
    with (
        gzip.GzipFile("", "wb", compresslevel=FAST, mtime=0, fileobj=stream) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        launcher = LAUNCHER.format(python=python, machine=platform.machine()).encode()
        _add(archive, "bin/python", launcher, mode=0o755)
        for package in packages:
            for name, content in sorted(_own_files(package) if _name(package) == OWN else _files(package)):
                _add(archive, f"lib/{name}", content)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, BytesIO(content))


def _files(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield the installed files of a package below site-packages, except those that installers create.

    Failed if the digest of a file differs from the digest in RECORD.
    """
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


def _own_files(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield Aqueduct's modules, and the metadata with its version."""
    yield from _modules()
    metadata = str(package.read_text("METADATA"))
    yield f"{OWN.replace('-', '_')}-{package.version}.dist-info/METADATA", metadata.encode()


def _modules() -> Iterator[tuple[str, bytes]]:
    """Yield Aqueduct's modules from the folder in use, which may be a checkout."""
    folder = Path(aqueduct.__file__).parent
    for path in folder.rglob("*.py"):
        yield str(path.relative_to(folder.parent)), path.read_bytes()


def _digest(algorithm: str, content: bytes) -> str:
    """Return a digest in the format of RECORD."""
    return urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()


def _name(package: Distribution) -> str:
    return str(package.metadata["Name"])


def _normalized(name: str) -> str:
    """Return the normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


# The digest at the start of this process: an upgrade may replace the files while a service runs.
OWN_CODE = fingerprint()
