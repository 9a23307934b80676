#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: host_needs
short_description: Collect what the services of a host need there
description:
  - Runs on the control node. Each role declares its needs in C(_<role>_needs) (C(vars/main.yml)).
  - M(aqueduct.estate.host_software) and M(aqueduct.estate.host_keys) install them.
author: The Aqueduct project (!UNKNOWN)
options:
  roles: {description: The folder of the roles., type: path, required: true}
"""

EXAMPLES = r"""
- name: Collect the needs of the host's services
  aqueduct.estate.host_needs:
    roles: "{{ role_path | dirname }}"
  register: host
"""

RETURN = r"""
needs: {description: "Users, folders, packages, software and keys.", type: dict, returned: success}
"""
