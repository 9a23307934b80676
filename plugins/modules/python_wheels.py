#!/usr/bin/python
"""Ansible module: bring the hosts' Python packages into the controller's cache."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: python_wheels
short_description: Fetch the wheels of a lock file once, and build Aqueduct's own, for the hosts
options:
  lock: {description: Requirements with digests., type: path, required: true}
  python: {description: "The hosts' Python, such as 3.11.", type: str, required: true}
  repository: {description: Aqueduct's root folder., type: path, required: true}
  cache: {description: Folder to keep them in., type: path, required: true}
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "path", "required": True},
            "python": {"type": "str", "required": True},
            "repository": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
        }
    )
    from aqueduct.controller import artifacts
    from aqueduct.errors import AqueductError

    given = module.params
    try:
        wheels = artifacts.wheelhouse(lock=given["lock"], python=given["python"], cache=given["cache"])
        own = artifacts.own_wheel(repository=given["repository"], cache=given["cache"])
    except AqueductError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=wheels.fetched or own.fetched, wheelhouse=str(wheels.path), own=str(own.path))


if __name__ == "__main__":
    main()
