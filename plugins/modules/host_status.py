#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: host_status
short_description: Query the state of a host's services
description:
  - Each role declares its queries in C(_<role>_status) (C(vars/main.yml)). M(aqueduct.estate.host_facts) runs
    them on the host.
  - Changes nothing. M(aqueduct.estate.estate_status) evaluates the answers.
author: The Aqueduct project (!UNKNOWN)
options:
  roles: {description: The folder of the roles., type: path, required: true}
  seconds: {description: Time limit of each query., type: int, required: true}
"""

EXAMPLES = r"""
- name: Collect the state of the services of each host
  aqueduct.estate.host_status:
    roles: "{{ role_path | dirname }}"
    seconds: 20
  register: answer
"""

RETURN = r"""
facts: {description: "The answers; C(error) if the host did not answer.", type: dict, returned: success}
"""
