"""Refuses an inventory with an unreadable file, before Ansible's own plugins read it.

For an invalid file of variables, Ansible does not show the name of the file. For an invalid hosts.yml, it
shows an error of each inventory plugin. This plugin shows one error for each invalid file, all in one run.
"""

DOCUMENTATION = """
name: readable
short_description: Refuse an inventory with an unreadable file
description: Enable it before Ansible's own inventory plugins. It adds no hosts.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ansible._internal._datatag._tags import Origin
from ansible.errors import AnsibleError, ExitCode
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import AnsibleVaultError
from ansible.plugins.inventory import BaseFileInventoryPlugin
from ansible_collections.aqueduct.estate.plugins.plugin_utils.package import PackageMissing

try:
    from aqueduct.common.wording import place
except ImportError as error:
    raise PackageMissing(error) from None


class InventoryModule(BaseFileInventoryPlugin):
    NAME = "readable"

    def verify_file(self, path: str) -> bool:
        return Path(path).is_file()

    def parse(self, inventory: Any, loader: DataLoader, path: str, cache: bool = True) -> NoReturn:
        faults = [*_faults_of_hosts(loader, path), *_faults_of_variables(loader, Path(path).parent)]
        for fault in faults:
            self.display.error(fault, wrap_text=False)
        if faults:
            # Otherwise, Ansible would call its next plugins, and print an error of each.
            raise SystemExit(int(ExitCode.PARSER_ERROR))
        raise AnsibleError("All files are read; Ansible's own plugins come next.")  # Ansible does not show it


def _faults_of_hosts(loader: DataLoader, path: str) -> Iterator[str]:
    if Path(path).suffix in (".yml", ".yaml"):
        yield from _faults(loader, path, "groups, which begins with all:")


def _faults_of_variables(loader: DataLoader, folder: Path) -> Iterator[str]:
    for kind in ("group_vars", "host_vars"):
        stems = {entry.name if entry.is_dir() else entry.stem for entry in folder.glob(f"{kind}/[!.]*")}
        for stem in sorted(stems):
            for path in loader.find_vars_files(str(folder / kind), stem):
                yield from _faults(loader, path, "variables, each name: value")


def _faults(loader: DataLoader, path: str, mapping: str) -> Iterator[str]:
    """Yield the faults of one file. The loader keeps what it has read, so nothing is parsed twice."""
    try:
        Path(path).read_text(encoding="utf-8")
        content = loader.load_from_file(path, unsafe=True, trusted_as_template=True)
    except UnicodeDecodeError as error:
        lines_before = error.object.count(b"\n", 0, error.start)
        yield f"{place(path, lines_before + 1)}: a character is not UTF-8; save the file as UTF-8."
    except AnsibleVaultError as error:
        remedy = "pass the password of the vault with --vault-password-file or --ask-vault-pass"
        yield f"{place(path)}: {str(error).rstrip('.')}; {remedy}."
    except AnsibleError as error:
        line = error.obj.line_num if isinstance(error.obj, Origin) else None
        remedy = "correct this line or the lines above it (indentation, quotes, brackets)"
        yield f"{place(path, line)}: {str(error).rstrip('.')}; {remedy}."
    else:
        if not isinstance(content, Mapping) and (content or "groups" in mapping):
            held = "a list" if isinstance(content, list) else "a text" if content else "nothing"
            yield f"{place(path)}: the file contains {held}; write a mapping of {mapping}."
