"""A table's log where it is kept: read, commit, and make visible what was committed."""

import hashlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aqueduct.errors import Failed, Refused
from aqueduct.land import log
from aqueduct.land.declaration import LandTable
from aqueduct.land.files import OrcFile
from aqueduct.land.log import AddedFile, Commit, State, replay
from aqueduct.store.objects import EditableObjects, Exists, Objects

AT_ONCE = 16  # objects that are read or moved
OWNER = f"{log.FOLDER}/table.json"  # says whose log a folder's files are in

T = TypeVar("T")
R = TypeVar("R")


class Lost(Failed):
    """The end of a landing whose table another one lands, too."""


def folder(full_name: str) -> str:
    """Return a table's folder below the location, by `database.table`."""
    return full_name.replace(".", "/")


def stage(objects: Objects, table: LandTable, number: int, name: str, file: OrcFile) -> AddedFile:
    """Write a file where no reader looks, for the commit of that number."""
    path = f"{file.folder}/{name}" if file.folder else name
    digest = hashlib.sha256(file.data).hexdigest()
    added = AddedFile(path, file.rows, len(file.data), digest, table.bad if file.bad else None)
    objects.create(f"{folder(table.full_name)}/{added.staged(number)}", file.data)
    return added


class TableLog:
    """The log of one table, as far as it was read."""

    def __init__(self, objects: EditableObjects, table: str) -> None:
        """Read nothing yet of `database.table`."""
        self._objects = objects
        self.table = table
        self._folder = folder(table)
        self.state = State()
        self.newest: Commit | None = None
        self.owned = False

    def own(self, bad: str) -> None:
        """Take the folders of the table and of its bad table; Refused if one has something of others'."""
        content = json.dumps({"table": self.table}).encode()
        for name in (self.table, bad):
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
        known = self.state.number
        self.read()
        if self.state.number > known:
            self.publish()
        return self.state

    def read(self) -> State:
        """Read the commits that are new; Failed if the log is damaged."""
        at = f"{self._folder}/{log.COMMITS}"
        known = f"{self._folder}/{log.path(self.state.number)}" if self.state.number else None
        names = (entry.path.removeprefix(f"{at}/") for entry in self._objects.list(at, known))
        numbers = log.newer(names, self.state.number, f"{self._objects.url}/{at}")
        commits = _at_once(self._load, numbers)
        if commits:
            self.state = replay(self.state, commits)
            self.newest = commits[-1]
        return self.state

    def _load(self, number: int) -> Commit:
        path = f"{self._folder}/{log.path(number)}"
        return log.loads(self._objects.read(path), number, f"{self._objects.url}/{path}")

    def commit(self, commit: Commit) -> None:
        """Create the commit, whose files `publish` makes visible; Lost if another lander was first."""
        after = replay(self.state, [commit])
        try:
            self._objects.create(f"{self._folder}/{log.path(commit.number)}", log.dumps(commit))
        except Exists:
            raise Lost(
                f"Another lander committed {commit.number} of {self.table} first, so this one did not land "
                "what it had read. Run it again, and let only one at a time land a table."
            ) from None
        self.state, self.newest = after, commit

    def publish(self) -> None:
        """Give the newest commit's files their names, and remove what nobody can commit any more."""
        commit = self.newest
        if commit is None:
            return
        _at_once(lambda file: self._objects.move(*self.places(commit, file)), commit.added)
        at = f"{self._folder}/{log.STAGED}"
        for entry in list(self._objects.list(at)):
            if int(entry.path.removeprefix(f"{at}/").partition("/")[0]) <= commit.number:
                self._objects.remove(entry.path)

    def places(self, commit: Commit, file: AddedFile) -> tuple[str, str]:
        """Return where a file of a commit is until it is visible, and then."""
        return f"{self._folder}/{file.staged(commit.number)}", self.place(file)

    def place(self, file: AddedFile) -> str:
        return f"{folder(file.table or self.table)}/{file.path}"


def _at_once(action: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(action, items))
