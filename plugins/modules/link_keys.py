#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: link_keys
short_description: Create the key pairs of one-way links
description:
  - Runs on the control node. A pair that exists is kept.
  - A private key that others than its owner can read is refused.
author: The Aqueduct project (!UNKNOWN)
options:
  directory: {description: The folder of the pairs., type: path, required: true}
  pairs:
    description: The pairs.
    type: list
    elements: dict
    required: true
    suboptions:
      kind: {description: The end of a link., type: str, choices: [receiver, sender], required: true}
      name: {description: Name of the pair's files., type: str, required: true}
"""

EXAMPLES = r"""
- name: Create the key pair of a receiving end
  aqueduct.estate.link_keys:
    directory: "{{ inventory_dir }}/pki/links"
    pairs: [{kind: receiver, name: enclave}]
  run_once: true
"""

RETURN = r"""
made: {description: Names of the pairs that were created., type: list, returned: success}
"""
