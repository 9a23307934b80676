"""Whether a broker may start beside an ensemble: with its own folders, in the cluster that is there."""

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


def misfits(
    ensemble: Ensemble, node_id: int, folders: Sequence[Path], listeners: str = ""
) -> tuple[str | None, list[str]]:
    """Return the id of the cluster that is there, None without one, and why a broker may not start.

    A folder that is new is taken, unless it has logs, or another broker that runs has this id. Such a one is
    told from this one by the listeners that this one advertises, where these are given.
    """
    session = ZooKeeperSession(ensemble)
    try:
        cluster, broker = (kept(session, path) for path in (CLUSTER, f"/brokers/ids/{node_id}"))
    finally:
        session.close()
    cluster_id = cluster.get("id")
    formatted = [path for path in folders if (path / data_folder.META).exists()]
    its_own = list(map(data_folder.read, formatted))
    problems = [data_folder.misfit(folder, node_id, cluster_id, str(ensemble)) for folder in its_own]
    problems += [data_folder.nobodys(path) for path in folders if path not in formatted]
    endpoints = [str(endpoint) for endpoint in broker.get("endpoints", ())]
    runs = f"Broker {node_id} runs at {', '.join(endpoints)}, and this host"
    if broker and not its_own:
        problems.append(
            f"{runs} has no data folder of it: give the host an id of its own (kafka_node_id of an "
            "inventory, else broker.id), or stop that one and bring its folder."
        )
    elif endpoints and listeners and not _same(endpoints, listeners.split(",")):
        problems.append(
            f"{runs} advertises none of these: one of both has a copy of the other's folder. An id is one "
            "broker's: stop that one, or give this host its own id and folder. If that was this host before "
            "its listeners were changed, its session ends in a moment."
        )
    return cluster_id, [problem for problem in problems if problem]


def _same(endpoints: Sequence[str], here: Sequence[str]) -> bool:
    """Tell whether a broker may be at the other's addresses; one without a host takes the name of its own."""
    places = [(host.lower(), port) for host, port in map(_address, endpoints)]
    own = [(host.lower(), port) for host, port in map(_address, here)]
    return any(port == other_port and host in ("", name) for host, port in own for name, other_port in places)


def _address(listener: str) -> tuple[str, str]:
    host, _, port = listener.strip().partition("://")[2].rpartition(":")
    return host, port


def kept(session: ZooKeeperSession, path: str) -> dict[str, Any]:
    """Return what brokers keep at a path, empty where nothing is: the chroot may be new, too."""
    answer = session.ask(GetData(session.at(path), None), but=(NoNodeError,))
    try:
        return {} if isinstance(answer, NoNodeError) else dict(parsed(answer[0]))
    except (TypeError, ValueError):
        raise Failed(
            "znode-malformed", f"{session.ensemble} has at {path} what no broker wrote: restore it."
        ) from None
