#!/usr/bin/python
"""Ansible module: make a Connect cluster have the declared connectors."""

DOCUMENTATION = r"""
module: connect_connectors
short_description: Create, change, pause, restart and delete connectors of Kafka Connect
description:
  - Runs on a host that can reach the REST API of Connect. Pass all connectors in one call. Connectors that
    are not listed stay as they are.
  - First, Connect validates each configuration with its plugin, in check mode, too. The client settings in
    the configuration are checked as by C(aqueduct doctor connect --strict). The module warns about a setting
    that neither Connect nor the plugin defines, because Connect ignores it.
  - A connector whose configuration is refused is not changed. The other connectors are changed, and then the
    task fails.
  - Returns when each connector and all its tasks are in the declared state. A connector or task that has
    failed is restarted once. If it fails again, the module fails and shows the stack trace.
  - Keep secrets in a file of a config provider, C(${file:...:...}). A password in a configuration is refused,
    because the REST API shows it to every client with access.
author: The Aqueduct project (!UNKNOWN)
options:
  urls:
    description: "REST URLs of the workers, such as C(https://connect-1.example.com:8083); tried in turn."
    type: list
    elements: str
    required: true
  client_config:
    description: File of Kafka client properties; its CA, certificate and key are used for HTTPS.
    type: path
  worker_config:
    description: File of the worker's properties; without it, client settings are not checked.
    type: path
  connectors:
    description: The connectors.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the connector., type: str, required: true}
      state:
        description: The state of the connector; V(absent) deletes it.
        type: str
        choices: [running, paused, stopped, absent]
        default: running
      config:
        description:
          - All settings of the connector. If empty, an existing connector keeps its settings. A setting with
            the value null is omitted.
        type: dict
  file_directories:
    description:
      - Folders that Kafka's file connectors can use. With an empty list, these connectors are refused.
      - Needs O(secrets_file), the only file that a configuration may refer to.
      - Without both options, file names in configurations are not checked.
    type: list
    elements: str
  secrets_file: {description: "See O(file_directories).", type: str}
  timeout_seconds:
    description: Time limit in seconds until REST answers and all connectors are in their declared state.
    type: int
    default: 120
  settle_seconds:
    description:
      - Seconds for which a changed connector must stay in its declared state. Added to O(timeout_seconds).
      - The default detects sinks of JDBC, which fail 30 seconds after their first record if their database is
        unreachable.
    type: int
    default: 45
"""

EXAMPLES = r"""
- name: Keep one connector running
  aqueduct.estate.connect_connectors:
    urls: [https://connect-1.example.com:8083]
    client_config: /etc/aqueduct/connect/tls/client.properties
    connectors:
      - name: orders-to-warehouse
        config:
          connector.class: org.apache.kafka.connect.file.FileStreamSinkConnector
          topics: orders
          file: /var/lib/connect/orders.txt
"""

RETURN = r"""
created: {description: Names of connectors that were created., type: list, returned: success}
updated: {description: Names of connectors that got other settings., type: list, returned: success}
moved:
  description: "Names of connectors that were paused, stopped or resumed."
  type: list
  returned: success
restarted:
  description: Names of connectors that were restarted because they or a task had failed.
  type: list
  returned: success
deleted: {description: Names of connectors that were deleted., type: list, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


class Unlogged(AnsibleModule):  # type: ignore[misc]
    """A secret that should not be among the arguments is not in the host's journal, where Ansible logs them.

    The constructor's `no_log` does not do it: what the task says of it, or does not, comes after it.
    """

    def log(self, msg: str, log_args: dict[str, str] | None = None) -> None:
        """Log nothing."""


def main() -> None:
    """Run the module."""
    module = Unlogged(
        argument_spec={
            "urls": {"type": "list", "elements": "str", "required": True},
            "client_config": {"type": "path"},
            "worker_config": {"type": "path"},
            "connectors": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "state": {
                        "type": "str",
                        "choices": ["running", "paused", "stopped", "absent"],
                        "default": "running",
                    },
                    "config": {"type": "dict"},
                },
            },
            "file_directories": {"type": "list", "elements": "str"},
            "secrets_file": {"type": "str", "no_log": False},
            "timeout_seconds": {"type": "int", "default": 120},
            "settle_seconds": {"type": "int", "default": 45},
        },
        required_together=[("file_directories", "secrets_file")],
        supports_check_mode=True,
    )
    from aqueduct.connect import connectors
    from aqueduct.connect.apply import apply, await_declared, check, check_clients, check_files
    from aqueduct.connect.rest import Connect
    from aqueduct.errors import AqueductError
    from aqueduct.kafka import client_config

    given = module.params
    module.no_log_values.update(connectors.secrets(given["connectors"]))
    refused: tuple[str, ...] = ()
    try:
        declared = connectors.parse(given["connectors"])
        if given["secrets_file"]:
            check_files(declared, given["file_directories"], given["secrets_file"])
        if given["worker_config"]:
            check_clients(Path(given["worker_config"]), declared)
        connect = Connect(given["urls"], client_config.load(given["client_config"]))
        connect.within(given["timeout_seconds"])
        checked = check(connect, declared)
        changes, refused = checked.changes, checked.refused
        for warning in checked.warnings:
            module.warn(warning)
        if not module.check_mode:
            apply(connect, changes)
            await_declared(connect, checked.sound, changes.touched, given["settle_seconds"])
    except AqueductError as error:
        module.fail_json(msg="\n".join([*refused, error.labelled]))
    if refused:
        others = f"The other connectors {'would be' if module.check_mode else 'are'} as declared."
        module.fail_json(msg="\n".join([*refused, *([others] if checked.sound else [])]))
    module.exit_json(
        changed=changes.changed,
        created=[connector.name for connector in changes.create],
        updated=[connector.name for connector in changes.update],
        moved=[connector.name for connector in changes.move],
        restarted=list(changes.restart),
        deleted=list(changes.delete),
        diff=connectors.diff(changes, checked.actual, checked.passwords),
    )


if __name__ == "__main__":
    main()
