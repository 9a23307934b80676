"""The interface of an object store. `aqueduct.store.backends` has the real ones."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from aqueduct.errors import Failed

WRITING = ".writing"  # a file system's folder of files that are not whole yet, and of probes
STALE_SECONDS = 7 * 86_400  # after which nobody writes one of them any more, nor needs it
REMOVERS = 16  # objects that are removed at once, where one request removes one

Data = bytes | bytearray | memoryview


class MissingObject(Failed):
    """An object that doesn't exist."""

    id = "object-missing"


class DamagedObject(Failed):
    """Something in an object's place that no writer of the store puts there."""

    id = "object-damaged"


class ObjectTooLarge(DamagedObject):
    """An object that has more bytes than whoever reads it has room for."""

    id = "object-too-large"

    @classmethod
    def of(cls, url: str, path: str, size: int, at_most: int) -> "ObjectTooLarge":
        return cls(f"{url}/{path} is damaged: it has {size:,} bytes, and {at_most:,} at most can be right.")


class Exists(Failed):
    """An object of that name that exists already, with other content."""

    id = "object-exists"


class Entry(NamedTuple):
    path: str
    size: int  # bytes
    written: float  # when it was, or got its name; seconds since 1970, by the store's clock


class Objects(Protocol):
    """Objects by path below one URL. Every method raises an AqueductError that names the URL."""

    @property
    def url(self) -> str:
        """The store's, without secrets."""

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        """Return the whole object; MissingObject if there is none.

        ObjectTooLarge, before it is in memory, if it has more bytes than `at_most`; another DamagedObject if
        it is none, as a pipe in a directory.
        """

    def stream(self, path: str, chunk_bytes: int = ...) -> Iterator[memoryview]:
        """Return the object in chunks of about that size; MissingObject if there is none."""

    def create(self, path: str, data: Data) -> None:
        """Write an object that isn't there yet, whole or not at all; durable on return.

        Exists if there is one with other content. One with the same content counts as created: the answer to
        an earlier attempt may have been lost.
        """

    def head(self, path: str) -> int | None:
        """Return the object's size in bytes, None if there is none."""

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        """Return the objects below a folder, sorted by path.

        Only those whose path is greater than `after`.
        """


class EditableObjects(Objects, Protocol):
    """Objects that get other names, and go."""

    def move(self, path: str, to: str) -> None:
        """Give an object another name, at which readers see it whole; durable on return.

        Nothing is left to do if it has that name already. MissingObject if there is none of either name.
        """

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""

    def remove_many(self, paths: Sequence[str]) -> None:
        """Remove objects, as far as they are there, a thousand or so at once; in no order."""


def is_same(objects: Objects, path: str, content: Data) -> bool:
    """Return whether an object has this content; a larger one is not read. MissingObject without one."""
    try:
        return objects.read(path, at_most=memoryview(content).nbytes) == content
    except DamagedObject:
        return False


def check_listing(objects: Objects) -> None:
    """Raise the error of an endpoint that is not an object store, although it answers a read request.

    Call this before an object is reported as damaged: such an endpoint may answer each request alike, but it
    lists no objects.
    """
    next(objects.list(""), None)


def remove_each(remove: Callable[[str], None], paths: Sequence[str]) -> None:
    """Remove many objects where a request removes one: some at once."""
    with ThreadPoolExecutor(REMOVERS) as pool:
        for _ in pool.map(remove, paths):
            pass
