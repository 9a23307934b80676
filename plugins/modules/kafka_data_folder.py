#!/usr/bin/python
"""Ansible module: refuse a data folder of another broker, before it starts."""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kafka_data_folder
short_description: Refuse a data folder of another broker, or of another cluster
description:
  - Runs on the host of a broker whose metadata is in ZooKeeper, before it starts, and changes nothing.
  - A folder that is new is taken, unless it has logs, or another broker that runs has this id.
options:
  folders: {description: The broker's C(log.dirs)., type: list, elements: path, required: true}
  node_id: {description: The broker's id in the inventory., type: int, required: true}
  zookeeper: {description: "The ensemble, as C(zookeeper.connect) has it.", type: str, required: true}
  client_config: {description: File of Kafka client properties., type: path, required: true}
"""

RETURN = r"""
cluster_id: {description: Id of the cluster; null where there is none yet., type: str, returned: success}
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "folders": {"type": "list", "elements": "path", "required": True},
            "node_id": {"type": "int", "required": True},
            "zookeeper": {"type": "str", "required": True},
            "client_config": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError
    from aqueduct.kafka import client_config
    from aqueduct.zookeeper.brokers import misfits
    from aqueduct.zookeeper.client import Ensemble

    given = module.params
    try:
        ensemble = Ensemble(given["zookeeper"], client_config.load(given["client_config"]))
        cluster_id, problems = misfits(
            ensemble, given["node_id"], [Path(folder) for folder in given["folders"]]
        )
    except AqueductError as error:
        module.fail_json(msg=str(error))
    if problems:
        module.fail_json(msg=" ".join(problems))
    module.exit_json(changed=False, cluster_id=cluster_id)


if __name__ == "__main__":
    main()
