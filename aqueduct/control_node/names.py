"""Names of software, on the control node and on hosts. Each name changes with the content.

Nothing is fetched to know them: a host is asked by these names what it lacks.
"""

import hashlib
import re
from pathlib import Path, PurePosixPath

from aqueduct import DISTRIBUTION
from aqueduct.errors import Refused


def file_and_digest(*, maven: str | None, url: str | None, sha256: str | None, lock: str) -> tuple[str, str]:
    """Name a single file and its SHA-256 without fetching it; Refused where nothing tells the digest."""
    name = _maven_file_name(maven) if maven else PurePosixPath(re.split("[?#]", str(url))[0]).name
    digest = sha256 or read_lock(Path(lock)).get(name)
    if digest is None:
        raise Refused("artifact-digest-unknown", f"{lock} has no digest of {name}. Declare its sha256.")
    return name, digest


def host_folder(name: str, sha256: str) -> str:
    """Name the folder on hosts that a single file is put into, or unpacked: it changes with the content."""
    return f"{name.removesuffix('.jar').removesuffix('.zip').removesuffix('.tar.gz')}-{sha256[:12]}"


def wheels_digest(lock: str) -> str:
    """Name the packages of a lock file: another pin is another name."""
    return sha256_of(Path(lock))[:12]


def own_version(repository: str) -> str:
    """Tell the version of Aqueduct's own wheel: it has a digest of its sources and of the locks (PEP 440).

    So a host that has this version has exactly these sources, with the packages that they were tested with.
    """
    root = Path(repository)
    digest = hashlib.sha256()
    for path in [*own_sources(root), *sorted((root / "locks").glob("*.txt"))]:
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return f"{(root / 'VERSION').read_text().strip()}+{digest.hexdigest()[:12]}"


def own_wheel_name(repository: str) -> str:
    """Name the file of Aqueduct's own wheel."""
    return f"{DISTRIBUTION.replace('-', '_')}-{own_version(repository)}-py3-none-any.whl"


def code_digest(root: Path) -> str:
    """Return a digest of Aqueduct's modules in a folder: a checkout, a collection, or site-packages."""
    digest = hashlib.sha256()
    for path in _modules(root):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def own_sources(root: Path) -> list[Path]:
    return [*_modules(root), root / "pyproject.toml"]


def _modules(root: Path) -> list[Path]:
    packages = (root / name for name in ("aqueduct", "spark_apps"))
    return [path for package in packages for path in sorted(package.rglob("*.py"))]


def read_lock(lock: Path) -> dict[str, str]:
    if not lock.exists():
        raise Refused(
            "artifact-digest-unknown",
            f"The lock file {lock} does not exist, so the digests of this version are unknown. Use a version "
            "that artifacts/ lists, or add its digests there.",
        )
    pairs = (line.split() for line in lock.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def _maven_file_name(coordinates: str) -> str:
    """Return the file name that Maven's repositories use."""
    match coordinates.split(":"):
        case [_, artifact, version, *rest] if len(rest) <= 2:
            kind, classifier = (*rest, *("jar", "")[len(rest) :])
            return f"{artifact}-{version}{'-' * bool(classifier)}{classifier}.{kind}"
    raise Refused(
        "maven-coordinates-invalid",
        f"{coordinates} are not Maven coordinates. Write group:artifact:version[:type[:classifier]].",
    )


def sha256_of(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
