"""The release that a new repository installs: from package indexes, or from files in a folder."""

import json
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

from aqueduct import DISTRIBUTION
from aqueduct.errors import Refused

COLLECTION = "aqueduct.estate"


@dataclass(frozen=True, kw_only=True)
class ReleaseRequirements:
    """Texts for requirements.txt, and for the entry of requirements.yml."""

    package: str
    collection: str

    @classmethod
    def from_indexes(cls) -> Self:
        number = version(DISTRIBUTION)
        return cls(
            package=f"{DISTRIBUTION}[controller]=={number}",
            collection=_entry(COLLECTION, f'version: "=={number}"'),
        )

    @classmethod
    def from_files(cls, folder: Path, repository: Path) -> Self:
        """Require the files in a folder, by their paths from the repository; Refused if one is missing.

        pip and ansible-galaxy read these paths from the folder in which they are started.
        """
        number = version(DISTRIBUTION)
        wheel = f"{DISTRIBUTION.replace('-', '_')}-{number}-py3-none-any.whl"
        tarball = f"{COLLECTION.replace('.', '-')}-{number}.tar.gz"
        if missing := [name for name in (wheel, tarball) if not os.access(folder / name, os.R_OK)]:
            raise Refused(
                "init-release-missing",
                f"Cannot read {' and '.join(missing)} in {folder}. Pass the folder with both files of "
                f"release {number} to --from. Nothing was written.",
            )
        relative = os.path.relpath(folder.resolve(), repository.resolve())
        return cls(
            package=f"{relative}/{wheel}[controller]",
            collection=_entry(json.dumps(f"{relative}/{tarball}"), "type: file"),
        )


def _entry(name: str, more: str) -> str:
    return f"name: {name}\n    {more}"
