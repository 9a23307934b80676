#!/usr/bin/python
"""Ansible module: read a file that a service may have written."""

DOCUMENTATION = r"""
module: service_content
short_description: Read a file in a service's folder, and none that the service leads to
description:
  - Root may read every file, so a link in the place of this one is refused, unless only root can have made
    it.
  - The action of this name brings the file to the controller, where O(dest) is given.
author: The Aqueduct project (!UNKNOWN)
options:
  src: {description: The file., type: path, required: true}
  dest: {description: "Where it is written on the controller.", type: path}
  must_exist: {description: Whether it is an error that the file does not exist., type: bool, default: false}
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
content: {description: "Its bytes in base64; undefined if it does not exist.", type: str, returned: success}
dest: {description: "Where it was written; undefined if it does not exist.", type: str, returned: success}
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
        module.fail_json(msg=f"[host-file-missing] {path} does not exist.")
    answer = {} if content is None else {"content": base64.b64encode(content).decode()}
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
