#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: authority
short_description: Replace the estate's own certificate authority, step by step
description:
  - Runs on the control node. The playbook C(aqueduct.estate.authority) runs all steps.
  - Nothing is replaced in check mode.
author: The Aqueduct project (!UNKNOWN)
options:
  step:
    description: The step to run. Required if O(rolled_out) is false.
    type: str
    choices: [introduce, switch, retire]
  rolled_out: {description: Record that all hosts have completed the step., type: bool, default: false}
  directory: {description: The folder of the estate's keys on the control node., type: path, required: true}
"""

EXAMPLES = r"""
- name: Create the new authority beside the old one
  aqueduct.estate.authority:
    step: introduce
    directory: "{{ inventory_dir }}/pki"
  run_once: true
"""
