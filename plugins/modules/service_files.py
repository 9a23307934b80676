#!/usr/bin/python
"""Ansible module: have all files that a service reads, in one step a host."""

import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: service_files
short_description: Write the files of a service
description:
  - A file that is as declared is left alone, and its time, by which M(service_units) restarts.
  - Others are replaced whole.
  - Nothing is written where an owner or a folder is missing.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    options:
      dest: {description: Its path., type: path, required: true}
      content: {description: Its text., type: str, default: ""}
      state: {description: V(absent) removes it., type: str, choices: [present, absent], default: present}
      owner: {description: Owner and group., type: str, default: root}
      mode: {description: Its permissions in octal digits., type: str, default: "0644"}
      shown: {description: Whether a difference (C(--diff)) is shown., type: bool, default: true}
  secrets:
    description:
      - Texts that are masked in all that is shown.
      - One that only the file that was there has is not among them, and is shown.
    type: list
    elements: str
    default: []
"""

RETURN = r"""
written: {description: Paths that were written or removed., type: list, returned: success}
"""

NOT_SHOWN = "(not shown)\n"
FILE = {
    "dest": {"type": "path", "required": True},
    "content": {"type": "str", "default": ""},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "owner": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0644"},
    "shown": {"type": "bool", "default": True},
}


def declared_content(file: dict[str, Any]) -> bytes | None:
    """Return what a file is to have, in UTF-8; None if it is to be absent."""
    if file["state"] == "absent":
        return None
    text = file["content"] or ""  # Ansible makes None of an empty template
    return str(text).encode("utf-8", "surrogateescape")


def problem(file: dict[str, Any]) -> str | None:
    """Tell why a file can't be written."""
    if file["state"] == "absent":
        return None
    if not Path(file["dest"]).parent.is_dir():
        return f"{file['dest']} can't be written: the folder is not there; playbooks/hosts.yml makes it."
    try:
        pwd.getpwnam(file["owner"]), grp.getgrnam(file["owner"])
    except KeyError:
        return (
            f"{file['dest']} can't be written: there is no user and group {file['owner']}; "
            "playbooks/hosts.yml makes them."
        )
    return None


def content(path: Path) -> bytes | None:
    """Read a file; None if it isn't there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def declared_rights(file: dict[str, Any]) -> tuple[int, int, int]:
    """Return user, group and mode as declared."""
    return pwd.getpwnam(file["owner"]).pw_uid, grp.getgrnam(file["owner"]).gr_gid, int(file["mode"], 8)


def rights(path: Path) -> tuple[int, int, int]:
    """Return user, group and mode as they are."""
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def give_rights(file: dict[str, Any], descriptor: int) -> None:
    """Give an open file its owner, group and mode."""
    user, group, mode = declared_rights(file)
    os.fchown(descriptor, user, group)
    os.fchmod(descriptor, mode)


def write(module: Any, file: dict[str, Any], wanted: bytes) -> None:
    """Replace a file at once: a reader finds the old or the new one, and only who may read it."""
    dest = Path(file["dest"])
    descriptor, scratch = tempfile.mkstemp(dir=dest.parent, prefix=f".{dest.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(wanted)
            give_rights(file, stream.fileno())
        Path(scratch).replace(dest)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
    if module.selinux_enabled():
        module.set_default_selinux_context(file["dest"], False)


def apply(module: Any, file: dict[str, Any]) -> dict[str, str] | None:
    """Have a file as declared; return the difference, None where there was none."""
    dest, wanted = Path(file["dest"]), declared_content(file)
    found = content(dest)
    if found != wanted:
        if not module.check_mode:
            dest.unlink() if wanted is None else write(module, file, wanted)
        both = ((each or b"").decode("utf-8", "replace") for each in (found, wanted))
        before, after = both if file["shown"] else ("", NOT_SHOWN)
    elif wanted is None or problem(file) or rights(dest) == declared_rights(file):
        return None
    else:
        owned = rights(dest), declared_rights(file)
        before, after = (f"{user}:{group} {mode:04o}\n" for user, group, mode in owned)
        if not module.check_mode:
            with dest.open() as stream:
                give_rights(file, stream.fileno())
    return {"before": before, "after": after, "before_header": file["dest"], "after_header": file["dest"]}


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
    problems = [each for file in files if (each := problem(file))]
    if problems and not module.check_mode:
        module.fail_json(msg=" ".join(problems), invocation=shown)
    differences = {file["dest"]: found for file in files if (found := apply(module, file))}
    module.exit_json(
        changed=bool(differences),
        written=list(differences),
        diff=list(differences.values()),
        invocation=shown,
    )


if __name__ == "__main__":
    main()
