#!/usr/bin/python
"""Ansible module: read a file that a service may have written."""

DOCUMENTATION = r"""
module: service_content
short_description: Read a file in a service's folder, without following a link of the service
description:
  - The module runs as root, who can read every file. It therefore refuses a symbolic link instead of the
    file, unless only root can have created the link.
  - If O(dest) is set, the action plugin of this name copies the file to the control node.
author: The Aqueduct project (!UNKNOWN)
options:
  src: {description: The file., type: path, required: true}
  dest: {description: "Path of the copy on the control node.", type: path}
  must_exist: {description: Fail if the file does not exist., type: bool, default: false}
"""

EXAMPLES = r"""
- name: Read the number of a server of ZooKeeper
  aqueduct.estate.service_content:
    src: /var/lib/zookeeper/myid
  register: number

- name: Bring a report to the control node
  aqueduct.estate.service_content:
    src: /var/lib/backup/report.json
    dest: reports/backup.json
    must_exist: true
"""

RETURN = r"""
content:
  description: "Content in base64; undefined if the file does not exist."
  type: str
  returned: success
dest: {description: "Path of the copy; undefined if the file does not exist.", type: str, returned: success}
"""

import base64
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "path", "required": True},
            "must_exist": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    path, content = Path(module.params["src"]), None
    try:
        with safe_files.folder(path.parent) as folder:
            content = folder.read(path.name)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}")
    if content is None and module.params["must_exist"]:
        module.fail_json(msg=f"[host-file-missing] {path} does not exist on this host.")
    answer = {} if content is None else {"content": base64.b64encode(content).decode()}
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
