"""Write the metadata of a new quorum (the seed) into the empty folders of its controllers."""

import errno
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from aqueduct.common.folder_owners import refuse_root_beside_others
from aqueduct.common.whole_files import write_whole
from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import data_folder
from aqueduct.recovery.broker_ids.stray_logs import locked, sync
from aqueduct.recovery.quorum import metadata
from aqueduct.recovery.quorum.metadata import FOLDER, Metadata, has_records

DIRECTORY = re.compile(r"^directory\.id\s*=\s*(\S+)\s*$", re.MULTILINE)


def check_folder(folder: Path, node_id: int, seed: Metadata) -> bool:
    """Return whether a controller's folder has the seed already. Refused if it must not be written there."""
    refuse_root_beside_others(folder, "quorum restore")
    if not folder.is_dir():
        raise Refused(
            "data-folder-missing",
            f"{folder} is not a folder. Create it for the user of the node. Nothing was done.",
        )
    if misfit := _misfit(folder, node_id, seed):
        raise Refused("controller-folder-mismatch", f"{misfit} Nothing was done.")
    if _has_seed(folder, seed):
        return (folder / data_folder.META).exists()
    if has_records(folder):
        raise Refused(
            "controller-metadata-exists",
            f"{folder / FOLDER} has metadata of this controller, which are newer than any backup. Start the "
            "controller. If it cannot start, move this folder to another place, and run the command again. "
            "Nothing was done.",
        )
    return False


def _misfit(folder: Path, node_id: int, seed: Metadata) -> str:
    """Return why a node of this id cannot start in a folder with the seed; empty if it can."""
    voters = {voter.node_id: voter for voter in seed.image.voters}
    if voters and node_id not in voters:
        return (
            f"Node {node_id} is not a voter of the quorum in these metadata. The voters are "
            f"{some(sorted(voters))}. Give each host the node id that it had."
        )
    meta = folder / data_folder.META
    if not meta.exists():
        return ""
    owner = data_folder.read(folder)
    if owner.cluster_id != seed.cluster:
        return (
            f"{folder} belongs to cluster {owner.cluster_id}, but the metadata belong to cluster "
            f"{seed.cluster}. Pass a store of cluster {owner.cluster_id}. If the content of the folder is "
            "not needed, move it to another place."
        )
    if owner.node_id != node_id:
        return (
            f"{folder} belongs to node {owner.node_id}, but this is to be node {node_id}. Give each host the "
            "node id that it had."
        )
    directory = DIRECTORY.search(meta.read_text(encoding="utf-8"))
    if voters and owner.logs and directory and directory[1] != voters[node_id].directory:
        return (
            f"{folder} has logs, and its directory.id differs from the directory.id of controller {node_id} "
            "in these metadata. Pass the folder that this controller had."
        )
    return ""


def write_seed(folder: Path, node_id: int, seed: Metadata) -> bool:
    """Write the seed into a folder; return False if it has the seed already.

    After a failure, a second call continues. meta.properties are written last: a node does not start without
    them.
    """
    if check_folder(folder, node_id, seed):
        return False
    with locked(folder):
        try:
            if not _has_seed(folder, seed):
                _put_log(folder, seed)
            _put_meta(folder, node_id, seed)
        except OSError as error:
            raise Failed(
                "data-folder-unwritable",
                f"Cannot write {error.filename or folder}: {error.strerror}. Correct the cause, and run the "
                "command again.",
            ) from None
    return True


def _files(seed: Metadata) -> dict[str, bytes]:
    log = {f"{seed.offset:020}.log": seed.log}
    return (
        {f"{seed.offset:020}-{seed.epoch:010}.checkpoint": seed.checkpoint} if seed.checkpoint else {}
    ) | log


def _has_seed(folder: Path, seed: Metadata) -> bool:
    files = _files(seed)
    log_folder = folder / FOLDER
    try:
        return {file.name for file in log_folder.iterdir()} == {*files} and all(
            (log_folder / name).read_bytes() == content for name, content in files.items()
        )
    except OSError:
        return False


def _put_log(folder: Path, seed: Metadata) -> None:
    unfinished = folder / f"{FOLDER}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(0o700)  # users' credentials are in it
    for name, content in _files(seed).items():
        write_whole(unfinished / name, content, mode=0o600)
    sync(unfinished)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)  # of a node that never ran: it has no records
    unfinished.rename(folder / FOLDER)
    sync(folder)


def _put_meta(folder: Path, node_id: int, seed: Metadata) -> None:
    lines = ["version=1", f"cluster.id={seed.cluster}", f"node.id={node_id}"]
    # The vote of a controller depends on its id and its directory id (KIP-853), else a node creates the
    # latter.
    lines += [f"directory.id={voter.directory}" for voter in seed.image.voters if voter.node_id == node_id]
    meta = folder / data_folder.META
    if meta.exists() and not seed.image.voters:
        return
    content = "".join(f"{line}\n" for line in lines).encode()
    write_whole(meta, content, scratch="meta.properties.tmp", mode=0o600)  # a node removes one that it finds
    sync(folder)


def set_aside(folder: Path, *, broker_only: bool = False) -> Path | None:
    """Move a stopped broker's copy of the old metadata log out of its data folder; None if it has none.

    The copy may be longer than the log with which the new quorum starts, so the broker must fetch the new log
    from the beginning. Refused if the node is a voter. Refused if its copy does not show whether it is a
    voter, unless `broker_only`.
    """
    refuse_root_beside_others(folder, "quorum set-aside")
    if not folder.is_dir():
        raise Refused(
            "data-folder-missing",
            f"{folder} is not a folder. Pass the folder of the broker's metadata.",
        )
    copy = folder / FOLDER
    with locked(folder):
        if not copy.exists():
            return None
        voters = metadata.voters(folder)
        if voters and data_folder.read(folder).node_id in voters:
            raise Refused(
                "controller-metadata-protected",
                f"{folder} belongs to a controller. The metadata of a controller are not set aside, because "
                "they may be the only copy. Run this command only on hosts of brokers. Nothing was done.",
            )
        if not (voters or broker_only):
            raise Refused(
                "controller-metadata-protected",
                f"{copy} does not show whether the node is a controller. The metadata of a controller are "
                "not set aside, because they may be the only copy. If process.roles of the node is broker, "
                "pass --broker-only. Nothing was done.",
            )
        to = folder.with_name(f"{folder.name}.metadata-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        try:
            copy.rename(to)
        except OSError as error:
            reason = "it is a mount point of another disk" if error.errno == errno.EXDEV else error.strerror
            raise Failed(
                "data-folder-unwritable",
                f"Cannot move {copy} to {to}: {reason}. Move it by hand to a place outside all folders of "
                "log.dirs.",
            ) from None
        sync(folder)
        return to
