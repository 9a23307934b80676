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
  site: {description: Report this site alone., type: str, default: ""}
  unreachable_sites:
    description: Sites that this control node cannot reach. Their objects are not asked from here.
    type: list
    elements: str
    default: []
  verbose: {description: Print also what is well., type: bool, default: false}
  disk_percent: {description: Limit of the used part of a file system., type: int, required: true}
  certificate_days: {description: Least days until a certificate expires., type: int, required: true}
  clock_seconds: {description: Limit of the difference of two clocks., type: int, required: true}
  backup_hours: {description: Limit of the age of a backup., type: int, required: true}
  drill_days: {description: Limit of the age of a drill., type: int, required: true}
  verify_days: {description: Limit of the age of a verify of a backup., type: int, required: true}
  dead_letters: {description: Limit of the number of dead-letter records., type: int, required: true}
  round_minutes: {description: Limit of the time since a round of a landing., type: int, required: true}
  lag_records: {description: Limit of the lag of a flow in records., type: int, required: true}
  lag_seconds: {description: Limit of the lag of a flow in seconds., type: int, required: true}
  keepalive_seconds: {description: Limit of the silence of a link., type: int, required: true}
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
