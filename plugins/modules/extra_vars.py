#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: extra_vars
short_description: Check the command line of a playbook, and that collection and package are of one release
description: Runs on the control node, before the playbook does anything.
author: The Aqueduct project (!UNKNOWN)
options:
  variables:
    description: >-
      The playbook's own variables, each with its kind: C(value) and C(flag) are options of a command; only
      the playbook itself uses a variable of the kind C(own).
    type: dict
    required: true
  required: {description: Variables that must be given., type: list, elements: str, default: []}
  choices: {description: "The accepted values of variables, by name.", type: dict, default: {}}
  confirms: {description: The variable whose value C(confirm) must repeat., type: str, default: ""}
  usage:
    description: "The remedy in error messages; default: the list of the variables."
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Check the variables of the command line
  aqueduct.estate.extra_vars:
    variables: {site: own, dry_run: flag}
    required: [site]
  run_once: true
"""
