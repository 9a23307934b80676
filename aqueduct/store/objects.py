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
    """The error of an object that does not exist."""

    id = "object-missing"


class DamagedObject(Failed):
    """The error of an object that no writer of the store creates."""

    id = "object-damaged"


class ObjectTooLarge(DamagedObject):
    """The error of an object that is larger than its reader accepts."""

    id = "object-too-large"

    @classmethod
    def of(cls, url: str, path: str, size: int, at_most: int) -> "ObjectTooLarge":
        return cls(f"{url}/{path} is damaged: it has {size:,} bytes, but at most {at_most:,} are valid.")


class Exists(Failed):
    """The error of an object that already exists with other content."""

    id = "object-exists"


class Entry(NamedTuple):
    path: str
    size: int  # bytes
    written: float  # the store's time of its writing or renaming, in seconds since 1970


class Objects(Protocol):
    """Objects by path below one URL. Errors are AqueductErrors with the URL."""

    @property
    def url(self) -> str:
        """The URL of the store, without secrets."""

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        """Return the whole object; MissingObject if there is none.

        ObjectTooLarge, without reading it, if it has more bytes than `at_most`. Another DamagedObject if it
        is not an object, such as a pipe in a directory.
        """

    def stream(self, path: str, chunk_bytes: int = ...) -> Iterator[memoryview]:
        """Return the object in chunks of about that size; MissingObject if there is none."""

    def create(self, path: str, data: Data) -> None:
        """Create an object atomically; it is durable on return.

        Exists if it exists with other content. With the same content, it counts as created: the answer to an
        earlier attempt may have been lost.
        """

    def head(self, path: str) -> int | None:
        """Return the object's size in bytes, None if there is none."""

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        """Return the objects below a folder, sorted by path.

        Only those whose path is greater than `after`.
        """


class EditableObjects(Objects, Protocol):
    """Objects that can also be moved and removed."""

    def move(self, path: str, to: str) -> None:
        """Rename an object atomically; durable on return.

        Does nothing if the object has the new name already. MissingObject if neither name exists.
        """

    def remove(self, path: str) -> None:
        """Remove an object, if it exists."""

    def remove_many(self, paths: Sequence[str]) -> None:
        """Remove objects that exist, about a thousand at once, in no order."""


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
    """Remove objects in parallel, one with each request."""
    with ThreadPoolExecutor(REMOVERS) as pool:
        for _ in pool.map(remove, paths):
            pass
