#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: estate_status
short_description: Evaluate the answers of all hosts, and print and write the state of the estate
description:
  - Runs on the control node. M(aqueduct.estate.host_status) collects the answers.
  - Writes C(status.json), C(status.html), C(status.prom) and C(status-facts.json). The task fails if an
    object needs action or is unknown.
author: The Aqueduct project (!UNKNOWN)
options:
  hosts: {description: Hosts of the play., type: list, elements: str, required: true}
  answers: {description: The variable in which each host has its answer., type: str, required: true}
  roles: {description: The folder of the roles., type: path, required: true}
  directory: {description: The folder to write to., type: path, required: true}
  site: {description: Report only this site., type: str, default: ""}
  unreachable_sites:
    description: Sites that this control node cannot reach. Their objects are not queried.
    type: list
    elements: str
    default: []
  verbose: {description: "Print all objects, not only findings.", type: bool, default: false}
  disk_percent: {description: Limit of the used space of a file system in percent., type: int, required: true}
  certificate_days: {description: Least days until a certificate expires., type: int, required: true}
  clock_seconds: {description: Limit of the difference of two clocks., type: int, required: true}
  backup_hours: {description: Limit of the age of a backup., type: int, required: true}
  drill_days: {description: Limit of the age of a drill., type: int, required: true}
  verify_days: {description: Limit of the age of a verify of a backup., type: int, required: true}
  dead_letters: {description: Limit of the number of dead-letter records., type: int, required: true}
  round_minutes:
    description: Limit of the age of the last round of a landing or dedup service.
    type: int
    required: true
  lag_records: {description: Limit of the lag of a flow in records., type: int, required: true}
  lag_seconds: {description: Limit of the lag of a flow in seconds., type: int, required: true}
  keepalive_seconds:
    description: Limit of the age of the last keepalive of a link.
    type: int
    required: true
  missing_records: {description: Limit of the number of missing records of a link., type: int, required: true}
  lost_records: {description: Limit of the number of lost records of a link., type: int, required: true}
"""

EXAMPLES = r"""
- name: Report the state of the estate
  aqueduct.estate.estate_status:
    hosts: "{{ ansible_play_hosts_all }}"
    answers: answer
    roles: "{{ role_path | dirname }}"
    directory: reports
    disk_percent: 85
    certificate_days: 20
    clock_seconds: 5
    backup_hours: 48
    drill_days: 8
    dead_letters: 0
    round_minutes: 30
    lag_records: 1000000
    lag_seconds: 3600
    keepalive_seconds: 15
    missing_records: 0
    lost_records: 0
  run_once: true
"""
