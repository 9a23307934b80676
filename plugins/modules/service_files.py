#!/usr/bin/python
"""Ansible module: have all files that a service reads, in one step a host."""

DOCUMENTATION = r"""
module: service_files
short_description: Write the files of a service
description:
  - A file that is as declared is not written, so its modification time does not change.
    M(aqueduct.estate.service_units) uses this time to decide about restarts.
  - Any other file is replaced as a whole.
  - If the owner or the folder of a file does not exist, nothing is written.
  - A symbolic link instead of a file or a folder is refused, unless only root can have created it. With the
    state V(absent), the link is removed.
author: The Aqueduct project (!UNKNOWN)
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      dest: {description: Path of the file., type: path, required: true}
      content: {description: Content of the file., type: str, default: ""}
      state:
        description: V(absent) removes the file, or the folder with all its content.
        type: str
        choices: [present, absent]
        default: present
      owner: {description: Owner and group., type: str, default: root}
      mode: {description: Permissions in octal digits., type: str, default: "0644"}
      shown: {description: Whether C(--diff) shows the difference., type: bool, default: true}
  secrets:
    description:
      - Texts that are masked in the output.
      - A secret that only the previous content of a file contains is not masked.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Write a unit, and remove an older one
  aqueduct.estate.service_files:
    files:
      - dest: /etc/systemd/system/prune.timer
        content: "{{ lookup('ansible.builtin.template', 'prune.timer.j2') }}"
      - dest: /etc/systemd/system/prune-old.timer
        state: absent
"""

RETURN = r"""
written: {description: Paths that were written or removed., type: list, returned: success}
"""

import grp
import pwd
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files

NOT_SHOWN = "(not shown)\n"
FILE = {
    "dest": {"type": "path", "required": True},
    "content": {"type": "str", "default": ""},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "owner": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0644"},
    "shown": {"type": "bool", "default": True},
}


def declared_content(file: dict[str, Any]) -> bytes:
    """Return what a file is to have, in UTF-8."""
    text = file["content"] or ""  # Ansible makes None of an empty template
    return str(text).encode("utf-8", "surrogateescape")


def problem(file: dict[str, Any]) -> str | None:
    """Tell why a file can't be written."""
    try:
        with safe_files.folder(Path(file["dest"]).parent):
            pass
    except (FileNotFoundError, NotADirectoryError):
        if file["state"] == "absent":
            return None
        return (
            f"[host-folder-missing] Cannot write {file['dest']}: its folder does not exist. "
            "Run playbooks/hosts.yml, which creates it."
        )
    except safe_files.UnsafePath as error:
        return f"[path-unsafe] {error}"
    if file["state"] == "absent":
        return None
    try:
        pwd.getpwnam(file["owner"]), grp.getgrnam(file["owner"])
    except KeyError:
        return (
            "[host-user-missing] "
            f"Cannot write {file['dest']}: this host has no user and group {file['owner']}. "
            "Run playbooks/hosts.yml, which creates them."
        )
    return None


def declared_rights(file: dict[str, Any]) -> safe_files.Access:
    """Return user, group and mode as declared."""
    user, group = pwd.getpwnam(file["owner"]).pw_uid, grp.getgrnam(file["owner"]).gr_gid
    return safe_files.Access(user, group, int(file["mode"], 8))


def apply(module: Any, file: dict[str, Any]) -> dict[str, str] | None:
    """Have a file as declared; return the difference, None where there was none."""
    dest, folder = Path(file["dest"]), None
    with ExitStack() as opened:
        with suppress(FileNotFoundError, NotADirectoryError):
            folder = opened.enter_context(safe_files.folder(dest.parent))
        if file["state"] == "absent":
            return remove(module, file, folder)
        stored, declared = folder.read(dest.name) if folder else None, declared_content(file)
        if stored != declared:
            if folder and not module.check_mode:
                folder.write(dest.name, declared, declared_rights(file))
                if module.selinux_enabled():
                    module.set_default_selinux_context(file["dest"], False)
            both = ((content or b"").decode("utf-8", "replace") for content in (stored, declared))
            before, after = both if file["shown"] else ("", NOT_SHOWN)
            return difference(dest, before, after)
        if problem(file) or not folder:
            return None
        with folder.open(dest.name) as descriptor:
            has, wants = safe_files.Access.of(descriptor), declared_rights(file)
        if not folder.give_file(dest.name, wants, dry=module.check_mode):
            return None
        before, after = (f"{access.user}:{access.group} {access.mode:04o}\n" for access in (has, wants))
        return difference(dest, before, after)


def remove(module: Any, file: dict[str, Any], folder: safe_files.Folder | None) -> dict[str, str] | None:
    """Remove a file, a link or a folder; return the difference, None where there was nothing."""
    dest = Path(file["dest"])
    if not folder or not folder.exists(dest.name):
        return None
    try:
        before = (folder.read(dest.name) or b"").decode("utf-8", "replace")
    except (safe_files.UnsafePath, OSError):  # a link, or a folder
        before = ""
    if not module.check_mode:
        folder.remove(dest.name)
    return difference(dest, *((before, "") if file["shown"] else ("", NOT_SHOWN)))


def difference(dest: Path, before: str, after: str) -> dict[str, str]:
    return {"before": before, "after": after, "before_header": str(dest), "after_header": str(dest)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            # Marked, so that the host's journal does not have them.
            "files": {"type": "list", "elements": "dict", "required": True, "options": FILE, "no_log": True},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
        },
        supports_check_mode=True,
    )
    files, secrets = module.params["files"], module.params["secrets"]
    # From here on a difference is to be seen, but for secrets.
    module.no_log_values = {secret for secret in secrets if secret}
    shown = {"module_args": {"files": [file["dest"] for file in files]}}
    problems = [fault for file in files if (fault := problem(file))]
    if problems and not module.check_mode:
        module.fail_json(msg=" ".join(problems), invocation=shown)
    try:
        differences = {file["dest"]: change for file in files if (change := apply(module, file))}
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}", invocation=shown)
    module.exit_json(
        changed=bool(differences),
        written=list(differences),
        diff=list(differences.values()),
        invocation=shown,
    )


if __name__ == "__main__":
    main()
