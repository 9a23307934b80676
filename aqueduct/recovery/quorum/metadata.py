"""A node's copy of the metadata log: Kafka's newest snapshot, and the records after it.

Controllers and brokers have a copy. A broker follows the log without a vote (KIP-595), so its copy ends with
the last record that it fetched from the controllers.
"""

import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aqueduct.errors import Failed, Refused
from aqueduct.kafka import data_folder
from aqueduct.kafka.batches.batch import Damaged, walk
from aqueduct.recovery.quorum.records import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, MetadataImage, batch_of

FOLDER = f"{data_folder.OF_CONTROLLERS}-0"
CHECKPOINT = re.compile(r"(?P<offset>[0-9]{20})-(?P<epoch>[0-9]{10})\.checkpoint")
SEGMENT = re.compile(r"[0-9]{20}\.log")
ATTEMPTS = 5  # where a node removes a file while it is read


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """A node's copy of its cluster's metadata. `offset` and `epoch`: the end of the snapshot.

    `image` reads all records. It raises ValueError or Damaged if the copy is damaged.
    """

    cluster: str
    node: int
    offset: int
    epoch: int
    checkpoint: bytes  # empty: the log begins with its first record
    log: bytes  # complete batches from `offset` on

    @cached_property
    def _read(self) -> tuple[MetadataImage, int, int, int, int]:
        image, end, epoch, last_time, rise = MetadataImage(), self.offset, self.epoch, 0, 0
        controls, size = [], 0
        for batch in walk(self.checkpoint):
            controls += image.replay(batch)
            last_time = max(last_time, batch.max_time)
            size += len(batch)
        if size != len(self.checkpoint) or (size and (controls[:1], controls[-1:]) != _ENDS):
            raise ValueError("its snapshot is truncated")
        size = 0
        for batch in walk(self.log):
            if batch.base_offset != end or batch.leader_epoch < epoch:
                raise ValueError(f"its log does not continue at offset {end}")
            image.replay(batch)
            rise = batch.leader_epoch - epoch
            end, epoch, last_time = batch.last_offset + 1, batch.leader_epoch, batch.max_time
            size += len(batch)
        if size != len(self.log):
            raise ValueError("its log is truncated")
        if not self.checkpoint and not self.log:
            raise ValueError("it has no records")
        return image, end, epoch, last_time, rise

    @property
    def image(self) -> MetadataImage:
        return self._read[0]

    @property
    def end(self) -> int:
        """Return the offset after its last record."""
        return self._read[1]

    @property
    def end_epoch(self) -> int:
        return self._read[2]

    @property
    def time(self) -> int:
        """Return when its last record was written, milliseconds since 1970."""
        return self._read[3]

    @property
    def rise(self) -> int:
        """Return the difference between the epochs of its last two batches."""
        return self._read[4]

    @property
    def epoch_and_end(self) -> tuple[int, int]:
        """Return the epoch and the end. Of two copies of one log, the longer one is greater."""
        return self.end_epoch, self.end

    def with_records(self, values: list[bytes], epoch: int) -> "Metadata":
        """Return a copy with appended records, as a controller would have written them in an epoch."""
        more = batch_of(values, self.end, epoch, self.time)
        return Metadata(
            cluster=self.cluster,
            node=self.node,
            offset=self.offset,
            epoch=self.epoch,
            checkpoint=self.checkpoint,
            log=self.log + more,
        )


_ENDS = [SNAPSHOT_HEADER], [SNAPSHOT_FOOTER]


def has_records(folder: Path) -> bool:
    """Return whether the metadata log in a data folder has records.

    A formatted node that never ran has at most the snapshot of its first voters, at offset 0.
    """
    try:
        names = [file.name for file in (folder / FOLDER).iterdir()]
        sizes = [(folder / FOLDER / name).stat().st_size for name in names if SEGMENT.fullmatch(name)]
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(
            "data-folder-unreadable",
            f"Cannot read {error.filename}: {error.strerror}. Run the command as the user of the node.",
        ) from None
    checkpoints = (CHECKPOINT.fullmatch(name) for name in names)
    return any(sizes) or any(int(checkpoint["offset"]) for checkpoint in checkpoints if checkpoint)


def voters(folder: Path) -> frozenset[int] | None:
    """Return the ids of the voters, as far as a node's copy has them; None if it has none.

    If `controller.quorum.voters` lists the voters (KIP-595), only the node's file of the last election has
    them. Dynamic voters (KIP-853) are in records.
    """
    try:
        noted = json.loads((folder / FOLDER / "quorum-state").read_text(encoding="utf-8"))
        voter_ids = {int(voter["voterId"]) for voter in noted.get("currentVoters") or ()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        voter_ids = set()
    with suppress(Refused, Failed):
        voter_ids |= {voter.node_id for voter in read(folder).image.voters}
    return frozenset(voter_ids) or None


def read(folder: Path) -> Metadata:
    """Read the copy in a data folder (metadata.log.dir, or the first of log.dirs). Its node may run.

    Refused if the folder has none. Failed if it is damaged.
    """
    of = data_folder.read(folder)
    for attempt in range(ATTEMPTS):
        try:
            metadata = _found(of, folder / FOLDER)
            metadata.image  # noqa: B018
            return metadata
        except FileNotFoundError:
            pass  # the node removed it after a newer snapshot
        except OSError as error:
            raise Refused(
                "data-folder-unreadable",
                f"Cannot read {error.filename}: {error.strerror}. Run the command as the user of the node.",
            ) from None
        except (ValueError, Damaged) as error:
            if attempt + 1 == ATTEMPTS:
                raise Failed(
                    "quorum-metadata-damaged",
                    f"The metadata in {folder / FOLDER} are damaged: {str(error).rstrip('.')}. Use the "
                    "metadata of another node, or a backup.",
                ) from None
        time.sleep(0.2)
    raise Refused(
        "quorum-metadata-missing",
        f"{folder} has no metadata log ({FOLDER}). Pass the folder of metadata.log.dir, or the first of "
        "log.dirs.",
    )


def _found(of: data_folder.DataFolder, folder: Path) -> Metadata:
    names = sorted(file.name for file in folder.iterdir())
    checkpoints = [match for name in names if (match := CHECKPOINT.fullmatch(name))]
    newest = checkpoints[-1] if checkpoints else None
    checkpoint = (folder / newest[0]).read_bytes() if newest else b""
    offset, epoch = (int(newest["offset"]), int(newest["epoch"])) if newest else (0, 0)
    segments = [name for name in names if SEGMENT.fullmatch(name)]
    starts = [int(name.partition(".")[0]) for name in segments]
    begin = max((index for index, start in enumerate(starts) if start <= offset), default=0)
    log = b"".join(_from(offset, (folder / name).read_bytes()) for name in segments[begin:])
    return Metadata(
        cluster=of.cluster_id, node=of.node_id, offset=offset, epoch=epoch, checkpoint=checkpoint, log=log
    )


def _from(offset: int, segment: bytes) -> bytes:
    """Return the complete batches from an offset on. A last batch that is being written is skipped."""
    return b"".join(batch.data for batch in walk(segment) if batch.base_offset >= offset)
