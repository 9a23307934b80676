"""Files and variables that the tasks of a Spark job need on any host: keys, certificates, credentials.

On another host, a task has the contents in memory, as files without a name (memfd_create(2)). The host needs
none of the files, and none remains on it. A task verifies that a store is the store of the driver: in a
folder, by a file of the driver; in an object store, by the object that identifies the store.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from aqueduct.common import guarded_files
from aqueduct.errors import Failed

# Prefixes of the environment variables of store clients, and the variables whose value is a path.
STORES = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_USER_NAME")
FILES = (
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "SSL_CERT_FILE",
)
# The default files of S3 clients, by the variable that replaces the path.
DEFAULTS = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}

# In the driver:
_named: set[str] = set()  # files that its clients read
_kept: set[str] = set()  # key files that no task needs
_shared: dict[Path, tuple[str, str]] = {}  # folders that tasks use, with the arguments of `share`
_proofs: dict[str, Callable[[], None]] = {}  # checks of object stores, by URL (`prove`)
_defaults: list[dict[str, str]] = []  # at most one: default files before Spark's JVM started
# In the driver, and in the process of a task while the task runs:
_lent: dict[str, bytes] = {}  # secrets without a file, by name
# In the process of a task:
_proven: list[str] = []  # the last job whose object stores were checked
_here: dict[str, tuple[bytes, str]] = {}  # contents of files and their paths in memory, by path at the driver


def remember(path: str) -> None:
    """Add a file that tasks need."""
    _named.add(path)


def keep(path: str | Path) -> None:
    """Add a key file that only this process reads."""
    real = str(path) if str(path).startswith("/proc/") else os.path.realpath(path)
    guarded_files.mark(real, str(path))
    if not real.startswith("/proc/"):  # in memory
        _kept.add(real)


def kept() -> frozenset[str]:
    """Return the key files that only this process reads."""
    return frozenset(_kept)


def share(folder: Path, scratch: str, known_file: str) -> None:
    """Add a folder that tasks use directly, such as a file:// store.

    `scratch`: a folder in it for temporary files. `known_file`: a file in it that identifies the folder.
    """
    _shared[folder] = scratch, known_file


def prove(url: str, proof: Callable[[], None]) -> None:
    """Add an object store that tasks use. `proof` raises Failed if the URL leads to another store."""
    _proofs[url] = proof


def lend(name: str, secret: bytes) -> None:
    """Give tasks a secret that is only in memory and never in a file."""
    _lent[name] = secret


def take_back(name: str) -> None:
    """Stop giving a secret to new tasks."""
    _lent.pop(name, None)


def lent(name: str) -> bytes | None:
    """Return a secret that tasks were given; None if there is none of this name."""
    return _lent.get(name)


def forget() -> None:
    """Forget all that tasks needed, so that the next verb of this process does not send it."""
    for needs in (_named, _kept, _shared, _proofs, _lent, _defaults):
        needs.clear()
    guarded_files.forget()


def path(name: str) -> str:
    """Return the path of a file in this process: in memory if a job sent its content, else unchanged."""
    return _here[name][1] if name in _here else name


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A file by which a task verifies that a folder is the folder of the driver."""

    folder: Path
    path: str
    content: bytes
    own: bool  # whether it was created for this check; it is removed afterwards

    def check(self) -> None:
        """Raise Failed if the file on this host differs from the file of the driver, or cannot be read."""
        host = os.uname().nodename
        try:
            if (self.folder / self.path).read_bytes() == self.content:
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise Failed(
                "store-not-readable-on-worker",
                f"On {host}, user {os.geteuid()} cannot read the file:// store {self.folder}: "
                f"{error.strerror}. Give this user the right to read and write it.",
            ) from None
        raise Failed(
            "store-differs-on-worker",
            f"On {host}, {self.folder} is not the folder of the driver. All hosts of a Spark cluster must "
            "share a file:// store at the same path. Mount it on this host, or use an object store.",
        )


@dataclass(frozen=True, kw_only=True)
class JobFiles:
    """All that tasks need: contents of files by path, variables of store clients, and checks of stores."""

    job: str
    contents: Mapping[str, bytes] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    probes: tuple[Probe, ...]
    proofs: tuple[Callable[[], None], ...] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def unpack(self) -> None:
        """Install files, variables and secrets in this process; Failed if a store is not the driver's."""
        _lent.clear()  # secrets of an earlier job of this process
        _lent.update(self.secrets)
        for name, content in self.contents.items():
            if name not in _here or _here[name][0] != content:
                _here[name] = content, in_memory(content)
        for name, value in self.variables.items():
            os.environ[name] = path(value) if name in FILES else value
        for probe in self.probes:
            probe.check()
        if (
            self.proofs and self.job not in _proven
        ):  # once a job, because each check is a request to the store
            for proof in self.proofs:
                proof()
            _proven[:] = [self.job]


def fix(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Remember the files that tasks need before Spark's JVM starts (`guarded_files.fix`), and return them."""
    if not _defaults:
        _defaults.append(dict(_default_files()))
    names = _named | {environment[name] for name in FILES if name in environment}
    stores = {str(folder / known_file) for folder, (_, known_file) in _shared.items()}
    guarded_files.fix(names | {*_defaults[0].values()} | stores)
    return frozenset(names | {*_defaults[0].values()})


@contextmanager
def packed(environment: Mapping[str, str] = os.environ) -> Iterator[JobFiles]:
    """Yield all that tasks need, as it is now: keys may be renewed while a service runs.

    Spark's JVM may have replaced the files; `guarded_files` makes sure that none of them is a hidden key.
    """
    fix(environment)
    variables = {
        name: value
        for name, value in environment.items()
        if name.startswith(STORES) or name == "SSL_CERT_FILE"
    }
    if any(url.startswith("s3:") for url in _proofs) and "AWS_ACCESS_KEY_ID" not in variables:
        variables = _defaults[0] | variables
    named = _named | {variables[name] for name in FILES if name in variables}
    contents = {name: content for name in sorted(named) if (content := guarded_files.read(name)) is not None}
    probes = tuple(_probe(folder, *names) for folder, names in _shared.items())
    try:
        yield JobFiles(
            job=secrets.token_hex(4),
            contents=contents,
            variables=variables,
            probes=probes,
            proofs=(*_proofs.values(),),
            secrets=dict(_lent),
        )
    finally:
        for probe in probes:
            if probe.own:
                (probe.folder / probe.path).unlink(missing_ok=True)


def lent_alone() -> JobFiles:
    """Return the secrets for tasks on this host, which read all files at their own paths."""
    return JobFiles(job="", contents={}, variables={}, probes=(), secrets=dict(_lent))


def _probe(folder: Path, scratch: str, known_file: str) -> Probe:
    """Create a file that no copy of the folder has. If the folder is not writable, use the known file."""
    own = Probe(
        folder=folder,
        path=f"{scratch}/probe-{secrets.token_hex(8)}",
        content=secrets.token_bytes(16),
        own=True,
    )
    try:
        folder.mkdir(exist_ok=True)
        (folder / scratch).mkdir(exist_ok=True)
        (folder / own.path).write_bytes(own.content)
    except OSError:
        return Probe(folder=folder, path=known_file, content=_content(folder / known_file), own=False)
    return own


def _default_files() -> Iterator[tuple[str, str]]:
    for name, location in DEFAULTS.items():
        with suppress(RuntimeError):  # this user has no home folder
            file = str(Path(location).expanduser())
            if os.access(file, os.R_OK):  # S3 clients also ignore unreadable default files
                yield name, file


def _content(file: Path) -> bytes:
    content = guarded_files.read(str(file))
    if content is None:
        raise Failed(
            "task-file-unreadable",
            f"Cannot read {file}, which Spark tasks need: it does not exist or is not a regular file. Check "
            "the store.",
        )
    return content


def in_memory(content: bytes) -> str:
    """Return the path of a new file in memory. Only processes of this user can open it."""
    descriptor = os.memfd_create("aqueduct", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(content)
    return f"/proc/{os.getpid()}/fd/{descriptor}"  # open until the process ends
