"""A folder of `log.dirs`: whose it is, which logs it has, and whether a broker may start with it."""

import mmap
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import Batch, Damaged, walk
from aqueduct.kafka.client_config import parse_properties

META = "meta.properties"
OF_CONTROLLERS = "__cluster_metadata"
LOG = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<number>[0-9]+)")
STRAY = re.compile(r".+-stray")  # a log that was not the broker's when it started (UnifiedLog.StrayDirSuffix)
# `<topic>-<partition>.<32 digits>-stray`, the topic's name cut where the whole would be too long for a folder
# (UnifiedLog.logStrayDirName).
STRAY_LOG = re.compile(rf"{LOG.pattern}\.[0-9a-f]{{32}}-stray")


@dataclass(frozen=True, kw_only=True)
class DataFolder:
    path: Path
    cluster_id: str
    node_id: int
    logs: frozenset[TopicPartition]
    strays: frozenset[str]  # names of folders


def read(path: Path) -> DataFolder:
    """Read `meta.properties` and the names of the logs; Refused if it isn't such a folder."""
    meta = path / META
    try:
        properties = parse_properties(meta.read_text(encoding="utf-8"))
        names = [folder.name for folder in path.iterdir() if folder.is_dir()]
    except (OSError, UnicodeDecodeError) as error:
        flaw = getattr(error, "strerror", None) or error
        raise Refused(
            "data-folder-unreadable",
            f"Cannot read {path} as a data folder: {meta.name}: {flaw}. Pass one of the broker's "
            "log.dirs, and run the command as a user who can read it.",
        ) from None
    node = properties.get("node.id", properties.get("broker.id", ""))  # of KRaft; of ZooKeeper's time
    if not node.isdecimal() or "cluster.id" not in properties:
        flaw = "the folder was never formatted"
        if _logs(names):
            flaw = (
                "the folder contains logs, so this file must be damaged. Restore the file, for example from "
                "the backup of the host"
            )
        raise Refused(
            "data-folder-unidentified", f"{meta} has no node.id (or broker.id) and cluster.id: {flaw}."
        )
    return DataFolder(
        path=path,
        cluster_id=properties["cluster.id"],
        node_id=int(node),
        logs=_logs(names),
        strays=frozenset(name for name in names if STRAY.fullmatch(name)),
    )


def _logs(names: Iterable[str]) -> frozenset[TopicPartition]:
    matched = (LOG.fullmatch(name) for name in names)
    logs = {TopicPartition(match["topic"], int(match["number"])) for match in matched if match}
    return frozenset(log for log in logs if log.topic != OF_CONTROLLERS)


def last_batch(segment: Path, *, check_crc: bool = True) -> tuple[Batch | None, Damaged | None]:
    """Return a segment's last whole batch, and the damage behind it: what is no batch of today's format.

    What is cut off after it is what a broker removes when it starts.
    """
    with segment.open("rb") as file:
        if not segment.stat().st_size:
            return None, None
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # it goes with its last view
    last = None
    try:
        for batch in walk(memoryview(content), check_crc=check_crc):
            last = batch
    except Damaged as error:
        return last, error
    return last, None


def written(path: Path, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return when these partitions' logs here were last written to, in milliseconds since 1970.

    Logs that were set aside are looked at, too; what has no log here, or only an empty one, is left out. The
    time is the newest batch's, in `__consumer_offsets` its coordinator's at the commit: a file's would be
    that of a copy, where the folder was brought to another host. A file's is taken where a log can't be read
    to its end, for nothing in it is newer. Only headers are read. Refused where a log can't be opened.
    """
    time_by_partition: dict[TopicPartition, int] = {}
    try:
        for folder in path.iterdir():
            named = LOG.fullmatch(folder.name) or STRAY_LOG.fullmatch(folder.name)
            if (
                not named
                or (partition := TopicPartition(named["topic"], int(named["number"]))) not in partitions
            ):
                continue
            if (time := _written(folder)) is not None:
                time_by_partition[partition] = max(time, time_by_partition.get(partition, time))
    except OSError as error:
        raise Refused(
            "data-folder-unreadable",
            f"Cannot read {error.filename}: {error.strerror}. Run the command as the user of the broker.",
        ) from None
    return time_by_partition


def _written(log: Path) -> int | None:
    for segment in sorted(log.glob("*.log"), reverse=True):
        last, damage = last_batch(segment, check_crc=False)
        if damage:
            return int(segment.stat().st_mtime * 1000)
        if last:
            return last.max_time
    return None


def nobodys(path: Path) -> str:
    """Say why no broker may start with a folder without `meta.properties`; empty where it is new."""
    logs = _logs(folder.name for folder in path.iterdir()) if path.is_dir() else frozenset()
    if not logs:
        return ""
    return (
        f"{path} contains logs ({len(logs)}, for example {min(logs)}) but no {META}, so the broker of these "
        "logs is unknown. Restore this file with the former broker.id and cluster.id, or move the logs to "
        "another folder. A broker that starts now would use these logs as its own."
    )


def misfit(folder: DataFolder, node_id: int, cluster_id: str | None, metadata: str) -> str:
    """Say why a broker of this id and cluster may not start with a folder; empty if it may.

    `cluster_id` is what is in ZooKeeper, which `metadata` names; None where nothing is.
    """
    of = f"{folder.path} contains the logs of broker {folder.node_id}"
    if folder.node_id != node_id:
        return (
            f"{of}, but this host is configured as broker {node_id}. Set the id of this host (kafka_node_id "
            f"in the inventory, otherwise broker.id) to {folder.node_id} again, or use the former folder of "
            f"broker {node_id}. With another id, partitions and consumer groups that only this folder "
            "contains would have no leader, and their clients would wait without an error."
        )
    if cluster_id is None:
        return (
            f"{of} of the cluster {folder.cluster_id}, but {metadata} contains no cluster. Restore its "
            "znodes first (aqueduct zookeeper restore), or use the correct ensemble. A broker that starts "
            "now would create a new, empty cluster."
        )
    if folder.cluster_id != cluster_id:
        return (
            f"{of} of the cluster {folder.cluster_id}, but {metadata} belongs to the cluster {cluster_id}. "
            f"Use the data folder of this host, or the ensemble of the cluster {folder.cluster_id}."
        )
    return ""
