"""Writes the SBOM and the notes of a release. Called by script/release.

The SBOM lists the software that the release installs on hosts (required), and the locked Python packages of
control nodes and development (optional). Files, such as Kafka's jars, have digests. The digests of Python
packages, which consist of several files, are in locks/.
"""

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)")
# Prefixes of locks that only benchmarks and tests use.
NOT_BROUGHT = ("oldest-kafka-", "spark-sources-")


def python_packages(lock: Path) -> Iterator[Component]:
    """Yield the packages of a lock."""
    scope = ComponentScope.OPTIONAL if lock.stem == "controller" else ComponentScope.REQUIRED
    for line in lock.read_text().splitlines():
        if pinned := PINNED.match(line):
            name, version = pinned.groups()
            yield Component(
                name=name,
                version=version,
                scope=scope,
                bom_ref=f"pypi/{name}@{version}",
                purl=PackageURL("pypi", None, name, version),
            )


def files(lock: Path) -> Iterator[Component]:
    """Yield the files of a lock, such as Kafka's jars."""
    for line in lock.read_text().splitlines():
        digest, name = line.split()
        yield Component(
            name=name,
            type=ComponentType.FILE,
            bom_ref=f"file/{digest}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )


def sbom(source: Path, version: str) -> str:
    """Return the SBOM as JSON; SystemExit if it is not valid for the schema of CycloneDX."""
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"aqueduct-estate/{version}"))
    bom.metadata.timestamp = datetime.fromtimestamp(int(environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.metadata.component = Component(
        name="aqueduct-estate",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="aqueduct-estate",
        licenses=[LicenseExpression("Apache-2.0")],
        purl=PackageURL("pypi", None, "aqueduct-estate", version),
    )
    found: dict[str, Component] = {}
    # The control node's lock comes first, so that packages that hosts have, too, become required.
    for lock in sorted((source / "locks").glob("*.txt"), key=lambda lock: lock.stem != "controller"):
        found |= {str(component.bom_ref): component for component in python_packages(lock)}
    for lock in sorted((source / "artifacts").glob("*.sha256")):
        if not lock.name.startswith(NOT_BROUGHT):
            found |= {str(component.bom_ref): component for component in files(lock)}
    bom.components.update(found.values())
    bom.register_dependency(bom.metadata.component, found.values())
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"release: the SBOM is not valid: {error}.")
    return text


def notes(source: Path, version: str) -> str:
    """Return the notes: how to install the release, and its section of the changelog."""
    changelog = (source / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## \[{re.escape(version)}\] - .*?\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE
    )
    if not section:
        sys.exit(f"release: CHANGELOG.md has no section for {version}.")
    return f"""# Aqueduct {version}

Install both parts from the same release (guide: docs/guides/install.md):

```sh
sha256sum --check --ignore-missing SHA256SUMS
pip install 'aqueduct_estate-{version}-py3-none-any.whl[controller]'
ansible-galaxy collection install --no-deps --collections-path collections aqueduct-estate-{version}.tar.gz
```

{section[1].strip()}
"""


def main(source: Path, out: Path) -> None:
    version = (source / "VERSION").read_text().strip()
    (out / f"aqueduct-estate-{version}.cdx.json").write_text(f"{sbom(source, version)}\n")
    (out / "NOTES.md").write_text(notes(source, version))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
