"""Put metadata into the empty folder of a controller, as a node that ran would have them."""

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


def check(folder: Path, node_id: int, seed: Metadata) -> bool:
    """Tell whether a controller's folder has the seed already; Refused where it may not be put there."""
    refuse_root_beside_others(folder, "quorum restore")
    if not folder.is_dir():
        raise Refused(
            "data-folder-missing",
            f"{folder} is not a folder. Create it for the user of the node. Nothing was done.",
        )
    if misfit := _misfit(folder, node_id, seed):
        raise Refused("controller-folder-mismatch", f"{misfit} Nothing was done.")
    if _is_there(folder, seed):
        return (folder / data_folder.META).exists()
    if has_records(folder):
        raise Refused(
            "controller-metadata-exists",
            f"{folder / FOLDER} has the metadata of this controller, which are newer than any backup: start "
            "it. Where it can't be started, move that folder away first. Nothing was done.",
        )
    return False


def _misfit(folder: Path, node_id: int, seed: Metadata) -> str:
    """Say why a node of this id may not begin there with the seed; empty if it may."""
    voters = {voter.node_id: voter for voter in seed.image.voters}
    if voters and node_id not in voters:
        return (
            f"Node {node_id} has no vote in the quorum of these metadata, whose controllers are "
            f"{some(sorted(voters))}: give the hosts the ids that they had."
        )
    meta = folder / data_folder.META
    if not meta.exists():
        return ""
    owner = data_folder.read(folder)
    if owner.cluster_id != seed.cluster:
        return (
            f"{folder} is of the cluster {owner.cluster_id}, and the metadata are of {seed.cluster}: name a "
            "store of that cluster, or move the folder's content away if nothing in it is needed."
        )
    if owner.node_id != node_id:
        return (
            f"{folder} is node {owner.node_id}'s, and this is to be {node_id}: give each host the id that it "
            "had."
        )
    directory = DIRECTORY.search(meta.read_text(encoding="utf-8"))
    if voters and owner.logs and directory and directory[1] != voters[node_id].directory:
        return (
            f"{folder} has logs, and another directory.id than the controller {node_id} of these metadata: "
            "name the folder that the controller had."
        )
    return ""


def put(folder: Path, node_id: int, seed: Metadata) -> bool:
    """Put the seed there; tell whether that was not done before. Failed half-way, it goes on when run again.

    A node refuses to start without meta.properties, which come last.
    """
    if check(folder, node_id, seed):
        return False
    with locked(folder):
        try:
            if not _is_there(folder, seed):
                _put_log(folder, seed)
            _put_meta(folder, node_id, seed)
        except OSError as error:
            raise Failed(
                "data-folder-unwritable",
                f"{error.filename or folder} can't be written: {error.strerror}; run it again.",
            ) from None
    return True


def _files(seed: Metadata) -> dict[str, bytes]:
    log = {f"{seed.offset:020}.log": seed.log}
    return (
        {f"{seed.offset:020}-{seed.epoch:010}.checkpoint": seed.checkpoint} if seed.checkpoint else {}
    ) | log


def _is_there(folder: Path, seed: Metadata) -> bool:
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
    shutil.rmtree(folder / FOLDER, ignore_errors=True)  # of a node that never ran: no record is in it
    unfinished.rename(folder / FOLDER)
    sync(folder)


def _put_meta(folder: Path, node_id: int, seed: Metadata) -> None:
    lines = ["version=1", f"cluster.id={seed.cluster}", f"node.id={node_id}"]
    # A controller has its vote by its id and its folder's (KIP-853). Without voters a node makes itself one.
    lines += [f"directory.id={voter.directory}" for voter in seed.image.voters if voter.node_id == node_id]
    meta = folder / data_folder.META
    if meta.exists() and not seed.image.voters:
        return
    content = "".join(f"{line}\n" for line in lines).encode()
    write_whole(meta, content, scratch="meta.properties.tmp", mode=0o600)  # a node removes one that it finds
    sync(folder)


def set_aside(folder: Path, *, broker_only: bool = False) -> Path | None:
    """Move a stopped broker's own copy of the old log out of its data folder; None if it has none.

    It follows the new quorum from its beginning: of the old one it may have had more than that begins with.
    Refused where the node has a vote, and unless it is said to be a `broker_only` where that can't be told.
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
                f"{folder} is a controller's, and these are its metadata, which nothing replaces. Nothing "
                "was done.",
            )
        if not (voters or broker_only):
            raise Refused(
                "controller-metadata-protected",
                f"Nothing in {copy} tells whether the node is a controller, whose metadata nothing "
                "replaces. If its process.roles are broker alone, say so (--broker-only). Nothing was done.",
            )
        to = folder.with_name(f"{folder.name}.metadata-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        try:
            copy.rename(to)
        except OSError as error:
            reason = "it is on a disk of its own" if error.errno == errno.EXDEV else error.strerror
            raise Failed(
                "data-folder-unwritable",
                f"{copy} can't be moved to {to}: {reason}; move it by hand, out of all folders of log.dirs.",
            ) from None
        sync(folder)
        return to
