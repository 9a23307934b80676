#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: host_status
short_description: Ask a host for the state of its services
description:
  - Each role declares in C(_<role>_status) (C(vars/main.yml)) what to ask. M(aqueduct.estate.host_facts) asks
    it on the host.
  - Nothing is changed, and nothing is judged. M(aqueduct.estate.estate_status) judges.
author: The Aqueduct project (!UNKNOWN)
options:
  roles: {description: The folder of the roles., type: path, required: true}
  seconds: {description: Time limit of each question., type: int, required: true}
"""

EXAMPLES = r"""
- name: Collect the state of the services of each host
  aqueduct.estate.host_status:
    roles: "{{ role_path | dirname }}"
    seconds: 20
  register: answer
"""

RETURN = r"""
facts: {description: "The answers; C(error) if the host gave none.", type: dict, returned: success}
"""
