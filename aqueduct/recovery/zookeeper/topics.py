"""Topics in znodes, and corrections of a snapshot for newer logs on brokers' disks. Pure.

A partition is in two znodes: /brokers/topics/<topic> has its replicas. partitions/<number>/state below this
has its leader and the replicas in sync (kafka.zk.ZkData).
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.broker_ids.disk_logs import Folder
from aqueduct.recovery.broker_ids.log_comparison import (
    ANOTHER,
    PRODUCER_IDS,
    KnownPartition,
    KnownTopic,
    LogComparison,
    compare_logs,
)
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot
from aqueduct.recovery.zookeeper.znodes import Znode
from aqueduct.store.numbered_snapshots import parsed

TOPIC = re.compile(r"/brokers/topics/(?P<name>[^/]+)")
DELETIONS = "/admin/delete_topics"
PRODUCERS = "/latest_producer_id_block"
RECOVERY = (
    "leader_recovery_state"  # set if a leader may lack committed records; the corrected leader has them
)
FATE = (
    "Brokers keep these logs, but do not serve them. Move their folders to another place before you create "
    "a topic with this name or add partitions to it. A new topic has another topic id, so brokers with the "
    "old logs do not start its replicas. An added partition would start with the old logs: the first leader "
    "truncates the records that it lacks on the other brokers."
)


def correct_snapshot(
    snapshot: ZnodeSnapshot,
    hosts: Mapping[str, Sequence[Folder]],
    lost: Collection[int],
    live_data: Mapping[str, bytes | None] | None = None,
) -> tuple[LogComparison, ZnodeSnapshot]:
    """Compare a snapshot's topics with the logs on disks; return the comparison and the corrected snapshot.

    `live_data`: data of `correctable_znodes` in the ensemble; they replace the snapshot's data.
    Deletions of topics that were re-created since are removed: brokers would delete the new logs by name.
    Refused for a snapshot without a cluster id, and for folders of another cluster.
    """
    if not snapshot.cluster:
        raise Refused(
            "snapshot-without-cluster",
            f"Snapshot {snapshot.number} has no cluster id, so it cannot be compared with logs. Pass another "
            "snapshot, or omit --inspection.",
        )
    of_there = {
        path: snapshot.znodes[path]._replace(data=node_data) for path, node_data in (live_data or {}).items()
    }
    given = of_there.pop(PRODUCERS, None)
    merged = replace(snapshot, znodes={**snapshot.znodes, **of_there})
    comparison = compare_logs(snapshot.cluster, [*_topics(merged)], hosts, lost, without_ids=True)
    znodes = dict(merged.znodes)
    for correction in comparison.corrected:
        znode = znodes[_state_of(correction.partition)]
        led = {
            "leader": correction.leader,
            "leader_epoch": correction.leader_epoch,
            "isr": [correction.leader],
        }
        state = {name: value for name, value in _content(znode).items() if name != RECOVERY}
        znodes[znode.path] = _with(znode, state | led)
    for topic in {log.topic for log in comparison.unknown if log.why == ANOTHER}:
        znodes.pop(f"{DELETIONS}/{topic}", None)
    if block := znodes.get(PRODUCERS):
        later = _with(block, _later(block))
        znodes[PRODUCERS] = max(later, given, key=_ids_begin) if given else later
    return comparison, replace(snapshot, znodes=znodes)


def kept_deletions(snapshot: ZnodeSnapshot, fitted: ZnodeSnapshot) -> str:
    """Return a sentence about deletions of topics that were removed from the snapshot; empty if none was."""
    kept = [path.rpartition("/")[2] for path in sorted(snapshot.znodes.keys() - fitted.znodes.keys())]
    if not kept:
        return ""
    return (
        f"NOT deleted: {', '.join(kept)}. In the snapshot, the deletion of these topics had begun, but it "
        "would also delete the logs of newer topics with these names. Copy these logs, and then delete the "
        "topics again."
    )


def _later(block: Znode) -> dict[str, Any]:
    """Return the content of a producer id block with unused ids. Its numbers are strings."""
    content = _content(block)
    with _written_by_brokers(block):
        ends = {name: str(int(content[name]) + PRODUCER_IDS) for name in ("block_start", "block_end")}
    return content | ends


def _ids_begin(block: Znode) -> int:
    with _written_by_brokers(block):
        return int(_content(block)["block_start"])


def _topics(snapshot: ZnodeSnapshot) -> Iterator[KnownTopic[KnownPartition]]:
    for path, znode in snapshot.znodes.items():
        named = TOPIC.fullmatch(path)
        if named and znode.data:  # brokers write no such znode without data
            topic, partitions = _content(znode), {}
            with _written_by_brokers(znode):
                topic_id = str(topic.get("topic_id", ""))
                replicas = {
                    int(number): tuple(map(int, nodes)) for number, nodes in topic["partitions"].items()
                }
            for number, nodes in replicas.items():
                # A partition without a state was being created, and has no log.
                if kept := snapshot.znodes.get(_state_of(TopicPartition(named["name"], number))):
                    partitions[number] = _partition(nodes, kept)
            yield KnownTopic(named["name"], topic_id, partitions)


def _partition(replicas: tuple[int, ...], znode: Znode) -> KnownPartition:
    state = _content(znode)
    with _written_by_brokers(znode):
        in_sync = tuple(map(int, state["isr"]))
        return KnownPartition(
            replicas=replicas,
            in_sync=in_sync,
            leader=int(state["leader"]),
            leader_epoch=int(state["leader_epoch"]),
        )


def correctable_znodes(snapshot: ZnodeSnapshot) -> list[str]:
    """Return the paths of a snapshot's znodes that `correct_snapshot` may correct."""
    return [path for path in snapshot.znodes if path == PRODUCERS or is_state(path)]


def is_state(path: str) -> bool:
    """Return whether a znode has the leader of a partition."""
    return path.startswith("/brokers/topics/") and path.endswith("/state")


def _state_of(partition: TopicPartition) -> str:
    return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"


def _content(znode: Znode) -> dict[str, Any]:
    with _written_by_brokers(znode):
        return dict(parsed(znode.data or b""))


@contextmanager
def _written_by_brokers(znode: Znode) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Failed(
            "znode-malformed",
            f"The snapshot has a znode {znode.path} that no broker wrote. Pass another snapshot.",
        ) from None


def _with(znode: Znode, content: Mapping[str, Any]) -> Znode:
    return znode._replace(data=json.dumps(content, separators=(",", ":")).encode())
