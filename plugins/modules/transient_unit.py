#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: transient_unit
short_description: Run a command on a host as a transient systemd unit, and show its output while it runs
description:
  - The command is a child of systemd. It continues if the connection breaks. The host's journal has
    its output.
  - The task fails if the unit runs already, or if the command ends with another exit code than 0 or 3.
  - Nothing is run in check mode.
author: The Aqueduct project (!UNKNOWN)
options:
  name: {description: Name of the unit without C(.service)., type: str, required: true}
  argv: {description: The command and its arguments., type: list, elements: str, required: true}
  properties: {description: "Properties of the unit, as a unit file has them.", type: dict, default: {}}
  poll_seconds: {description: Seconds between two queries for new output., type: int, default: 2}
"""

EXAMPLES = r"""
- name: Back up the cluster now
  aqueduct.estate.transient_unit:
    name: backup_now
    argv: [/opt/aqueduct/spark/bin/aqueduct, backup, --store=s3://backups]
    properties: {User: backup}
"""

RETURN = r"""
rc: {description: The exit code of the command., type: int, returned: always}
lines: {description: The lines of its output., type: list, returned: always}
result: {description: The result of the unit., type: str, returned: always}
"""
