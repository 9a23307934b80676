#!/usr/bin/python
"""Ansible module: bring one file, checked against its digest, into the controller's cache."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: checked_file
short_description: Fetch one file from Maven's repository or a URL once, and check its digest
description:
  - Runs on the controller. A file that is in the cache already is checked again and not fetched.
options:
  maven: {description: "Coordinates, C(group:artifact:version[:type[:classifier]]).", type: str}
  url: {description: "Where else it comes from; C(file://), too.", type: str}
  sha256: {description: "Its digest. By default the lock's, by the name of the file.", type: str}
  lock: {description: File in the format of sha256sum., type: path, required: true}
  cache: {description: Folder to keep it in., type: path, required: true}
"""

RETURN = r"""
path: {description: The file., type: str, returned: success}
name: {description: A folder's name that changes with its content., type: str, returned: success}
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "maven": {"type": "str"},
            "url": {"type": "str"},
            "sha256": {"type": "str"},
            "lock": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
        },
        required_one_of=[("maven", "url")],
        mutually_exclusive=[("maven", "url")],
    )
    from aqueduct.controller import artifacts
    from aqueduct.errors import AqueductError

    try:
        result = artifacts.single_file(**module.params)
    except AqueductError as error:
        module.fail_json(msg=str(error))
    name = result.path.name.removesuffix(".jar").removesuffix(".zip").removesuffix(".tar.gz")
    module.exit_json(changed=result.fetched, path=str(result.path), name=f"{name}-{result.path.parent.name}")


if __name__ == "__main__":
    main()
