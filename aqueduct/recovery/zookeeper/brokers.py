"""Checks before a broker with ZooKeeper starts: its folders and its id must fit the ensemble."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData

from aqueduct.errors import Failed
from aqueduct.kafka import data_folder
from aqueduct.recovery.zookeeper.client import Ensemble, ZooKeeperSession
from aqueduct.recovery.zookeeper.znodes import CLUSTER
from aqueduct.store.numbered_snapshots import parsed


def start_obstacles(
    ensemble: Ensemble, node_id: int, folders: Sequence[Path], listeners: str = ""
) -> tuple[str | None, list[str]]:
    """Return the ensemble's cluster id, None without one, and the reasons why a broker must not start.

    A new folder is accepted, unless it has logs, or a running broker has this id. If `listeners` are given, a
    running broker with other endpoints is another broker.
    """
    session = ZooKeeperSession(ensemble)
    try:
        cluster, broker = (znode_content(session, path) for path in (CLUSTER, f"/brokers/ids/{node_id}"))
    finally:
        session.close()
    cluster_id = cluster.get("id")
    formatted = [path for path in folders if (path / data_folder.META).exists()]
    its_own = list(map(data_folder.read, formatted))
    problems = [data_folder.misfit(folder, node_id, cluster_id, str(ensemble)) for folder in its_own]
    problems += [data_folder.nobodys(path) for path in folders if path not in formatted]
    endpoints = [str(endpoint) for endpoint in broker.get("endpoints", ())]
    runs = f"Broker {node_id} runs at {', '.join(endpoints)}"
    if broker and not its_own:
        problems.append(
            f"{runs}, but this host has no data folder of this broker. Give this host an unused id "
            "(kafka_node_id in an inventory, else broker.id). Or stop the running broker, and move its data "
            "folder to this host."
        )
    elif endpoints and listeners and not _same(endpoints, listeners.split(",")):
        problems.append(
            f"{runs}, but this host advertises other listeners. Two brokers with one id must not run. Stop "
            "the running broker, or give this host another id and an empty data folder. If this host has new "
            "listeners, wait until its former session ends, and start it again."
        )
    return cluster_id, [problem for problem in problems if problem]


def _same(endpoints: Sequence[str], here: Sequence[str]) -> bool:
    """Return whether one endpoint equals one listener. A listener without a host fits each host."""
    places = [(host.lower(), port) for host, port in map(_address, endpoints)]
    own = [(host.lower(), port) for host, port in map(_address, here)]
    return any(port == other_port and host in ("", name) for host, port in own for name, other_port in places)


def _address(listener: str) -> tuple[str, str]:
    host, _, port = listener.strip().partition("://")[2].rpartition(":")
    return host, port


def znode_content(session: ZooKeeperSession, path: str) -> dict[str, Any]:
    """Return the JSON in a znode of brokers; empty if the znode does not exist, as in a new chroot."""
    answer = session.ask(GetData(session.at(path), None), but=(NoNodeError,))
    try:
        return {} if isinstance(answer, NoNodeError) else dict(parsed(answer[0]))
    except (TypeError, ValueError):
        raise Failed(
            "znode-malformed",
            f"{session.ensemble} has a znode {path} that no broker wrote. Restore it from a backup.",
        ) from None
