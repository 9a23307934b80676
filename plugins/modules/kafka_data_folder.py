#!/usr/bin/python
"""Ansible module: refuse a data folder of another broker, before it starts."""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kafka_data_folder
short_description: Refuse a data folder of another broker, or of another cluster
description:
  - Runs on the host of a broker whose metadata is in ZooKeeper, before it starts, and changes nothing.
  - A folder that is new is taken, unless another broker that runs has this id.
options:
  folders: {description: The broker's C(log.dirs)., type: list, elements: path, required: true}
  node_id: {description: The broker's id in the inventory., type: int, required: true}
  zookeeper: {description: "The ensemble, as C(zookeeper.connect) has it.", type: str, required: true}
  client_config: {description: File of Kafka client properties., type: path, required: true}
"""

RETURN = r"""
cluster_id: {description: Id of the cluster; null where there is none yet., type: str, returned: success}
"""

CLUSTER = "/cluster/id"


def kept(ensemble: Any, *paths: str) -> list[dict[str, Any]]:
    """Return what brokers keep at these paths, empty where nothing is: the chroot may be new, too."""
    from kazoo.exceptions import NoNodeError
    from kazoo.protocol.serialization import GetData

    from aqueduct.errors import Failed
    from aqueduct.zookeeper.client import ZooKeeperSession

    session, found = ZooKeeperSession(ensemble), []
    try:
        for path in paths:
            answer = session.ask(GetData(session.at(path), None), but=(NoNodeError,))
            try:
                found.append({} if isinstance(answer, NoNodeError) else dict(json.loads(answer[0])))
            except (TypeError, ValueError):
                raise Failed(f"{ensemble} has at {path} what no broker wrote: restore it.") from None
    finally:
        session.close()
    return found


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
    from aqueduct.kafka.data_folder import META, misfit, read
    from aqueduct.zookeeper.client import Ensemble

    given = module.params
    node = given["node_id"]
    try:
        ensemble = Ensemble(given["zookeeper"], client_config.load(given["client_config"]))
        cluster, broker = kept(ensemble, CLUSTER, f"/brokers/ids/{node}")
        cluster_id = cluster.get("id")
        folders = [read(path) for path in map(Path, given["folders"]) if (path / META).exists()]
        misfits = [misfit(folder, node, cluster_id, str(ensemble)) for folder in folders]
    except AqueductError as error:
        module.fail_json(msg=str(error))
    if broker and not folders:
        misfits.append(
            f"Broker {node} runs at {', '.join(broker.get('endpoints', ()))}, and this host has no data "
            "folder of it: give the host a kafka_node_id of its own, or stop that one and bring its folder."
        )
    if any(misfits):
        module.fail_json(msg=" ".join(filter(None, misfits)))
    module.exit_json(changed=False, cluster_id=cluster_id)


if __name__ == "__main__":
    main()
