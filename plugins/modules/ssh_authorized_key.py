#!/usr/bin/python
"""Ansible module: authorize a key for a user's account, in a home folder that is that user's own."""

DOCUMENTATION = r"""
module: ssh_authorized_key
short_description: Authorize an SSH key, without following a link of the user
description:
  - The line of the key is in C(~/.ssh/authorized_keys). Lines of other keys stay as they are.
  - Another host may have sent the key. A text that is not a public key of OpenSSH is refused.
  - The user can write in the home folder. A symbolic link instead of C(.ssh) or of the file is therefore
    refused, unless only root can have created it.
author: The Aqueduct project (!UNKNOWN)
options:
  user: {description: The account., type: str, required: true}
  key: {description: "The public key: its type and its base64 text.", type: str, required: true}
  key_options: {description: Options of the key that restrict its use., type: str, default: ""}
  comment: {description: Comment at the end of the line., type: str, default: ""}
"""

EXAMPLES = r"""
- name: Authorize the key to read only the folder
  aqueduct.estate.ssh_authorized_key:
    user: backup
    key: "{{ key.public_key }}"
    key_options: "{{ '/etc/aqueduct' | aqueduct.estate.read_only_key }}"
"""

RETURN = r"""
path: {description: The file., type: str, returned: success}
"""

import base64
import binascii
import pwd
import re
import struct
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files

FOLDER = ".ssh"
FILE = "authorized_keys"
KEY_TYPES = (
    *("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"),
)
# Options end at the first blank outside of quotes (sshd(8)).
OPTIONS = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^"\s])+\s+')


def public_key(text: str) -> tuple[str, str]:
    """Return type and base64 text of a public key; ValueError if it is none, or not of that type."""
    words = text.split()
    if len(words) < 2 or words[0] not in KEY_TYPES:
        raise ValueError("its type is not one of OpenSSH")
    key_type, key_text = words[:2]
    try:
        blob = base64.b64decode(key_text, validate=True)
    except binascii.Error:
        raise ValueError("it is not base64") from None
    start = struct.pack(">I", len(key_type)) + key_type.encode()
    if not blob.startswith(start) or len(blob) == len(start):
        raise ValueError("its content is not of its type")
    return key_type, key_text


def line_key(line: str) -> tuple[str, ...]:
    """Return type and base64 text of the key in a line; empty if the line has none."""
    fields = line.split(None, 2)
    if fields and not fields[0].startswith("#") and fields[0] not in KEY_TYPES:
        options = OPTIONS.match(line.lstrip())
        fields = line.lstrip()[options.end() :].split(None, 2) if options else []
    return tuple(fields[:2]) if fields and fields[0] in KEY_TYPES else ()


def authorized(content: str, key: str, key_options: str, comment: str) -> str:
    """Return the content of the file with the line of a key, which has one line afterwards."""
    key_type, key_text = public_key(key)
    declared = " ".join(part for part in (key_options, key_type, key_text, comment) if part)
    lines: list[str] = []
    for line in content.removesuffix("\n").split("\n") if content else ():
        if line_key(line) != (key_type, key_text):
            lines.append(line)
        elif declared not in lines:
            lines.append(declared)
    if declared not in lines:
        lines.append(declared)
    return "".join(f"{line}\n" for line in lines)


def apply(module: Any, account: pwd.struct_passwd) -> bool:
    """Write the key's line to the file of the account; return whether the file was changed."""
    home = Path(account.pw_dir)
    with safe_files.folder(home) as folder:
        made = not folder.exists(FOLDER)
    if made and module.check_mode:
        return True
    own = safe_files.Access(account.pw_uid, account.pw_gid, 0o700)
    with safe_files.folder(home / FOLDER, make=True) as folder:
        if made:
            folder.give(own)
        stored = (folder.read(FILE) or b"").decode("utf-8", "surrogateescape")
        parameters = (module.params[name] or "" for name in ("key", "key_options", "comment"))
        content = authorized(stored, *parameters)
        if content == stored:
            return False
        if not module.check_mode:
            access = safe_files.Access(own.user, own.group, 0o600)
            folder.write(FILE, content.encode("utf-8", "surrogateescape"), access)
    return True


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},  # a public one
            "key_options": {"type": "str", "default": "", "no_log": False},
            "comment": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    user = module.params["user"]
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        module.fail_json(
            msg=f"[host-user-missing] Cannot authorize the key: user {user} does not exist. Create the user."
        )
    try:
        public_key(module.params["key"])
    except ValueError as error:
        module.fail_json(
            msg=f"[ssh-key-invalid] Cannot authorize the key for {user}: it is not a public key of "
            f"OpenSSH ({error}). Nothing was changed. Find out why the backup host sent this text."
        )
    path = Path(account.pw_dir, FOLDER, FILE)
    try:
        changed = apply(module, account)
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}")
    except OSError as error:
        module.fail_json(
            msg=f"[host-file-unwritable] Cannot write {path}: {error.strerror}. Create the home folder of "
            f"{user}, or correct its permissions."
        )
    module.exit_json(changed=changed, path=str(path))


if __name__ == "__main__":
    main()
