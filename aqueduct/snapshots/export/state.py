"""The state of an export, in objects beside its files.

    _export/begun.json            the identity of the export; created first, so that no other export begins
    _export/<share>.json          the files of one task, created after them; removed at the end
    _export.json                  all files, with counts and digests; created last
    <topic>/<partition>-<first offset>.<format>
    <topic>/_bad-<partition>-<first offset>.<format>       rejected records

Spark and Arrow ignore names that begin with `_`.
"""

from dataclasses import asdict, dataclass
from typing import NamedTuple

from aqueduct.common import strict_json
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, Refused
from aqueduct.store.objects import (
    WRITING,
    EditableObjects,
    Exists,
    MissingObject,
    Objects,
    check_listing,
)

FORMAT = 1
MOST_BYTES = 256 << 20  # of one of these objects, enough for a million files
FOLDER = "_export"
BEGUN = f"{FOLDER}/begun.json"
DONE = "_export.json"
OWN = {FOLDER, DONE, WRITING}
BAD = "_bad-"
MADE_BY = "made_by"
EXPIRED = "expired"


@dataclass(frozen=True, kw_only=True)
class ExportIdentity:
    """The identity of an export. A folder contains only one export."""

    format: int
    store: str  # its id
    snapshot: int
    topics: tuple[str, ...]  # the selected ones; none: all
    instance: str
    from_time: int  # milliseconds since 1970, inclusive
    to_time: int
    files: str  # their format
    declarations: str  # digest
    made_by: str  # versions that can change the bytes of files
    # Number of offsets that had expired in the store at the beginning: the records of a share depend on it.
    expired: int = 0


class ExportedFile(NamedTuple):
    path: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    sha256: str
    bad: bool


class Counts(NamedTuple):
    """The number of records of a partition, or of a part of it, by their result."""

    topic: str
    partition: int
    rows: int = 0
    bad: int = 0  # rejected
    tombstones: int = 0  # skipped by a table
    outside: int = 0  # of the time window
    unread: int = 0  # unreadable, reported as skipped items

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def all(self) -> int:
        return self.rows + self.bad + self.tombstones + self.outside + self.unread

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*self[:2], *(a + b for a, b in zip(self[2:], other[2:], strict=True)))


class Unread(NamedTuple):
    """Records that cannot be exported."""

    what: str
    why: str


@dataclass(frozen=True)
class ShareDone:
    """The result of one task."""

    files: tuple[ExportedFile, ...]
    counts: tuple[Counts, ...]
    left_out: tuple[Unread, ...]


class MissingRange(NamedTuple):
    """Offsets that were deleted before they were backed up."""

    topic: str
    partition: int
    start: int
    stop: int  # exclusive


class ExpiredRange(NamedTuple):
    """Offsets that a lifecycle rule had deleted from the store."""

    topic: str
    partition: int
    start: int
    stop: int  # exclusive
    expired: int  # when the last of them expired, milliseconds since 1970


@dataclass(frozen=True, kw_only=True)
class ExportDone:
    """The result of a complete export."""

    export: ExportIdentity
    files: tuple[ExportedFile, ...]
    counts: tuple[Counts, ...]  # of each partition
    gaps: tuple[MissingRange, ...]
    left_out: tuple[Unread, ...]
    expired: tuple[ExpiredRange, ...] = ()


def begun(target: Objects) -> ExportIdentity | None:
    """Return the export that began in a folder; None for an empty folder. Refused for other contents."""
    try:
        return strict_json.loads(ExportIdentity, target.read(BEGUN, at_most=MOST_BYTES))
    except MissingObject:
        pass
    except strict_json.Unreadable as error:
        check_listing(target)
        raise Failed(
            "export-state-damaged",
            f"{target.url}/{BEGUN} is damaged: {error}. Pass another folder with --to.",
        ) from None
    if stored := next(target.list(""), None):
        raise Refused(
            "export-folder-taken",
            f"{target.url} contains {stored.path}, which does not belong to an export. Pass a folder with "
            "--to that is empty or does not exist.",
        )
    return None


def check_same(target: Objects, prior: ExportIdentity, mine: ExportIdentity, *, ended: bool) -> None:
    """Refuse another export than the recorded one. After its end, the version may differ."""
    recorded, asked = asdict(prior), asdict(mine)
    other = [
        name
        for name in recorded
        if recorded[name] != asked[name] and not (ended and name in (MADE_BY, EXPIRED))
    ]
    if other == [MADE_BY]:
        raise Refused(
            "export-folder-taken",
            f"The export in {target.url} was begun with {prior.made_by}, but this is {mine.made_by}, whose "
            "files may differ. Complete it with the former version, or pass another folder with --to.",
        )
    if other == [EXPIRED]:
        raise Refused(
            "export-folder-taken",
            f"Records have expired in the store since the export in {target.url} began, and it is not "
            "complete. Pass another folder with --to. The report of that export lists the expired records.",
        )
    if other:
        differences = ", ".join(
            f"{name} {_short(recorded[name])}, not {_short(asked[name])}" for name in other
        )
        raise Refused(
            "export-folder-taken",
            f"{target.url} contains another export ({differences}). Pass another folder with --to.",
        )


def _short(value: object) -> str:
    return ", ".join(map(str, value)) or "all" if isinstance(value, tuple) else str(value or "none")


def begin(target: Objects, identity: ExportIdentity) -> None:
    """Reserve the folder for this export; Failed if another export reserved it first."""
    try:
        target.create(BEGUN, strict_json.dumps(identity))
    except Exists:
        raise Failed(
            "export-folder-taken",
            f"Another export began in {target.url} at the same time. Pass another folder with --to.",
        ) from None


def share_path(number: int) -> str:
    return f"{FOLDER}/{number:08d}.json"


def share_done(target: Objects, number: int) -> ShareDone:
    """Read the result of a task."""
    path = share_path(number)
    try:
        return strict_json.loads(ShareDone, target.read(path, at_most=MOST_BYTES))
    except strict_json.Unreadable as error:
        raise Failed(
            "export-state-damaged", f"{target.url}/{path} is damaged: {error}. Pass another folder with --to."
        ) from None


def shares_done(target: Objects) -> set[int]:
    """Return the numbers of the shares that are done."""
    paths = {stored_file.path for stored_file in target.list(FOLDER)} - {BEGUN}
    return {int(path.removeprefix(f"{FOLDER}/").removesuffix(".json")) for path in paths}


def done(target: Objects) -> ExportDone | None:
    """Return the result of a complete export; None if it is not complete."""
    try:
        return strict_json.loads(ExportDone, target.read(DONE, at_most=MOST_BYTES))
    except MissingObject:
        return None
    except strict_json.Unreadable as error:
        raise Failed(
            "export-state-damaged", f"{target.url}/{DONE} is damaged: {error}. Pass another folder with --to."
        ) from None


def end(target: EditableObjects, written: ExportDone) -> None:
    """Mark the export as complete, and remove the objects that only an unfinished export needs."""
    target.create(DONE, strict_json.dumps(written))
    tidy(target)


def tidy(target: EditableObjects) -> None:
    target.remove_many([share_path(number) for number in sorted(shares_done(target))])


def file_path(topic: str, partition: int, first: int, ending: str, *, bad: bool) -> str:
    """Return a file's path."""
    return f"{topic}/{BAD if bad else ''}{partition:05d}-{first:020d}.{ending}"


def empty_path(topic: str, ending: str) -> str:
    """Return the path of the file of a topic without rows."""
    return f"{topic}/empty.{ending}"
