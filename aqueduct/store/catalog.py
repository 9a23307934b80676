"""The manifests of a store: reading them, and adding the next one."""

import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from aqueduct.errors import Failed, Refused
from aqueduct.store import manifest, names, strict_json
from aqueduct.store.manifest import Chain, Manifest
from aqueduct.store.objects import Exists, Missing, Objects
from aqueduct.store.snapshots import Fold, Snapshot, Summary, follow, full_due

READERS = 16  # manifests that are read at once


@dataclass(frozen=True)
class Parent:
    """What the next snapshot follows: the newest manifest, and its object's size."""

    manifest: Manifest | None  # None: the store has none yet
    stored_bytes: int

    def follow(self) -> Chain:
        """Where the next manifest stands."""
        return follow(self.manifest, self.stored_bytes)


class Catalog:
    """A store that is one; threads may share it."""

    def __init__(self, objects: Objects, identity: str) -> None:
        self._objects = objects
        self.id = identity

    @classmethod
    def open(cls, objects: Objects) -> "Catalog":
        """Refused if there is no store, or one of a newer format."""
        try:
            return cls(objects, _identity(objects))
        except Missing:
            raise Refused(f"There is no backup in {objects.url}: {names.STORE} is missing.") from None

    @classmethod
    def open_or_make(cls, objects: Objects) -> "Catalog":
        """The store, made if nothing is there.

        Refused where a conditional write overwrites (a server without If-None-Match): two backups at once
        would then destroy each other's snapshots. Found by writing store.json again in another form.
        """
        try:
            identity = _identity(objects)
        except Missing:
            with suppress(Exists):  # another run was faster
                objects.create(names.STORE, _store_json(secrets.token_hex(8)))
            identity = _identity(objects)
        try:
            objects.create(names.STORE, _store_json(identity) + b"\n")
        except Exists:
            return cls(objects, identity)
        raise Refused(
            f"The store {objects.url} overwrites where it is told not to (If-None-Match): take another."
        )

    def numbers(self) -> list[int]:
        """Of every snapshot, ascending."""
        found = (names.snapshot_number(each.path) for each in self._objects.list(names.SNAPSHOTS))
        return sorted(number for number in found if number is not None)

    def parent(self) -> Parent:
        """What the next snapshot follows; nothing else needs to be read for it."""
        numbers = self.numbers()
        return Parent(*self._read(numbers[-1])) if numbers else Parent(None, 0)

    def manifest(self, number: int) -> Manifest:
        return self._read(number)[0]

    def snapshot(self, number: int | None = None) -> Snapshot:
        """The snapshot of that number, or the newest. Refused if there is none."""
        if number is None:
            numbers = self.numbers()
            if not numbers:
                raise Refused(f"There is no snapshot in {self._objects.url} yet.")
            number = numbers[-1]
        try:
            newest = self.manifest(number)
        except Missing:
            raise Refused(f"There is no snapshot {number} in {self._objects.url}.") from None
        return self._fold(newest).snapshot()

    def commit(self, increment: Manifest) -> Manifest:
        """Makes the next snapshot. Returns what was written: the increment, or a full manifest if one is due.

        Exists if another run has committed that number meanwhile.
        """
        written = self._fold(increment).snapshot().full() if full_due(increment) else increment
        self._objects.create(names.snapshot(written.number), manifest.pack(written))
        return written

    def summaries(self) -> Iterator[Summary]:
        """Of every snapshot, oldest first; reads every manifest."""
        fold = Fold()
        for each in self._read_all(self.numbers()):
            fold.add(each)
            yield fold.summary()

    def _fold(self, newest: Manifest) -> Fold:
        fold = Fold()
        try:
            for each in self._read_all(range(newest.chain.base, newest.number)):
                fold.add(each)
        except Missing as error:
            raise Failed(f"Snapshot {newest.number} is damaged: {error}") from None
        fold.add(newest)
        return fold

    def _read_all(self, numbers: Iterable[int]) -> Iterator[Manifest]:
        """In their order; a few ahead of the one that is used, never all."""
        wanted = list(numbers)
        with ThreadPoolExecutor(READERS) as pool:
            for at in range(0, len(wanted), READERS):
                some = wanted[at : at + READERS]
                # Threads wait for the store; to unpack in them as well would only cost memory.
                for number, data in zip(some, pool.map(self._data, some), strict=True):
                    yield self._unpack(number, data)

    def _read(self, number: int) -> tuple[Manifest, int]:
        data = self._data(number)
        return self._unpack(number, data), len(data)

    def _data(self, number: int) -> memoryview:
        return self._objects.read(names.snapshot(number))

    def _unpack(self, number: int, data: memoryview) -> Manifest:
        where = f"{self._objects.url}/{names.snapshot(number)}"
        found = manifest.unpack(data, where)
        if found.number != number:
            raise Failed(f"{where} is damaged: it says that it is snapshot {found.number}.")
        return found


@dataclass(frozen=True)
class _Store:
    id: str


def _store_json(identity: str) -> bytes:
    return strict_json.dumps({"format": manifest.FORMAT, "id": identity})


def _identity(objects: Objects) -> str:
    data, where = objects.read(names.STORE), f"{objects.url}/{names.STORE}"
    try:
        content = strict_json.parse(data)
        manifest.check_format(content, where)
        return strict_json.build(_Store, content).id
    except strict_json.Unreadable as error:
        raise Failed(f"{where} is damaged: {error}.") from None
