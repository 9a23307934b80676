#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: exporter_targets
short_description: Write the files that Prometheus and Grafana need, and list the exporters of each host
description:
  - Runs on the control node. No host is contacted, so the files contain all targets, also with C(--limit).
  - Also writes C(estate.json), which C(aqueduct status --estate) uses to query the estate without Ansible.
author: The Aqueduct project (!UNKNOWN)
options:
  roles: {description: The folder of the roles., type: path, required: true}
  hosts: {description: Hosts that are monitored., type: list, elements: str, required: true}
  directory: {description: The folder to write to., type: path, required: true}
  rules: {description: A folder of alert rules to copy., type: path, required: true}
  dashboards: {description: A folder of dashboards to copy., type: path, required: true}
"""

EXAMPLES = r"""
- name: Write the files for Prometheus and Grafana
  aqueduct.estate.exporter_targets:
    roles: "{{ role_path | dirname }}"
    hosts: "{{ groups.monitoring }}"
    directory: monitoring
    rules: "{{ role_path | dirname | dirname }}/docs/alerts"
    dashboards: "{{ role_path | dirname | dirname }}/docs/dashboards"
  run_once: true
"""

RETURN = r"""
estate:
  description: "Content of C(estate.json): the declared objects, and the hosts that can be queried."
  type: str
  returned: success
exporters: {description: "C(name) and C(port) of exporters, by host.", type: dict, returned: success}
files: {description: Files that were written., type: list, returned: success}
"""
