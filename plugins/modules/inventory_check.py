#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: inventory_check
short_description: Validate the whole inventory
description:
  - Runs on the control node and contacts no host.
  - The task fails if there is an error. Each error has file, line and remedy.
author: The Aqueduct project (!UNKNOWN)
options:
  roles: {description: The folder of the roles., type: path, required: true}
  artifacts:
    description: The folder with digests and settings of Kafka's versions.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Check the inventory
  aqueduct.estate.inventory_check:
    roles: "{{ role_path | dirname }}"
    artifacts: "{{ role_path | dirname | dirname }}/artifacts"
  run_once: true
"""

RETURN = r"""
errors: {description: "The errors, one in each line.", type: str, returned: failure}
"""
