"""The log of a table: its commits, each a file of JSON that is created and never changed.

A commit names the positions before and after it, and the files that it adds and removes. What it names exists
before it, below a name that no reader looks at; what is live is what all commits come to.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from aqueduct.common import offset_sets, strict_json
from aqueduct.errors import Failed
from aqueduct.land import types
from aqueduct.land.declaration import Column, LandTable, TableKind

FOLDER = "_land"  # in a table's; readers pass over what begins with _
COMMITS = f"{FOLDER}/commits"
STAGED = f"{FOLDER}/staged"
CHECKPOINTS = f"{FOLDER}/checkpoints"  # what all commits up to a number come to
# Files that compaction replaced, for readers that have begun; of an Iceberg table empty ones, which say that
# theirs are to go once no snapshot names them.
REMOVED = f"{FOLDER}/removed"
# In an Iceberg table's folder, what its readers read: who lists the folder would find replaced files, too.
ICEBERG = "_iceberg"
DATA = f"{ICEBERG}/data"
METADATA = f"{ICEBERG}/metadata"
LAND, COMPACT, RESET, REPLAY = "land", "compact", "reset", "replay"  # kinds of commits
COMPACTED = "-compacted"  # how names of files that compaction made end, before that
# How names end of files of the bad table, and of those of late rows and of offsets that are left out.
BAD, LATE, FILTERED = "-bad.orc", "-late.orc", "-filtered.orc"
ORC = ".orc"
_NAME = re.compile(r"(\d{20})\.json")

Positions = Mapping[str, Mapping[str, int]]  # topic -> partition -> next offset


@dataclass(frozen=True)
class Staging:
    """Where a run stages what it is to commit: in a folder of its own."""

    number: int  # of its commit, at most
    run: str = ""  # a token; empty: it stages nothing
    began: float = 0.0  # in seconds, by the clock of the run's host that nobody sets

    @property
    def folder(self) -> str:
        """Return it, below that of the log's table."""
        return f"{STAGED}/{self.number:020d}" + (f"-{self.run}" if self.run else "")

    def file_name(self, share: int, file: int = 0, suffix: str = "") -> str:
        """Return the name of a share's file. It is sorted by commit, and no other run gives it to a file.

        So no file is overwritten, also where an older copy of a log is restored and numbers come again.
        """
        return f"{self.number:020d}-{share:05d}-{file:05d}-{self.run}{suffix}"


@dataclass(frozen=True, kw_only=True)
class AddedFile:
    """A file that a commit adds, by its path below its table's folder."""

    path: str
    rows: int
    bytes: int
    sha256: str
    table: str | None = None  # None: the table of the log; else the one beside it

    def staged(self, staging: Staging) -> str:
        """Return where it is, below the folder of the log's table, until its commit is there."""
        return f"{staging.folder}/{self.sha256}.orc"

    def of_commit(self, number: int) -> "AddedFile":
        """Return it with the name that it has as one of that commit: names begin with its number."""
        folder, slash, name = self.path.rpartition("/")
        return replace(self, path=f"{folder}{slash}{number:020d}-{name.partition('-')[2]}")


@dataclass(frozen=True)
class Step:
    """How far topics were read before a commit, and are read by it."""

    before: Positions
    next: Positions


@dataclass(frozen=True)
class ColumnDefinition:
    name: str
    type: str  # Hive's
    means: str  # how a timestamp is read: its unit, or its zone; of others empty


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What readers see of a table, and what its values mean."""

    columns: tuple[ColumnDefinition, ...]
    partition: str  # the name of the column of folders, and of which column it is a day; or empty
    bad: str  # database.table
    tombstones: bool  # they are rows
    # database.table of late rows, also where nothing goes there any more; empty: there never was one.
    late: str = ""
    kind: str = TableKind.HIVE.value
    filtered: str = ""  # database.table of offsets that are left out, as late

    @property
    def beside(self) -> dict[str, str]:
        """The tables beside the table, if there are such, by how names of their files end."""
        every = {BAD: self.bad, LATE: self.late, FILTERED: self.filtered}
        return {ending: name for ending, name in every.items() if name}


@dataclass(frozen=True, kw_only=True)
class NeverLanded:
    """Offsets that a reset left out, that retention deleted first, or of a batch that is not opened."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """An entry of the log."""

    number: int
    kind: str
    positions: Step
    added: tuple[AddedFile, ...]
    removed: tuple[str, ...]
    bad: int  # records that went to the bad table
    schema: int
    created: str  # ISO 8601
    topic_ids: Mapping[str, str]  # of topics that are new to the table
    definition: Definition | None = None  # of a new schema
    gaps: tuple[NeverLanded, ...] = ()  # what retention deleted first
    # The number below which its files were staged, before others committed; none: its own.
    staged: int | None = None
    run: str = ""  # whose folder that is
    # The leader's epoch when each position was read, by topic and partition.
    epochs: Positions = field(default_factory=dict)
    unopened: tuple[NeverLanded, ...] = ()  # batches that unpack to too much

    @property
    def staging(self) -> Staging:
        return Staging(self.staged or self.number, self.run)


def definition(table: LandTable, stored: Definition | None = None) -> Definition:
    """Return what is declared; what is beside the table stays where `stored` has it."""
    by = table.partitioned_by
    late = table.late.table if table.late else stored.late if stored else ""
    filtered = table.filtered.table if table.filtered else stored.filtered if stored else ""
    return Definition(
        columns=tuple(
            ColumnDefinition(column.name, types.hive(column.type), _means(column)) for column in table.columns
        ),
        partition=f"{by.name} of {by.of.name}" if by else "",
        bad=table.bad,
        tombstones=table.keeps_tombstones,
        late=late,
        kind=table.kind.value,
        filtered=filtered,
    )


def data_folder(table: LandTable) -> str:
    """Return where files of the table, and of those beside it, are below their folders; or nothing."""
    return DATA if table.kind is TableKind.ICEBERG else ""


def _means(column: Column) -> str:
    if column.expression:
        return column.expression
    if types.scalar_of(column.type) != types.TIMESTAMP:
        return ""
    return column.unit or column.zone.key


def ending(path: str) -> str:
    """Return how a file's name ends, which tells the table that it is of."""
    return next((suffix for suffix in (BAD, LATE, FILTERED) if path.endswith(suffix)), ORC)


def path(number: int) -> str:
    return f"{COMMITS}/{number:020d}.json"


def checkpoint_path(number: int) -> str:
    return f"{CHECKPOINTS}/{number:020d}.json"


def dumps(commit: "Commit | State") -> bytes:
    return strict_json.dumps(commit)


def loads(content: bytes | memoryview, number: int, where: str) -> Commit:
    """Parse a commit; Failed if it is none, or another one than its name says."""
    try:
        commit = strict_json.loads(Commit, content)
    except strict_json.Unreadable as error:
        raise Failed(
            "landing-log-damaged", f"{where} is not a commit of a table: {error}. Restore it from a copy."
        ) from None
    if commit.number != number:
        raise Failed(
            "landing-log-damaged",
            f"{where} contains the commit {commit.number}, so the file was renamed or replaced. Restore it "
            "from a copy.",
        )
    return commit


def loads_checkpoint(content: bytes | memoryview, name: str, where: str) -> "State":
    """Parse a checkpoint; Failed if it is none, or another one than its file's name says."""
    try:
        state = strict_json.loads(State, content)
    except strict_json.Unreadable as error:
        raise Failed(
            "landing-checkpoint-damaged",
            f"{where} is not a checkpoint of a table: {error}. Move the file to another folder. The commits "
            "contain the same information.",
        ) from None
    if checkpoint_path(state.number) != f"{CHECKPOINTS}/{name}":
        raise Failed(
            "landing-checkpoint-damaged",
            f"{where} is the checkpoint of the commit {state.number}, so the file was renamed. Move the "
            "file to another folder. The commits contain the same information.",
        )
    return state


def newer(names: Iterable[str], than: int, where: str) -> range:
    """Return the numbers of commits by their files' names; Failed if one between them is missing."""
    numbers = sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
    whole = range(than + 1, numbers[-1] + 1 if numbers else than + 1)
    if numbers != list(whole):
        missing = min({*whole} - {*numbers})
        raise Failed(
            "landing-log-damaged",
            f"{where} lacks the commit {missing}, but contains the commit {numbers[-1]}. Restore the "
            "missing commit from a copy before you land more records.",
        )
    return whole


@dataclass(frozen=True, kw_only=True)
class State:
    """What the commits come to."""

    number: int = 0
    positions: Positions = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    live: Mapping[str, AddedFile] = field(default_factory=dict)  # of the table, by path
    bad: Mapping[str, AddedFile] = field(default_factory=dict)  # of the bad table, by path
    schema: int = 0
    definition: Definition | None = None
    compacted: str | None = None  # when last, ISO 8601
    passed: tuple[NeverLanded, ...] = ()  # by resets
    late: Mapping[str, AddedFile] = field(default_factory=dict)  # of late rows, by path
    deleted: tuple[NeverLanded, ...] = ()  # by retention
    # The newest commit that did: a reset, or a replay.
    took_rows: int = 0
    # Of offsets that are left out, by path.
    filtered: Mapping[str, AddedFile] = field(default_factory=dict)
    epochs: Positions = field(default_factory=dict)  # of the leaders under whom it landed
    unopened: tuple[NeverLanded, ...] = ()  # batches that unpack to too much

    @property
    def is_iceberg(self) -> bool:
        return self.definition is not None and self.definition.kind == TableKind.ICEBERG

    @property
    def files(self) -> tuple[AddedFile, ...]:
        """All live files: of the table, and of those beside it."""
        own = (self.live, self.late, self.bad, self.filtered)
        return tuple(file for files in own for file in files.values())


def next_commit(
    state: State,
    kind: str,
    created: str,
    positions: Positions,
    *,
    added: tuple[AddedFile, ...],
    removed: tuple[str, ...],
    topic_ids: Mapping[str, str] | None = None,
) -> Commit:
    """Return a commit that lands nothing, and follows the state's last one."""
    step = Step(state.positions, positions)
    return Commit(
        number=state.number + 1,
        kind=kind,
        positions=step,
        added=added,
        removed=removed,
        bad=0,
        schema=state.schema,
        created=created,
        topic_ids=topic_ids or {},
    )


def replay(state: State, commits: Iterable[Commit]) -> State:
    """Return the state after the next commits; Failed if one does not follow the one before."""
    number, positions, schema, stored = state.number, state.positions, state.schema, state.definition
    topic_ids, live, bad, late = dict(state.topic_ids), dict(state.live), dict(state.bad), dict(state.late)
    filtered = dict(state.filtered)
    beside = {BAD: bad, LATE: late, FILTERED: filtered}
    compacted, passed, deleted, took = state.compacted, state.passed, state.deleted, state.took_rows
    epochs, unopened = state.epochs, state.unopened
    for commit in commits:
        if commit.number != number + 1:
            raise Failed(
                "landing-log-damaged",
                f"The commit {commit.number} follows the commit {number} in the log, so a commit between "
                "them is missing.",
            )
        if commit.positions.before != positions:
            raise Failed(
                "landing-log-damaged",
                f"The commit {commit.number} begins at other positions than the end of the commit {number}.",
            )
        for removed in commit.removed:
            if beside.get(ending(removed), live).pop(removed, None) is None:
                raise Failed(
                    "landing-log-damaged",
                    f"The commit {commit.number} removes {removed}, which is not a current file of "
                    "the table.",
                )
        for file in commit.added:
            into = beside.get(ending(file.path), bad) if file.table else live
            if file.path in into:
                raise Failed(
                    "landing-log-damaged",
                    f"The commit {commit.number} adds {file.path}, which is already a current file of the "
                    "table.",
                )
            into[file.path] = file
        number, positions, schema = commit.number, commit.positions.next, commit.schema
        stored = commit.definition or stored
        topic_ids |= commit.topic_ids
        epochs = _epochs_after(epochs, commit)
        compacted = commit.created if commit.kind == COMPACT else compacted
        took = commit.number if commit.removed and commit.kind != COMPACT else took
        if commit.kind == RESET:
            passed = _never([*_before(passed, commit), *_skipped(commit)])
            deleted = _never(_before(deleted, commit))
            unopened = _never(_before(unopened, commit))
        unopened = _never([*unopened, *commit.unopened]) if commit.unopened else unopened
        deleted = _never([*deleted, *commit.gaps]) if commit.gaps else deleted
    return State(
        number=number,
        positions=positions,
        topic_ids=topic_ids,
        live=live,
        bad=bad,
        schema=schema,
        definition=stored,
        compacted=compacted,
        passed=passed,
        late=late,
        deleted=deleted,
        took_rows=took,
        filtered=filtered,
        epochs=epochs,
        unopened=unopened,
    )


def _epochs_after(epochs: Positions, commit: Commit) -> Positions:
    """Return the epochs of all positions; of one that a reset moved none is known."""
    step = commit.positions
    if commit.kind == RESET:
        epochs = {
            topic: {
                number: epoch
                for number, epoch in of_topic.items()
                if topic not in commit.topic_ids
                and step.next.get(topic, {}).get(number) == step.before.get(topic, {}).get(number)
            }
            for topic, of_topic in epochs.items()
        }
    return {
        topic: {**epochs.get(topic, {}), **commit.epochs.get(topic, {})}
        for topic in epochs.keys() | commit.epochs.keys()
    }


def _never(never_landed: Iterable[NeverLanded]) -> tuple[NeverLanded, ...]:
    """Return the same offsets in as few spans as can be."""
    by_place: dict[tuple[str, int], offset_sets.Spans] = {}
    for span in never_landed:
        offset_sets.add(by_place.setdefault((span.topic, span.partition), []), span.first, span.last)
    return tuple(
        NeverLanded(topic=topic, partition=partition, first=first, last=last)
        for (topic, partition), own in by_place.items()
        for first, last in own
    )


def _before(never_landed: Iterable[NeverLanded], reset: Commit) -> Iterator[NeverLanded]:
    """Yield what lies before the positions of a reset; what comes after is tried again.

    A topic that was made again has other records.
    """
    for span in never_landed:
        reached = reset.positions.next.get(span.topic, {}).get(str(span.partition), sys.maxsize)
        if span.topic not in reset.topic_ids and span.first < reached:
            yield replace(span, last=min(span.last, reached - 1))


def _skipped(reset: Commit) -> Iterator[NeverLanded]:
    """Yield what a reset leaves out, for it goes ahead."""
    for topic, positions in reset.positions.next.items():
        for number, reached in positions.items():
            was = 0 if topic in reset.topic_ids else reset.positions.before.get(topic, {}).get(number, 0)
            if was < reached:
                yield NeverLanded(topic=topic, partition=int(number), first=was, last=reached - 1)
