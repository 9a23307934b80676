"""Filters that tell where software is on hosts; what brings it there is the action host_software."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from aqueduct.control_node import names
from aqueduct.errors import AqueductError

ROOT = Path(__file__).resolve().parents[2]


def artifact_folder(file: Mapping[str, str]) -> str:
    """`file | artifact_folder`: where a file (`maven` or `url`, `sha256`, `folder`) is, or was unpacked."""
    try:
        name, sha256 = _named(file)
    except AqueductError as error:
        raise AnsibleFilterError(error.labelled) from error
    return f"{file['folder']}/{names.host_folder(name, sha256)}"


def artifact_path(file: Mapping[str, str]) -> str:
    """`file | artifact_path`: the file itself, where it is a jar."""
    return f"{artifact_folder(file)}/{_named(file)[0]}"


def own_wheel(name: str) -> str:
    """`'aqueduct' | own_wheel`: the file name of our own code, which changes with it."""
    return names.own_wheel_name(str(ROOT))


def _named(file: Mapping[str, str]) -> tuple[str, str]:
    return names.file_and_digest(
        maven=file.get("maven"),
        url=file.get("url"),
        sha256=file.get("sha256"),
        lock=str(ROOT / "artifacts/files.sha256"),
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"artifact_folder": artifact_folder, "artifact_path": artifact_path, "own_wheel": own_wheel}
