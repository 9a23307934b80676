"""A table's log where it is kept: read, commit, and make visible what was committed."""

import hashlib
import json
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace as with_
from typing import TypeVar

from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.land import log
from aqueduct.land.declaration import LandTable
from aqueduct.land.files import OrcFile
from aqueduct.land.log import COMPACT, LAND, REPLAY, AddedFile, Commit, Positions, Staging, State, replay
from aqueduct.store.objects import DamagedObject, EditableObjects, Entry, Exists, MissingObject, Objects

# Commits of others after which what a run staged is removed: it was killed, or has to stage again.
AHEAD = 100
CHECKPOINT = 500  # commits, after which a start need not read those before
MOST_LOG_BYTES = 512 << 20  # of a commit or a checkpoint: of two million files
AT_ONCE = 16  # objects that are read or moved
LEFT_SECONDS = 6 * 3600  # after which a run is dead that neither staged more nor committed
SURE_SECONDS = 3600  # so long nobody takes a run for dead; after that it looks before it commits
OWNER = f"{log.FOLDER}/table.json"  # says whose log a folder's files are in

T = TypeVar("T")
R = TypeVar("R")


class Overtaken(Failed):
    """The end of an attempt to commit, which has to be made again after what came before it."""

    id = "table-changed-meanwhile"


class Lost(Failed):
    """The end of a landing whose table another one lands, too."""

    id = "landers-compete"


def folder(full_name: str) -> str:
    """Return a table's folder below the location, by `database.table`."""
    return full_name.replace(".", "/")


def stage(objects: Objects, table: LandTable, staging: Staging, name: str, file: OrcFile) -> AddedFile:
    """Write a file where no reader looks, for a commit of at most that number, with which its name begins."""
    name += file.ending
    path = f"{file.folder}/{name}" if file.folder else name
    digest = hashlib.sha256(file.data).hexdigest()
    added = AddedFile(path=path, rows=file.rows, bytes=len(file.data), sha256=digest, table=file.table)
    objects.create(f"{folder(table.full_name)}/{added.staged(staging)}", file.data)
    return added


def committed(objects: Objects, table: str, file: AddedFile) -> memoryview:
    """Return the bytes of a visible file of `database.table`'s log; Failed if they are not what landed."""
    content = objects.read(f"{folder(file.table or table)}/{file.path}", at_most=file.bytes)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise Failed(
            "table-file-damaged",
            f"{file.path} was changed after its commit: its digest differs. Run aqueduct land verify.",
        )
    return content


def commit_number(path: str) -> int:
    """Return the number of the commit that added a file."""
    return int(path.rpartition("/")[2].partition("-")[0])


class TableLog:
    """The log of one table, as far as it was read."""

    def __init__(self, objects: EditableObjects, table: str) -> None:
        """Read nothing yet of `database.table`."""
        self._objects = objects
        self.table = table
        self._folder = folder(table)
        self.state = State()
        self.newest: Commit | None = None
        self._published = 0  # the number of a commit
        self.owned = False

    def own(self, beside: Iterable[str]) -> None:
        """Take the folders of the table and of those beside it; Refused if one has something of others'."""
        content = json.dumps({"table": self.table}).encode()
        for name in (self.table, *beside):
            owner_path = f"{folder(name)}/{OWNER}"
            if self._objects.head(owner_path) is None:
                for entry in self._objects.list(folder(name)):
                    raise Refused(
                        "table-folder-taken",
                        f"The folder of the new table {name} in {self._objects.url} contains files that no "
                        f"landing wrote, such as {entry.path}. Declare another table name, or move these "
                        "files to another folder.",
                    )
            try:
                self._objects.create(owner_path, content)
            except Exists:
                raise Refused(
                    "table-folder-taken",
                    f"The folder of {name} in {self._objects.url} belongs to another landing, as its file "
                    f"{OWNER} shows. Declare another table name.",
                ) from None
        self.owned = True

    def follow(self) -> State:
        """Read what is new, see to it that the newest commit is visible, and return what all come to."""
        self.read()
        if self.state.number > self._published:
            self.publish()
        return self.state

    def rejoin(self) -> None:
        """Follow what compactions and replays committed since; Lost if another lander did, or a reset."""
        number = self.state.number
        since = range(number + 1, self.follow().number + 1)
        if any(commit.kind not in (COMPACT, REPLAY) for commit in _at_once(self._load, since)):
            raise self._lost()

    def read(self) -> State:
        """Read the commits that are new; Failed if the log is damaged."""
        if not self.state.number:
            self._begin()
        commits_folder = f"{self._folder}/{log.COMMITS}"
        names = (entry.path.removeprefix(f"{commits_folder}/") for entry in self._after(self.state.number))
        numbers = log.newer(names, self.state.number, f"{self._objects.url}/{commits_folder}")
        commits = _at_once(self._load, numbers)
        if commits:
            self.state = replay(self.state, commits)
            self.newest = commits[-1]
        return self.state

    def is_newest(self) -> bool:
        """Tell if the log has no commit that wasn't read."""
        return next(self._after(self.state.number), None) is None

    def _after(self, number: int) -> Iterator[Entry]:
        after = f"{self._folder}/{log.path(number)}" if number else None
        return self._objects.list(f"{self._folder}/{log.COMMITS}", after)

    def _begin(self) -> None:
        """Take the newest checkpoint, if there is one."""
        checkpoints = f"{self._folder}/{log.CHECKPOINTS}"
        if paths := [entry.path for entry in self._objects.list(checkpoints)]:
            newest, where = paths[-1], f"{self._objects.url}/{paths[-1]}"
            try:
                content = self._objects.read(newest, at_most=MOST_LOG_BYTES)
            except DamagedObject as error:
                raise Failed(
                    "landing-checkpoint-damaged",
                    f"{error} Move the file to another folder. The commits contain the same information.",
                ) from None
            self.state = log.loads_checkpoint(content, newest.rpartition("/")[2], where)
            self.newest = self._load(self.state.number)

    def _load(self, number: int) -> Commit:
        path = f"{self._folder}/{log.path(number)}"
        content = self._objects.read(path, at_most=MOST_LOG_BYTES)
        return log.loads(content, number, f"{self._objects.url}/{path}")

    def begin(self, ahead: int | None = None) -> Staging:
        """Return a new folder in which to stage what `commit_beside` commits.

        `ahead`: of the newest commit is the one that it is for, at most.
        """
        number = self.state.number + (AHEAD if ahead is None else ahead)
        return Staging(number, secrets.token_hex(4), _clock())

    def commit_beside(self, staging: Staging, following: Callable[[State], Commit]) -> Commit:
        """Create the commit that is to follow a state, after all that others commit meanwhile.

        Overtaken if another one took a file that it removes, or if so much was committed that its own may be
        gone; of a landing Lost if another one landed. What was staged for it goes then.
        """
        try:
            while True:
                commit = following(self.state)
                added = tuple(file.of_commit(commit.number) for file in commit.added)
                commit = with_(commit, added=added)
                try:
                    self.commit(commit, staging)
                except Overtaken:
                    if commit.kind == LAND:
                        self.rejoin()
                    else:
                        self.follow()
                    live = {file.path for file in self.state.files}
                    if not live.issuperset(commit.removed) or self.state.number >= staging.number:
                        raise
                else:
                    return commit
        except (Overtaken, Lost):
            self.discard(staging)
            raise

    def commit(self, commit: Commit, staging: Staging | None = None) -> None:
        """Create the commit, whose files `publish` makes visible.

        `staging`: where they are, if not below the commit's own number. Lost if another lander or a reset was
        first; Overtaken if that moved no position, or if this isn't a landing itself.
        """
        if staging:
            self._see_staged(staging, commit.added)
            commit = with_(commit, staged=staging.number, run=staging.run)
        after = replay(self.state, [commit])
        content = log.dumps(commit)
        if len(content) > MOST_LOG_BYTES:
            raise Failed(
                "landing-commit-too-large",
                f"Commit {commit.number} of {self.table} would have {len(content):,} bytes, more than the "
                f"limit of {MOST_LOG_BYTES:,} bytes. The commit would add {len(commit.added):,} files and "
                f"remove {len(commit.removed):,}. Nothing was committed. Run aqueduct land compact first.",
            )
        try:
            self._objects.create(f"{self._folder}/{log.path(commit.number)}", content)
        except Exists:
            if commit.kind != LAND or self._load(commit.number).kind in (COMPACT, REPLAY):
                raise Overtaken(f"Another run wrote the commit {commit.number} of {self.table}.") from None
            raise self._lost() from None
        self.state, self.newest = after, commit

    def _see_staged(self, staging: Staging, files: Iterable[AddedFile]) -> None:
        """See that all of it is there of a run that took long; Failed if it was taken for dead."""
        if _clock() - staging.began < SURE_SECONDS:
            return
        places = [f"{self._folder}/{file.staged(staging)}" for file in files]
        if None in _at_once(self._objects.head, places):
            raise Failed(
                "staged-files-missing",
                f"The uncommitted files of this run for {self.table} no longer exist: the run was suspended "
                "for hours, and a compaction removed the files. Nothing was committed. Run the command "
                "again.",
            )

    def discard(self, staging: Staging) -> None:
        """Remove what a run staged that will not be committed; what can't be removed now goes later."""
        with suppress(AqueductError):
            staged_folder = f"{self._folder}/{staging.folder}"
            _at_once(self._objects.remove, [entry.path for entry in self._objects.list(staged_folder)])

    def staged_bytes(self, now: float) -> tuple[int, int]:
        """Return how much is staged, and how much of that by runs that were dead at a time."""
        staged = self._staged()
        dead = _of_dead(staged, now)
        return sum(entry.size for some in staged for entry in some), sum(entry.size for entry in dead)

    def bury(self) -> int:
        """Remove what runs staged that are dead by the store's clock; return how many bytes that was."""
        if not (staged := self._staged()):
            return 0
        dead = _of_dead(staged, self._store_time())
        self.follow()  # so that all that was committed meanwhile has its name
        _at_once(self._objects.remove, [entry.path for entry in dead])
        return sum(entry.size for entry in dead)

    def _staged(self) -> list[list[Entry]]:
        """Return what is staged, by the run."""
        by_run: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._objects.list(f"{self._folder}/{log.STAGED}"):
            by_run[entry.path.rpartition("/")[0]].append(entry)
        return list(by_run.values())

    def _store_time(self) -> float:
        clock_folder = f"{self._folder}/{log.FOLDER}/clock/{secrets.token_hex(4)}"
        self._objects.create(f"{clock_folder}/now", b"")
        [entry] = self._objects.list(clock_folder)
        self._objects.remove(entry.path)
        return entry.written

    def unnamed(self) -> int:
        """Return how many files of the newest commit have not the names at which readers find them."""
        commit = self.newest
        if commit is None:
            return 0
        sizes = _at_once(lambda file: self._objects.head(self.places(commit, file)[0]), commit.added)
        return sum(size is not None for size in sizes)

    def let_go(self, path: str) -> None:
        """Raise Overtaken if the log says that a file was replaced; else Failed: it is missing."""
        if any(file.path == path for file in self.read().files):
            raise Failed(
                "table-file-missing",
                f"The committed file {path} of {self.table} is missing. Run aqueduct land verify.",
            )
        raise Overtaken(f"Another run changed the same files of {self.table}.")

    def _lost(self) -> Lost:
        return Lost(
            f"Another landing or a reset committed to {self.table} first, so this run did not land the "
            "records that it had read. Run the command again. Let only one landing at a time write to a "
            "table."
        )

    def publish(self, mine: Staging | None = None) -> None:
        """Give the newest commit's files their names, and remove what nobody can commit any more.

        `mine`: where its files were staged, and others in vain. Several may do so at once, for one that was
        killed, or that is at it still.
        """
        commit = self.newest
        if commit is None:
            return
        try:
            self._exchange(commit)
        except MissingObject:
            # Whoever committed after it has published it before, and may have replaced its files since.
            if next(self._after(commit.number), None) is None:
                raise
        self._clear(commit.number, mine)
        if commit.number % CHECKPOINT == 0:
            content = log.dumps(self.state)
            if len(content) <= MOST_LOG_BYTES:
                with suppress(Exists):  # it comes to the same, whoever wrote it
                    self._objects.create(f"{self._folder}/{log.checkpoint_path(commit.number)}", content)
        self._published = commit.number

    def _exchange(self, commit: Commit) -> None:
        if self.state.is_iceberg:
            # Snapshots name them: they stay where they are, and it is noted that they are to go.
            _at_once(lambda path: self._note(*self.hidden(commit, path)), commit.removed)
            _at_once(lambda file: self._objects.move(*self.places(commit, file)), commit.added)
            return
        # Of what is exchanged readers see too little for a moment, and nothing twice.
        _at_once(lambda path: self._hide(*self.hidden(commit, path)), commit.removed)
        _at_once(lambda file: self._objects.move(*self.places(commit, file)), commit.added)

    def _note(self, path: str, note: str) -> None:
        if self._objects.head(path) is not None:  # else it has expired since
            self._objects.create(note, b"")

    def _hide(self, path: str, hidden: str) -> None:
        with suppress(MissingObject):  # it has expired since
            self._objects.move(path, hidden)

    def _clear(self, number: int, mine: Staging | None) -> None:
        """Remove what was staged for commits up to that one, and what is left of the run's own."""
        staged_folder = f"{self._folder}/{log.STAGED}/"
        own = f"{self._folder}/{mine.folder}/" if mine else None
        for entry in [staged_entry for some in self._staged() for staged_entry in some]:
            reached = int(entry.path.removeprefix(staged_folder)[:20]) <= number
            if reached or (own and entry.path.startswith(own)):
                self._objects.remove(entry.path)

    def replaced_since(self, number: int) -> dict[str, tuple[str, ...]]:
        """Return where files are that commits after that number removed, by their path."""
        self.read()
        commits = _at_once(self._load, range(number + 1, self.state.number + 1))
        index = 0 if self.state.is_iceberg else 1
        return {path: (self.hidden(commit, path)[index],) for commit in commits for path in commit.removed}

    def seen_since(self, number: int) -> set[str]:
        """Return where readers may have seen the log's files since that commit came."""
        commits = _at_once(self._load, range(number, self.state.number + 1))
        removed = {self._own_place(path) for commit in commits for path in commit.removed}
        return {self.place(file) for file in self.state.files} | removed

    def folders(self) -> list[str]:
        """Return the folders of the table, and of those beside it."""
        definition = self.state.definition
        return [self._folder, *map(folder, definition.beside.values())] if definition else []

    def positions_after(self, numbers: Iterable[int]) -> dict[int, Positions]:
        """Return the positions that commits ended at, by their numbers."""
        return {commit.number: commit.positions.next for commit in _at_once(self._load, numbers)}

    def places(self, commit: Commit, file: AddedFile) -> tuple[str, str]:
        """Return where a file of a commit is until it is visible, and then."""
        return f"{self._folder}/{file.staged(commit.staging)}", self.place(file)

    def hidden(self, commit: Commit, path: str) -> tuple[str, str]:
        """Return where a file is that a commit removes, and then; of an Iceberg table, where it is noted."""
        return self._own_place(path), f"{self._folder}/{log.REMOVED}/{commit.number:020d}/{path}"

    def _own_place(self, path: str) -> str:
        definition = self.state.definition
        beside = definition.beside if definition else {}
        return f"{folder(beside.get(log.ending(path), self.table))}/{path}"

    def expire(self, before: str, named: Callable[[int, str], bool] = lambda *_: False) -> int:
        """Remove files that were replaced before that time (ISO 8601); return how many.

        `named`: whether an Iceberg snapshot names a file yet, by the number of the commit that removed it,
        and its path.
        """
        removed_folder = f"{self._folder}/{log.REMOVED}"
        removed: list[tuple[str, int, str]] = []
        for entry in self._objects.list(removed_folder):
            number, _, path = entry.path.removeprefix(f"{removed_folder}/").partition("/")
            removed.append((entry.path, int(number), path))
        old = {
            number for number in {number for _, number, _ in removed} if self._load(number).created < before
        }
        gone = [removal for removal in removed if removal[1] in old and not named(*removal[1:])]
        if self.state.is_iceberg:
            _at_once(self._objects.remove, [self._own_place(path) for _, _, path in gone])
        _at_once(self._objects.remove, [noted for noted, _, _ in gone])
        return len(gone)

    def place(self, file: AddedFile) -> str:
        return f"{folder(file.table or self.table)}/{file.path}"


def _clock() -> float:
    """Return seconds that count on while the host sleeps, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _of_dead(staged: Iterable[list[Entry]], now: float) -> list[Entry]:
    """Return what runs staged that have staged nothing more for hours."""
    old = now - LEFT_SECONDS
    return [
        entry for some in staged if max(staged_entry.written for staged_entry in some) < old for entry in some
    ]


def _at_once(action: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(action, items))
