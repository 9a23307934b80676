"""Counts what a program asks of an object store, and what S3 would charge for it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from aqueduct.store.objects import Data, EditableObjects, Entry, Exists

LIST_KEYS = 1_000  # of one answer to a LIST, and paths of one DeleteObjects

# S3 Standard in us-east-1, of its public price list as it stood in 2025; dollars for 1,000 requests.
# A DELETE is free. What a client in the same region reads costs no transfer.
DOLLARS = {"PUT": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0}
DOLLARS_GB_MONTH = 0.023


@dataclass
class Requests:
    """Requests to S3 by their kind, and the bytes of objects that were read and written."""

    of: Counter[str] = field(default_factory=Counter)
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def dollars(self) -> float:
        return sum(DOLLARS[kind] * count / 1000 for kind, count in self.of.items())


class Counted:
    """Objects, and the requests that the S3 store makes for what is asked of them."""

    def __init__(
        self, objects: EditableObjects, extra: Callable[[str], Iterator[Entry]] = lambda _: iter(())
    ) -> None:
        """`extra` are objects that are only listed: those below a folder, in the order of their paths."""
        self._objects = objects
        self._extra = extra
        self.url = objects.url
        self.requests = Requests()

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        self.requests.of["GET"] += 1
        found = self._objects.read(path, at_most)
        self.requests.read_bytes += len(found)
        return found

    def stream(self, path: str, chunk_bytes: int = 8 << 20) -> Iterator[memoryview]:
        self.requests.of["GET"] += 1
        for chunk in self._objects.stream(path, chunk_bytes):
            self.requests.read_bytes += len(chunk)
            yield chunk

    def create(self, path: str, data: Data) -> None:
        self.requests.of["PUT"] += 1
        try:
            self._objects.create(path, data)
        except Exists:
            self.requests.of["GET"] += 1  # to see whether it is the same
            raise
        self.requests.written_bytes += len(data)

    def head(self, path: str) -> int | None:
        self.requests.of["HEAD"] += 1
        return self._objects.head(path)

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        self.requests.of["LIST"] += 1
        for number, each in enumerate(self._listed(prefix, after)):
            if number and number % LIST_KEYS == 0:
                self.requests.of["LIST"] += 1
            yield each

    def _listed(self, prefix: str, after: str | None) -> Iterator[Entry]:
        yield from self._objects.list(prefix, after)
        yield from (each for each in self._extra(prefix) if after is None or each.path > after)

    def move(self, path: str, to: str) -> None:
        self.requests.of["PUT"] += 1
        self.requests.of["DELETE"] += 1
        self._objects.move(path, to)

    def remove(self, path: str) -> None:
        self.requests.of["DELETE"] += 1
        self._objects.remove(path)

    def remove_many(self, paths: Sequence[str]) -> None:
        self.requests.of["DELETE"] += 1
        self._objects.remove_many(paths)
