"""Objects as files of HDFS, through hdfs-native: no JVM, no libhdfs.

An object is written to a file with a unique name, and synced (hsync) to the disks of its DataNodes. Then it
is renamed without overwriting. The NameNode decides this, and writes it to its journal before it answers. If
all DataNodes lose power at once, a finished block is safe only with dfs.datanode.synconclose.

HADOOP_CONF_DIR has the NameNodes of a name service. HADOOP_USER_NAME is the user, by default the user of the
process. The library has no timeout, so each request runs in a thread that can be abandoned.
"""

import os
import pwd
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from aqueduct.common import timestamps
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.store.error_messages import NO_ANSWER, DataAway, Trouble, explain_hdfs
from aqueduct.store.objects import (
    STALE_SECONDS,
    WRITING,
    Data,
    Entry,
    Exists,
    MissingObject,
    ObjectTooLarge,
    is_same,
    remove_each,
)
from aqueduct.store.retries import Attempts
from aqueduct.store.url import Location

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus

NAME_SECONDS = 20  # without an answer of a NameNode
DATA_SECONDS = 90  # without an answer of a DataNode; after 60 the library uses other ones
SENT_BYTES = 4 << 20  # at once
CHUNK_BYTES = 8 << 20
# All NameNodes of a name service are tried quickly; Attempts repeats the request.
FAILOVER = {"dfs.client.failover.max.attempts": "4", "dfs.client.failover.sleep.base.millis": "50"}
PAGE_ENTRIES = 1000  # of a folder, in one answer

Replied = TypeVar("Replied")


class Hdfs:
    """The objects below a folder of HDFS."""

    def __init__(self, location: Location) -> None:
        """Send no request yet. Refused if the URL or the settings cannot be used."""
        self.url = str(location)
        self._root = f"/{location.path}".rstrip("/")
        self._authority = f"hdfs://{location.bucket}"
        self._answered = False  # until then, an error comes from the settings
        self._swept = False
        _ = self._client  # to refuse invalid settings at once

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        def read() -> memoryview:
            reader = self._open(path)
            if at_most is not None and len(reader) > at_most:
                raise ObjectTooLarge.of(self.url, path, len(reader), at_most)
            body = bytearray(len(reader))
            for start in range(0, len(body), SENT_BYTES):
                size = min(SENT_BYTES, len(body) - start)
                body[start : start + size] = _data(lambda at=start, size=size: reader.read_range(at, size))  # type: ignore[misc]
            return memoryview(body).toreadonly()

        return self._tried(read, path, "read")

    def stream(self, path: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[memoryview]:
        reader = self._tried(lambda: self._open(path), path, "read")
        offset, whole = 0, len(reader)
        while offset < whole:
            size = min(chunk_bytes, whole - offset)

            def chunk(offset: int = offset, size: int = size) -> bytes:
                return _data(lambda: self._open(path).read_range(offset, size))

            yield memoryview(self._tried(chunk, path, "read"))
            offset += size

    def create(self, path: str, data: Data) -> None:
        def create() -> None:
            self._sweep()
            part = self._at(f"{WRITING}/{secrets.token_hex(12)}")
            try:
                self._write(part, data)
                self._in(path, part, overwrite=False)
            except FileExistsError:
                if not self._same(path, data):
                    raise Exists(f"{self.url} already has {path}, with other content.") from None
            finally:
                with suppress(Exception):  # after the rename it does not exist
                    _named(lambda: self._client.delete(part))

        self._tried(create, path, "write")

    def head(self, path: str) -> int | None:
        def head() -> int | None:
            status = self._status(self._at(path))
            return None if status is None or status.isdir else status.length

        return self._tried(head, path, "read")

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        for status in self._folder(prefix):
            name = self._name(status.path)
            if not status.isdir:
                if after is None or name > after:
                    yield Entry(name, status.length, status.modification_time / 1000)
            elif name != WRITING and (after is None or f"{name}/" > after or after.startswith(f"{name}/")):
                yield from self.list(name, after)

    def move(self, path: str, to: str) -> None:
        def move() -> None:
            try:
                self._in(to, self._at(path), overwrite=True)
            except FileNotFoundError:
                if self._status(self._at(to)) is None:
                    raise MissingObject(f"{self.url} has no object {path}.") from None
            self._leave(path)

        self._tried(move, path, "move")

    def remove(self, path: str) -> None:
        def remove() -> None:
            _named(lambda: self._client.delete(self._at(path)))
            self._leave(path)

        self._tried(remove, path, "remove")

    def remove_many(self, paths: Sequence[str]) -> None:
        remove_each(self.remove, paths)

    @cached_property
    def _client(self) -> "Client":
        from hdfs_native import Client  # slow, and not needed for other stores

        try:
            return Client(self._authority, FAILOVER)
        except (RuntimeError, OSError, ValueError) as error:
            trouble = explain_hdfs(error, "read", _user())
            raise Refused(
                "store-settings-invalid",
                replace(trouble, what=trouble.what.format(path=self._root)).sentence(self.url),
            ) from None

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") or "/"

    def _name(self, full_path: str) -> str:
        return full_path.removeprefix(self._root).lstrip("/")

    def _open(self, path: str) -> "FileReader":
        try:
            return _named(lambda: self._client.read(self._at(path)))
        except FileNotFoundError:
            self._answered = True
            raise MissingObject(f"{self.url} has no object {path}.") from None

    def _status(self, full_path: str) -> "FileStatus | None":
        try:
            return _named(lambda: self._client.get_file_info(full_path))
        except FileNotFoundError:
            return None

    def _folder(self, path: str) -> "Sequence[FileStatus]":
        """Return the entries of a folder, in the order of all paths below it."""

        statuses = self._tried(lambda: self._entries(path), path, "list")
        return sorted(statuses, key=lambda status: f"{status.path}/" if status.isdir else status.path)

    def _entries(self, path: str) -> "Sequence[FileStatus]":
        statuses = []
        try:
            pages = _named(lambda: self._client.list_status(self._at(path)))
            while page := _named(lambda: [*islice(pages, PAGE_ENTRIES)]):
                statuses += page
        except FileNotFoundError:  # it does not exist, or was removed
            return []
        return [status for status in statuses if self._name(status.path) != path]  # of a file: itself

    def _write(self, full_path: str, data: Data) -> None:
        """Write a file. It is on disks on return."""
        from hdfs_native import WriteOptions

        # Not the library's FileWriter: Python would close it and wait for this.
        writer = _named(lambda: self._client.inner.create(full_path, WriteOptions()))
        sent = memoryview(data).cast("B")
        for begin in range(0, len(sent), SENT_BYTES):
            piece = bytes(sent[begin : begin + SENT_BYTES])  # the library copies a view byte by byte
            _data(lambda piece=piece: writer.write(piece))  # type: ignore[misc]
        _data(writer.hsync)
        _data(writer.close)

    def _in(self, path: str, source: str, *, overwrite: bool) -> None:
        """Move a file into a folder, which another process may remove while it is empty.

        FileNotFoundError if the file does not exist.
        """
        target = self._at(path)
        while True:
            try:
                return _named(lambda: self._client.rename(source, target, overwrite))
            except FileNotFoundError:
                if self._status(source) is None:
                    raise
            _named(lambda: self._client.mkdirs(target.rpartition("/")[0] or "/", create_parent=True))

    def _leave(self, path: str) -> None:
        """Remove the folder of a removed object if it is empty, because an object store has no folders."""
        folder = path.rpartition("/")[0]
        if folder:
            with suppress(Exception):  # it is not empty, or another process removed it
                _named(lambda: self._client.delete(self._at(folder)))

    def _same(self, path: str, data: Data) -> bool:
        return self.head(path) == memoryview(data).nbytes and is_same(self, path, data)

    def _sweep(self) -> None:
        """Remove files of killed processes."""
        if self._swept:
            return
        self._swept = True
        old = timestamps.now() - STALE_SECONDS * 1000
        for leftover in self._entries(WRITING):
            if leftover.modification_time < old:
                with suppress(Exception):  # another process removed it
                    _named(lambda leftover=leftover: self._client.delete(leftover.path))  # type: ignore[misc]

    def _tried(self, action: Callable[[], Replied], path: str, verb: str) -> Replied:
        with Attempts(self.url) as attempts:
            while True:
                try:
                    result = action()
                except AqueductError:
                    raise
                except Exception as error:
                    trouble = explain_hdfs(error, verb, _user())
                    self._again(attempts, trouble, path)
                else:
                    self._answered = True
                    return result

    def _again(self, attempts: Attempts, trouble: Trouble, path: str) -> None:
        """Wait for the next attempt, or raise the error."""
        attempts.fail(trouble.what.format(path=path or "/"))
        if trouble.passing and attempts.wait():
            return
        error_class = Refused if trouble.settings and not self._answered else Failed
        waited = f" It was retried for {attempts.seconds:.0f} s." if trouble.passing else ""
        id_ = "store-access-refused" if trouble.settings else "store-request-failed"
        message = replace(trouble, what=trouble.what.format(path=path or "/")).sentence(self.url)
        raise error_class(id_, f"{message}{waited}") from None


def _named(ask: Callable[[], Replied]) -> Replied:
    return _within(NAME_SECONDS, ask)


def _data(ask: Callable[[], Replied]) -> Replied:
    try:
        return _within(DATA_SECONDS, ask)
    except OSError as error:
        raise DataAway(str(error)) from None


def _within(seconds: float, ask: Callable[[], Replied]) -> Replied:
    """Return the answer of a call, or raise its error. TimeoutError if it has none in time."""
    answers: list[Replied] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # the library's panics, too, are no Exceptions
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    if not errors:
        raise TimeoutError(NO_ANSWER)
    if isinstance(errors[0], Exception):
        raise errors[0]
    raise RuntimeError(str(errors[0])) from None


def _user() -> str:
    if name := os.environ.get("HADOOP_USER_NAME"):
        return name
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
