"""A table's log where it is kept: read, commit, and make visible what was committed."""

import hashlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from aqueduct.errors import Failed, Refused
from aqueduct.land import log
from aqueduct.land.declaration import LandTable
from aqueduct.land.files import OrcFile
from aqueduct.land.log import COMPACT, LAND, REPLAY, AddedFile, Commit, Positions, State, replay
from aqueduct.store.objects import EditableObjects, Exists, MissingObject, Objects

CHECKPOINT = 500  # commits, after which a start need not read those before
AT_ONCE = 16  # objects that are read or moved
OWNER = f"{log.FOLDER}/table.json"  # says whose log a folder's files are in

T = TypeVar("T")
R = TypeVar("R")


class Overtaken(Failed):
    """The end of an attempt to commit, which has to be made again after what came before it."""


class Lost(Failed):
    """The end of a landing whose table another one lands, too."""


def folder(full_name: str) -> str:
    """Return a table's folder below the location, by `database.table`."""
    return full_name.replace(".", "/")


def stage(objects: Objects, table: LandTable, number: int, name: str, file: OrcFile) -> AddedFile:
    """Write a file where no reader looks, for the commit of that number, with which its name begins."""
    name += log.BAD if file.bad else log.LATE if file.late else ".orc"
    path = f"{file.folder}/{name}" if file.folder else name
    digest = hashlib.sha256(file.data).hexdigest()
    added = AddedFile(path, file.rows, len(file.data), digest, table.bad if file.bad else file.late)
    objects.create(f"{folder(table.full_name)}/{added.staged(number)}", file.data)
    return added


def committed(objects: Objects, table: str, file: AddedFile) -> memoryview:
    """Return the bytes of a visible file of `database.table`'s log; Failed if they are not what landed."""
    data = objects.read(f"{folder(file.table or table)}/{file.path}")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Failed(f"{file.path} is not what was committed: its digest is another one. Run land verify.")
    return data


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
            at = f"{folder(name)}/{OWNER}"
            if self._objects.head(at) is None:
                for entry in self._objects.list(folder(name)):
                    raise Refused(
                        f"The folder of the new table {name} in {self._objects.url} has files that no "
                        f"landing made, such as {entry.path}: take another name, or move them away."
                    )
            try:
                self._objects.create(at, content)
            except Exists:
                raise Refused(
                    f"The folder of {name} in {self._objects.url} belongs to another landing, by its "
                    f"{OWNER}: name another table."
                ) from None
        self.owned = True

    def follow(self) -> State:
        """Read what is new, see to it that the newest commit is visible, and return what all come to."""
        self.read()
        if self.state.number > self._published:
            self.publish()
        return self.state

    def rejoin(self) -> None:
        """Follow what compactions and replays committed since; Lost if another lander did, too."""
        landed = self.state.positions
        if self.follow().positions != landed:
            raise self._lost()

    def read(self) -> State:
        """Read the commits that are new; Failed if the log is damaged."""
        if not self.state.number:
            self._begin()
        at = f"{self._folder}/{log.COMMITS}"
        known = f"{self._folder}/{log.path(self.state.number)}" if self.state.number else None
        names = (entry.path.removeprefix(f"{at}/") for entry in self._objects.list(at, known))
        numbers = log.newer(names, self.state.number, f"{self._objects.url}/{at}")
        commits = _at_once(self._load, numbers)
        if commits:
            self.state = replay(self.state, commits)
            self.newest = commits[-1]
        return self.state

    def _begin(self) -> None:
        """Take the newest checkpoint, if there is one."""
        at = f"{self._folder}/{log.CHECKPOINTS}"
        if paths := [entry.path for entry in self._objects.list(at)]:
            newest, where = paths[-1], f"{self._objects.url}/{paths[-1]}"
            self.state = log.loads_checkpoint(self._objects.read(newest), newest.rpartition("/")[2], where)
            self.newest = self._load(self.state.number)

    def _load(self, number: int) -> Commit:
        path = f"{self._folder}/{log.path(number)}"
        return log.loads(self._objects.read(path), number, f"{self._objects.url}/{path}")

    def commit(self, commit: Commit) -> None:
        """Create the commit, whose files `publish` makes visible.

        Lost if another lander or a reset was first; Overtaken if that moved no position, or if this isn't a
        landing itself.
        """
        after = replay(self.state, [commit])
        try:
            self._objects.create(f"{self._folder}/{log.path(commit.number)}", log.dumps(commit))
        except Exists:
            if commit.kind != LAND or self._load(commit.number).kind in (COMPACT, REPLAY):
                raise Overtaken(f"Commit {commit.number} of {self.table} was another one's.") from None
            raise self._lost() from None
        self.state, self.newest = after, commit

    def let_go(self, path: str) -> None:
        """Raise Overtaken if the log says that a file was replaced; else Failed: it is missing."""
        if any(file.path == path for file in self.read().files):
            raise Failed(f"{path} of {self.table} was committed and is missing. Run land verify.")
        raise Overtaken(f"Another run that changes {self.table} took the same files.")

    def _lost(self) -> Lost:
        return Lost(
            f"Another lander committed to {self.table} first, or a reset did, so this one did not land what "
            "it had read. Run it again, and let only one at a time land a table."
        )

    def publish(self) -> None:
        """Give the newest commit's files their names, and remove what nobody can commit any more.

        Several may do so at once, for one that was killed, or that is at it still.
        """
        commit = self.newest
        if commit is None:
            return
        try:
            self._exchange(commit)
        except MissingObject:
            # Whoever committed after it has published it before, and may have replaced its files since.
            later = self._objects.list(
                f"{self._folder}/{log.COMMITS}", f"{self._folder}/{log.path(commit.number)}"
            )
            if next(later, None) is None:
                raise
        self._clear(commit.number)
        if commit.number % CHECKPOINT == 0:
            with suppress(Exists):  # it comes to the same, whoever wrote it
                self._objects.create(
                    f"{self._folder}/{log.checkpoint_path(commit.number)}", log.dumps(self.state)
                )
        self._published = commit.number

    def _exchange(self, commit: Commit) -> None:
        # Of what is exchanged readers see too little for a moment, and nothing twice.
        _at_once(lambda path: self._objects.move(*self.hidden(commit, path)), commit.removed)
        _at_once(lambda file: self._objects.move(*self.places(commit, file)), commit.added)

    def _clear(self, number: int) -> None:
        """Remove what was staged for commits up to that one."""
        at = f"{self._folder}/{log.STAGED}"
        for entry in list(self._objects.list(at)):
            if int(entry.path.removeprefix(f"{at}/").partition("/")[0]) <= number:
                self._objects.remove(entry.path)

    def replaced_since(self, number: int) -> dict[str, tuple[str, ...]]:
        """Return where files are that commits after that number removed, by their path."""
        self.read()
        commits = _at_once(self._load, range(number + 1, self.state.number + 1))
        return {path: (self.hidden(commit, path)[1],) for commit in commits for path in commit.removed}

    def positions_after(self, numbers: Iterable[int]) -> dict[int, Positions]:
        """Return the positions that commits ended at, by their numbers."""
        return {commit.number: commit.positions.next for commit in _at_once(self._load, numbers)}

    def places(self, commit: Commit, file: AddedFile) -> tuple[str, str]:
        """Return where a file of a commit is until it is visible, and then."""
        return f"{self._folder}/{file.staged(commit.number)}", self.place(file)

    def hidden(self, commit: Commit, path: str) -> tuple[str, str]:
        """Return where a file is that a commit removes, and then."""
        known, at = self.state.definition, self._folder
        if known and path.endswith(log.BAD):
            at = folder(known.bad)
        elif known and path.endswith(log.LATE):
            at = folder(known.late)
        return f"{at}/{path}", f"{self._folder}/{log.REMOVED}/{commit.number:020d}/{path}"

    def expire(self, before: str) -> int:
        """Remove files that were replaced before that time (ISO 8601); return how many."""
        at = f"{self._folder}/{log.REMOVED}"
        found = [
            (entry.path, int(entry.path.removeprefix(f"{at}/").partition("/")[0]))
            for entry in self._objects.list(at)
        ]
        old = {number for number in {number for _, number in found} if self._load(number).created < before}
        gone = [path for path, number in found if number in old]
        _at_once(self._objects.remove, gone)
        return len(gone)

    def place(self, file: AddedFile) -> str:
        return f"{folder(file.table or self.table)}/{file.path}"


def _at_once(action: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(action, items))
