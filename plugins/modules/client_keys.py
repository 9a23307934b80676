#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: client_keys
short_description: Create the estate's own certificate authority, and keys and certificates of clients
description:
  - Runs on the control node. A certificate that expires soon is renewed.
  - Nothing is created in check mode.
author: The Aqueduct project (!UNKNOWN)
options:
  clients: {description: Principals of the clients., type: list, elements: str, required: true}
  directory: {description: The folder of the estate's keys on the control node., type: path, required: true}
  validity_days: {description: Validity of a new certificate., type: int, required: true}
  renewal_days:
    description: Renew a certificate that expires within this number of days.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Create a key and a certificate for one application
  aqueduct.estate.client_keys:
    clients: [app-orders]
    directory: "{{ inventory_dir }}/pki"
    validity_days: 90
    renewal_days: 30
  run_once: true
"""
