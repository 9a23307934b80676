"""What an export keeps beside its files: what it is of, what was done so far, and at the end all of it.

    _export/begun.json            what it is of; created first, so that no other one writes here
    _export/<share>.json          what one task wrote, created behind its files; removed at the end
    _export.json                  all files, with counts and digests; created last
    <topic>/<partition>-<first offset>.<format>
    <topic>/_bad-<partition>-<first offset>.<format>       records that can't be rows

Readers of folders (Spark, Arrow) pass over names that begin with `_`.
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
MOST_BYTES = 256 << 20  # of one of these objects: of a million files
FOLDER = "_export"
BEGUN = f"{FOLDER}/begun.json"
DONE = "_export.json"
OWN = {FOLDER, DONE, WRITING}
BAD = "_bad-"
MADE_BY = "made_by"
EXPIRED = "expired"


@dataclass(frozen=True, kw_only=True)
class ExportIdentity:
    """What an export is of: a folder holds one."""

    format: int
    store: str  # its id
    snapshot: int
    topics: tuple[str, ...]  # that were asked for; none: all
    instance: str
    from_time: int  # milliseconds since 1970, inclusive
    to_time: int
    files: str  # their format
    declarations: str  # digest
    made_by: str  # versions, on which files' bytes depend
    # Offsets that had expired in the store when it began: which records a share has depends on them.
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
    """What became of the records of a partition, or of a part of it."""

    topic: str
    partition: int
    rows: int = 0
    bad: int = 0  # in files of bad rows
    tombstones: int = 0  # that a table leaves out
    outside: int = 0  # of the window
    unread: int = 0  # each named as left out

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def all(self) -> int:
        return self.rows + self.bad + self.tombstones + self.outside + self.unread

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*self[:2], *(a + b for a, b in zip(self[2:], other[2:], strict=True)))


class Unread(NamedTuple):
    """Records that can't be exported."""

    what: str
    why: str


@dataclass(frozen=True)
class ShareDone:
    """What one task wrote."""

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
    """Offsets that had expired in the store, by a lifecycle rule."""

    topic: str
    partition: int
    start: int
    stop: int  # exclusive
    expired: int  # when the last of them did, milliseconds since 1970


@dataclass(frozen=True, kw_only=True)
class ExportDone:
    """All that an export wrote."""

    export: ExportIdentity
    files: tuple[ExportedFile, ...]
    counts: tuple[Counts, ...]  # of each partition
    gaps: tuple[MissingRange, ...]
    left_out: tuple[Unread, ...]
    expired: tuple[ExpiredRange, ...] = ()


def begun(target: Objects) -> ExportIdentity | None:
    """Return the export that has begun there; None: nothing is there. Refused if something else is."""
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
            f"{target.url} has {stored.path}, which is not of an export. Pass a folder with --to that is "
            "empty or does not exist.",
        )
    return None


def check_same(target: Objects, prior: ExportIdentity, mine: ExportIdentity, *, ended: bool) -> None:
    """Refuse another export than the one that is there; one that has ended may be of another version."""
    recorded, asked = asdict(prior), asdict(mine)
    other = [
        name
        for name in recorded
        if recorded[name] != asked[name] and not (ended and name in (MADE_BY, EXPIRED))
    ]
    if other == [MADE_BY]:
        raise Refused(
            "export-folder-taken",
            f"{target.url} has an export that {prior.made_by} began, and this is {mine.made_by}, whose files "
            "may differ. Complete it with the former version, or pass another folder with --to.",
        )
    if other == [EXPIRED]:
        raise Refused(
            "export-folder-taken",
            f"Records have expired in the store since the export in {target.url} began, and it is not "
            "complete. Pass another folder with --to. The report of that export lists what has expired.",
        )
    if other:
        differences = ", ".join(
            f"{name} {_short(recorded[name])}, not {_short(asked[name])}" for name in other
        )
        raise Refused(
            "export-folder-taken",
            f"{target.url} has another export ({differences}). Pass another folder with --to.",
        )


def _short(value: object) -> str:
    return ", ".join(map(str, value)) or "all" if isinstance(value, tuple) else str(value or "none")


def begin(target: Objects, identity: ExportIdentity) -> None:
    """Have the folder for this export; Failed if another one was faster."""
    try:
        target.create(BEGUN, strict_json.dumps(identity))
    except Exists:
        raise Failed(
            "export-folder-taken",
            f"Another export has begun in {target.url} meanwhile. Pass another folder with --to.",
        ) from None


def share_path(number: int) -> str:
    return f"{FOLDER}/{number:08d}.json"


def share_done(target: Objects, number: int) -> ShareDone:
    """Read what a task wrote."""
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
    """Return what an export wrote that has ended; None: it has not."""
    try:
        return strict_json.loads(ExportDone, target.read(DONE, at_most=MOST_BYTES))
    except MissingObject:
        return None
    except strict_json.Unreadable as error:
        raise Failed(
            "export-state-damaged", f"{target.url}/{DONE} is damaged: {error}. Pass another folder with --to."
        ) from None


def end(target: EditableObjects, written: ExportDone) -> None:
    """Say that the export is whole, and remove what only a run that goes on needs."""
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
