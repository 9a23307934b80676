"""Object stores: S3, Google's and Azure's through obstore, HDFS, directories by Python's own means.

Objects are read and created; an editable store also moves and removes them. If two processes create the same
object, a conditional write lets one of them succeed. A created object is durable. Reads and writes are
repeated while a server is unavailable (see Attempts).

S3 is configured as AWS's own tools are (environment, profiles, roles; through boto3, because obstore ignores
AWS_PROFILE), with AWS_CA_BUNDLE or SSL_CERT_FILE for a private CA, HTTPS_PROXY and NO_PROXY, and
AWS_ALLOW_HTTP=true for an endpoint without TLS. Google's and Azure's: by obstore's environment variables
(GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, ...).
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from aqueduct.common import guarded_files, job_files
from aqueduct.common.folder_owners import refuse_root_beside_others
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.store import names
from aqueduct.store.error_messages import Trouble, explain, no_store
from aqueduct.store.hdfs import Hdfs
from aqueduct.store.objects import (
    STALE_SECONDS,
    WRITING,
    DamagedObject,
    Data,
    EditableObjects,
    Entry,
    Exists,
    MissingObject,
    Objects,
    ObjectTooLarge,
    is_same,
    remove_each,
)
from aqueduct.store.retries import Attempts
from aqueduct.store.sessions import new_session
from aqueduct.store.url import Location, parse

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import S3Config

CONNECT_SECONDS = 5
ANSWER_SECONDS = 20  # without an answer; longer for the write of a large object, by
SLOWEST_BYTES = 256 * 1024  # ... this speed, in bytes a second
CREDENTIALS_SECONDS = 600  # botocore renews those that end within 10 minutes
RIGHTS = {  # of a directory
    "read": "read",
    "write": "create files in",
    "list": "list",
    "move": "create and remove files in",
    "remove": "remove files in",
}
CHUNK_BYTES = 8 << 20
OPEN_OBJECT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
Answered = TypeVar("Answered")


def open_store(url: str) -> Objects:
    """Return the store at `s3://bucket/prefix`, `gs://...`, `az://...`, `hdfs://...` or `file:///...`.

    Sends no request yet. Refused if the URL or the settings in the environment cannot be used.
    """
    return open_editable(url)


def open_editable(url: str, *, private: bool = False) -> EditableObjects:
    """Return the store at a URL, whose objects can also be moved and removed.

    `private`: files in a directory are readable for their owner only, with any umask.
    """
    location = parse(url)
    if location.scheme == "file":
        return _Directory(location, private=private)
    if location.scheme == "hdfs":
        return Hdfs(location)
    return _Cloud(location, _connector(location))


class _Cloud:
    def __init__(self, location: Location, connect: "StoreClient") -> None:
        self.url = str(location)
        self._location = location
        self._connect = cache(connect)
        self._store()  # to refuse invalid settings at once
        self._answered = False  # until then, an error comes from the settings

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        def read() -> memoryview:
            answer = self._get(path)
            if at_most is not None and answer.meta["size"] > at_most:
                raise ObjectTooLarge.of(self.url, path, answer.meta["size"], at_most)
            return memoryview(answer.bytes())

        content = self._tried(read, path, "read")
        if path == names.STORE:
            job_files.prove(self.url, _Same(self.url, bytes(content)))
        return content

    def stream(self, path: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[memoryview]:
        received = 0
        with Attempts(self.url) as attempts:
            while True:
                try:
                    answer = self._get(path, {"range": {"offset": received}} if received else None)
                    size = answer.meta["size"]
                    for chunk in answer.stream(chunk_bytes):
                        received += len(chunk)
                        attempts.restart()
                        yield memoryview(chunk)
                    if received == size:
                        return
                    trouble = Trouble(what="ended an answer before its end", passing=True)
                except (BaseError, FileNotFoundError) as error:
                    trouble = self._trouble(error, path, "read")
                self._again(attempts, trouble)

    def create(self, path: str, data: Data) -> None:
        store = self._store(len(data))

        def create() -> None:
            try:
                obstore.put(
                    store, path, data, mode="create", use_multipart=False
                )  # multipart would overwrite
            except (AlreadyExistsError, PermissionDeniedError) as error:
                # versitygw checks object lock before If-None-Match, so it denies the write of an existing
                # object.
                if isinstance(error, PermissionDeniedError) and not self._has(path):
                    raise
                if not is_same(self, path, data):
                    raise Exists(f"{self.url} already has {path}, with other content.") from None

        self._tried(create, path, "write")

    def _has(self, path: str) -> bool:
        """Return whether an object certainly exists."""
        try:
            self._get(path, {"head": True})
        except (BaseError, FileNotFoundError):
            return False
        return True

    def head(self, path: str) -> int | None:
        def head() -> int | None:
            try:
                return self._get(path, {"head": True}).meta["size"]
            except FileNotFoundError:
                if not self._answered:
                    next(self.list(path), None)
                return None
            except BaseError:
                next(self.list(path), None)  # its error has details: the answer to HEAD has no body
                raise

        return self._tried(head, path, "read")

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        empty = after is None
        with Attempts(self.url) as attempts:
            while True:
                try:
                    for page in obstore.list(self._store(), prefix, offset=after, chunk_size=1000):
                        attempts.restart()
                        for meta in page:
                            after, empty = meta["path"], False
                            yield Entry(after, meta["size"], meta["last_modified"].timestamp())
                        attempts.restart()  # the caller may have used the entries for long
                    if empty:
                        self._check_missing()
                    self._answered = True
                    return
                except (BaseError, FileNotFoundError) as error:
                    trouble = self._trouble(error, prefix, "list")
                self._again(attempts, trouble)

    def move(self, path: str, to: str) -> None:
        def copy() -> None:
            try:
                obstore.copy(self._store(), path, to)
            except FileNotFoundError:
                if obstore.head(self._store(), to) is None:
                    raise

        self._tried(copy, path, "move")
        self.remove(path)

    def remove(self, path: str) -> None:
        def remove() -> None:
            with suppress(FileNotFoundError):
                obstore.delete(self._store(), path)

        self._tried(remove, path, "remove")

    def remove_many(self, paths: Sequence[str]) -> None:
        def remove() -> None:
            try:
                obstore.delete(self._store(), paths)  # S3's DeleteObjects, Azure's batches
            except FileNotFoundError as error:  # Google and Azure end at one that is gone
                if "NoSuchBucket" in str(error):
                    raise
                remove_each(self.remove, paths)

        if paths:
            self._tried(remove, paths[0], "remove")

    def _get(self, path: str, options: "GetOptions | None" = None) -> "GetResult":
        """Request an object. Raise an error for a web page, which Aqueduct never writes.

        An answer without an ETag may be an object: gateways send none for files that others have written.
        """
        answer = obstore.get(self._store(), path, options=options)
        if str(answer.attributes.get("Content-Type", "")).lower().startswith("text/html"):
            raise self._error(no_store(self._location, "it answers with a web page"))
        return answer

    def _check_missing(self) -> None:
        """Raise an error if an object with a random name exists: then the endpoint is not an object store.

        Web consoles answer each request with the same page, and the client parses it as an empty listing.
        """
        with suppress(FileNotFoundError, PermissionDeniedError, UnauthenticatedError):
            self._get(f"{WRITING}/{secrets.token_hex(12)}", {"head": True})
            raise self._error(no_store(self._location, "it sends the same answer to every request"))

    def _store(self, sent_bytes: int = 0) -> ObjectStore:
        """Return a client with a timeout that is long enough for an object of this size."""
        return self._connect(ANSWER_SECONDS << (sent_bytes // SLOWEST_BYTES // ANSWER_SECONDS).bit_length())

    def _tried(self, action: Callable[[], Answered], path: str, verb: str) -> Answered:
        with Attempts(self.url) as attempts:
            while True:
                try:
                    result = action()
                except (BaseError, FileNotFoundError) as error:
                    self._again(attempts, self._trouble(error, path, verb))
                else:
                    self._answered = True
                    return result

    def _trouble(self, error: Exception, path: str, action: str) -> Trouble:
        """Return the trouble of an error. MissingObject if only the object is missing."""
        text = str(error)
        if isinstance(error, FileNotFoundError) and action in ("read", "move") and "NoSuchBucket" not in text:
            self._answered = True
            raise MissingObject(f"{self.url} has no object {path}.") from None
        return explain(text, self._location, action)

    def _again(self, attempts: "Attempts", trouble: Trouble) -> None:
        """Wait for the next attempt, or raise the error."""
        attempts.fail(trouble.what)
        if not trouble.passing or not attempts.wait():
            raise self._error(trouble) from None

    def _error(self, trouble: Trouble) -> AqueductError:
        is_refused = trouble.lacking or (trouble.settings and not self._answered)
        error_class = Refused if is_refused else Failed
        id_ = "store-access-refused" if trouble.settings else "store-request-failed"
        if trouble.id:
            id_ = trouble.id
        return error_class(id_, trouble.sentence(self.url))


@dataclass(frozen=True)
class _Same:
    """The check that a URL leads to the same store on another host, whose endpoint may differ."""

    url: str
    content: bytes  # of store.json

    def __call__(self) -> None:
        host = os.uname().nodename
        try:
            same = is_same(open_store(self.url), names.STORE, self.content)
        except MissingObject:
            raise Failed(
                "store-differs-on-worker",
                f"On {host}, {self.url} has no {names.STORE}. The URL leads to another store there, or the "
                "object was removed. Check the endpoint on that host.",
            ) from None
        except AqueductError as error:
            raise Failed(error.id, f"On {host}: {error}") from None
        if not same:
            raise Failed(
                "store-differs-on-worker",
                f"On {host}, {self.url} leads to another store than on the host of the driver. Set "
                "AWS_ENDPOINT_URL for the driver: its tasks get the variables of the driver.",
            )


StoreClient = Callable[[int], ObjectStore]  # a client that waits so many seconds for an answer


def _connector(location: Location) -> StoreClient:
    if location.scheme == "s3":
        return _s3(location)
    kind: Any = GCSStore if location.scheme == "gs" else AzureStore

    def connect(seconds: int) -> ObjectStore:
        return _created_client(
            location,
            lambda: kind(location.bucket, prefix=location.path or None, **_options(location, seconds)),
        )

    return connect


def _s3(location: Location) -> StoreClient:
    # Imported here, because it takes half a second, and other stores do not need it. A client of botocore
    # would find the endpoint, too, but needs 13 MB.
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = new_session()
        # botocore itself reads only AWS_DEFAULT_REGION.
        region = os.environ.get("AWS_REGION") or session.get_config_variable("region") or "us-east-1"
        endpoint = None
        if not session.get_config_variable("ignore_configured_endpoint_urls"):
            scoped = session.get_scoped_config()
            endpoint = ConfiguredEndpointProvider(session.full_config, scoped, "s3").provide()
        if session.get_credentials() is None:
            raise Refused(
                "store-credentials-missing",
                f"No credentials for {location} were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "or AWS_PROFILE.",
            )
        credentials = Boto3CredentialProvider(session, ttl=timedelta(seconds=CREDENTIALS_SECONDS))
    except (BotoCoreError, ValueError) as error:
        raise Refused(
            "store-settings-invalid",
            f"Cannot use the settings for {location}: {str(error).rstrip('.')}. Correct the settings.",
        ) from None
    # S3 requires a checksum of locked objects. SHA-256 is computed for the signature anyway.
    config: S3Config = {"region": region, "checksum_algorithm": "SHA256"}
    if endpoint:
        config["endpoint"] = _endpoint(endpoint)

    def connect(seconds: int) -> ObjectStore:
        return _created_client(
            location,
            lambda: S3Store(
                location.bucket,
                prefix=location.path or None,
                config=config,
                credential_provider=credentials,
                **_options(location, seconds),
            ),
        )

    return connect


def _endpoint(url: str) -> str:
    """Check an endpoint. Refused for a URL with which obstore would crash."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url
    except ValueError:  # of the port
        pass
    raise Refused(
        "store-settings-invalid",
        "The endpoint of the store is not http[s]://HOST:PORT. Correct AWS_ENDPOINT_URL, or endpoint_url of "
        "the AWS profile.",
    )


def _created_client(location: Location, make: Callable[[], ObjectStore]) -> ObjectStore:
    try:
        return make()
    except (BaseError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise Refused(
            "store-settings-invalid",
            f"Cannot use the settings for {location}: {reason.rstrip('.')}. Correct the settings.",
        ) from None


def _options(location: Location, seconds: int) -> dict[str, Any]:
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=seconds),
        "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes"),
    }
    bundle = os.environ.get("AWS_CA_BUNDLE")
    if bundle and location.scheme == "s3":
        try:
            client["root_certificate"] = Path(bundle).read_bytes()
        except OSError as error:
            raise Refused(
                "store-settings-invalid",
                f"Cannot read {bundle} of AWS_CA_BUNDLE: {error.strerror}. Correct the path or its "
                "permissions.",
            ) from None
    return {"client_options": client, "retry_config": {"max_retries": 0}}  # Attempts repeats requests


class _Directory:
    """Objects as files. A synced file gets its name by a hard link, so an object is always complete."""

    def __init__(self, location: Location, *, private: bool) -> None:
        self.url = str(location)
        self._file_mode, self._folder_mode = (0o600, 0o700) if private else (0o666, 0o777)
        self._root = Path(location.path)
        self._synced: set[Path] = set()  # folders whose names are durable
        self._swept = False
        self._own: set[Path] = set()  # folders that nobody else can change, if this is root
        job_files.share(self._root, WRITING, names.STORE)

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        with self._sentences(path, "read"), self._opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if at_most is not None and size > at_most:
                raise ObjectTooLarge.of(self.url, path, size, at_most)
            content = file.read(size + 1)
        if len(content) > size:
            raise DamagedObject(f"{self.url}/{path} is damaged: its size changed while it was read.")
        return memoryview(content)

    def stream(self, path: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[memoryview]:
        with self._sentences(path, "read"), self._opened(path) as file:
            while chunk := file.read(chunk_bytes):
                yield memoryview(chunk)

    @contextmanager
    def _opened(self, path: str) -> Iterator[BinaryIO]:
        """Open an object. DamagedObject if it is not a regular file, such as a planted link or pipe.

        Failed if Spark's JVM, which can write here, has put a key file of this process there.
        """
        try:
            descriptor = os.open(self._root / path, OPEN_OBJECT)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, a socket
                raise
            with suppress(OSError):  # of a link, where it leads
                guarded_files.refuse_key(str(self._root / path), (self._root / path).stat())
            raise self._no_file(path) from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise self._no_file(path)
        with os.fdopen(descriptor, "rb") as file:
            guarded_files.refuse_key(str(self._root / path), status)
            yield file

    def _no_file(self, path: str) -> DamagedObject:
        return DamagedObject(f"{self.url}/{path} is damaged: it is not a regular file.")

    def create(self, path: str, data: Data) -> None:
        target = self._root / path
        with self._sentences(path, "write"):
            if not self._root.parent.is_dir():
                raise Refused(
                    "store-directory-missing",
                    f"Cannot create the store {self.url}, because {self._root.parent} does not exist. Create "
                    "this folder, or correct the URL.",
                )
            writing = self._root / WRITING
            self._refuse_root(writing, target.parent)
            for folder in (self._root, writing):  # mkdir ignores the mode for parents
                folder.mkdir(self._folder_mode, exist_ok=True)
            if not self._swept:
                self._swept = True
                _sweep(writing)
            part = writing / secrets.token_hex(12)
            try:
                part.touch(self._file_mode, exist_ok=False)
                with part.open("r+b") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                self._in(target.parent, lambda: os.link(part, target), part)
            except FileExistsError:
                if not is_same(self, path, data):
                    raise Exists(f"{self.url} already has {path}, with other content.") from None
            finally:
                part.unlink(missing_ok=True)
            self._sync(target.parent)

    def head(self, path: str) -> int | None:
        with self._sentences(path, "read"):
            try:
                return (self._root / path).lstat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        """Yield the objects below a folder. Only the folders of one path are in memory."""
        with self._sentences(prefix, "list"):
            folders = [iter(self._folder(prefix))]  # no recursion: folders may have any depth
            while folders:
                name, dir_entry = next(folders[-1], ("", None))
                if dir_entry is None:
                    folders.pop()
                elif not dir_entry.is_dir(follow_symlinks=False):
                    if after is None or name > after:
                        try:
                            status = dir_entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue  # it was moved or deleted meanwhile
                        yield Entry(name, status.st_size, status.st_mtime)
                elif name != WRITING and (
                    after is None or f"{name}/" > after or after.startswith(f"{name}/")
                ):
                    folders.append(iter(self._folder(name)))

    def _folder(self, prefix: str) -> "Sequence[tuple[str, os.DirEntry[str]]]":
        """Return the entries of a folder, in the order of all paths below it."""
        try:
            with os.scandir(self._root / prefix) as listing:
                named = [
                    (f"{prefix.rstrip('/')}/{dir_entry.name}".lstrip("/"), dir_entry)
                    for dir_entry in listing
                    if not (dir_entry.is_symlink() and dir_entry.is_dir())
                ]
        except (FileNotFoundError, NotADirectoryError):  # it does not exist, or was removed
            return []
        return sorted(
            named,
            key=lambda named_entry: (
                f"{named_entry[0]}/" if named_entry[1].is_dir(follow_symlinks=False) else named_entry[0]
            ),
        )

    def move(self, path: str, to: str) -> None:
        source, target = self._root / path, self._root / to
        with self._sentences(path, "move"):
            self._refuse_root(source.parent, target.parent)
            try:
                self._in(target.parent, lambda: source.rename(target), source)
            except FileNotFoundError:
                if not target.exists():
                    raise MissingObject(f"{self.url} has no object {path}.") from None
            self._sync(target.parent)
            with suppress(FileNotFoundError):  # the process that moved its last file removed it
                _fsync(source.parent)
            self._leave(source.parent)

    def remove(self, path: str) -> None:
        with self._sentences(path, "remove"):
            self._refuse_root((self._root / path).parent)
            (self._root / path).unlink(missing_ok=True)
            self._leave((self._root / path).parent)

    def remove_many(self, paths: Sequence[str]) -> None:
        remove_each(self.remove, paths)

    def _refuse_root(self, *folders: Path) -> None:
        """Refuse to write as root where another user could lead root elsewhere with a link."""
        for folder in (self._root, *folders):
            if folder not in self._own:
                refuse_root_beside_others(folder)
                self._own.add(folder)

    def _in(self, folder: Path, action: Callable[[], object], source: Path) -> None:
        """Move a file into a folder, which another process may remove while it is empty."""
        while True:
            if not folder.is_dir():
                self._synced.discard(folder)
                with suppress(FileExistsError):  # another process created it, and may remove it again
                    folder.mkdir(self._folder_mode, parents=True)
            try:
                action()
            except FileNotFoundError:
                if not source.exists() or folder.is_file() or folder.is_symlink():
                    raise
            else:
                return

    def _leave(self, folder: Path) -> None:
        """Remove an empty folder, because an object store has no folders."""
        with suppress(OSError):  # it is not empty, or another process removed it
            if folder != self._root:
                folder.rmdir()

    def _sync(self, folder: Path) -> None:
        """Make the names in a folder durable, and the names of the folders above it."""
        with suppress(FileNotFoundError):  # another one removed the object since, and then the folder
            _fsync(folder)
            while folder != self._root.parent and folder not in self._synced:
                _fsync(folder.parent)
                self._synced.add(folder)
                folder = folder.parent

    @contextmanager
    def _sentences(self, path: str, action: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            if action == "read":
                raise MissingObject(f"{self.url} has no object {path}.") from None
            self._fail(path, action, error)
        except OSError as error:
            self._fail(path, action, error)

    def _fail(self, path: str, action: str, error: OSError) -> NoReturn:
        right = f"Give user {os.geteuid()} the right to {RIGHTS[action]} {self._root} and the folders below."
        room = "Free space on its disk."
        remedy = {
            errno.ENOSPC: room,
            errno.EDQUOT: room,
            errno.EROFS: "Mount its disk writable.",
            errno.EACCES: right,
            errno.EPERM: right,
        }.get(error.errno or 0, "Correct the cause, and run the command again.")
        reason = error.strerror or str(error)
        raise Failed(
            "store-request-failed",
            f"Cannot {action} {path or '/'} in the store {self.url}: {reason}. {remedy}",
        ) from None


def _sweep(writing: Path) -> None:
    """Remove files of killed processes."""
    for path in writing.iterdir():
        with suppress(OSError):  # another process removed it
            if path.lstat().st_mtime < time.time() - STALE_SECONDS:
                path.unlink()


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
