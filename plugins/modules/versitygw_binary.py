#!/usr/bin/python
"""Ansible module: bring versitygw's binary, checked against a lock file, into the controller's cache."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: versitygw_binary
short_description: Build or fetch the object store versitygw once, and check it against a lock file
description:
  - Runs on the controller. V(go) fetches a Go toolchain from the Python package index and builds the binary,
    which takes a minute or two; whoever builds it gets the same one, so the lock has its digest.
  - A binary that is in the cache already is checked again and not built.
options:
  version: {description: The version of versitygw., type: str, required: true}
  source: {description: Where the binary comes from., type: str, choices: [go, archive], required: true}
  archive_url: {description: The vendor's C(.tar.gz)., type: str}
  archive_sha256: {description: Its digest., type: str}
  lock:
    description: File in the format of sha256sum with the digest of the binary for each kind of machine.
    type: path
    required: true
  toolchain: {description: File of pip requirements that pins the Go toolchain., type: path, required: true}
  cache: {description: Folder to keep the binary in., type: path, required: true}
"""

RETURN = r"""
path: {description: The binary., type: str, returned: success}
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "source": {"type": "str", "choices": ["go", "archive"], "required": True},
            "archive_url": {"type": "str"},
            "archive_sha256": {"type": "str"},
            "lock": {"type": "path", "required": True},
            "toolchain": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
        },
        required_if=[
            ("source", "archive", ["archive_url", "archive_sha256"]),
        ],
    )
    from aqueduct.controller import artifacts
    from aqueduct.errors import AqueductError

    try:
        result = artifacts.versitygw(**module.params)
    except AqueductError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=result.fetched, path=str(result.path))


if __name__ == "__main__":
    main()
