"""Whether a broker may start beside an ensemble: with its own folders, in the cluster that is there."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData

from aqueduct.errors import Failed
from aqueduct.kafka import data_folder
from aqueduct.zookeeper.client import Ensemble, ZooKeeperSession
from aqueduct.zookeeper.znodes import CLUSTER


def misfits(ensemble: Ensemble, node_id: int, folders: Sequence[Path]) -> tuple[str | None, list[str]]:
    """Return the id of the cluster that is there, None without one, and why a broker may not start.

    A folder that is new is taken, unless it has logs, or another broker that runs has this id.
    """
    session = ZooKeeperSession(ensemble)
    try:
        cluster, broker = (kept(session, path) for path in (CLUSTER, f"/brokers/ids/{node_id}"))
    finally:
        session.close()
    cluster_id = cluster.get("id")
    formatted = [path for path in folders if (path / data_folder.META).exists()]
    its_own = list(map(data_folder.read, formatted))
    found = [data_folder.misfit(each, node_id, cluster_id, str(ensemble)) for each in its_own]
    found += [data_folder.nobodys(path) for path in folders if path not in formatted]
    if broker and not its_own:
        found.append(
            f"Broker {node_id} runs at {', '.join(broker.get('endpoints', ()))}, and this host has no data "
            "folder of it: give the host a kafka_node_id of its own, or stop that one and bring its folder."
        )
    return cluster_id, [each for each in found if each]


def kept(session: ZooKeeperSession, path: str) -> dict[str, Any]:
    """Return what brokers keep at a path, empty where nothing is: the chroot may be new, too."""
    answer = session.ask(GetData(session.at(path), None), but=(NoNodeError,))
    try:
        return {} if isinstance(answer, NoNodeError) else dict(json.loads(answer[0]))
    except (TypeError, ValueError):
        raise Failed(f"{session.ensemble} has at {path} what no broker wrote: restore it.") from None
