"""Files and variables that a job's tasks need wherever they run: keys, certificates, a store's credentials.

A task on another host has their contents in memory, as files without a name (memfd_create(2)): nothing has
to exist there, and nothing is left behind. A store in a folder is proven to be the driver's by a file in it,
an object store by the object that says which one it is.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from aqueduct.common import guarded_files
from aqueduct.errors import Failed

# Variables of object stores' clients, and those of them that name a file.
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
# Where the clients of S3 look if these variables name nothing.
DEFAULTS = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}

_named: set[str] = set()  # in the driver: files that its clients read
_kept: set[str] = set()  # in the driver: files of keys that no task needs
_shared: dict[Path, tuple[str, str]] = {}  # in the driver: folders that tasks use, as `share` was told
_proofs: dict[str, Callable[[], None]] = {}  # in the driver: of object stores, as `prove` was told
_lent: dict[str, bytes] = {}  # in the driver, and while a task runs in its process: secrets without a file
_defaults: list[dict[str, str]] = []  # in the driver: one, as it was before Spark's JVM started
_proven: list[str] = []  # in a task's process: the last job
_here: dict[str, tuple[bytes, str]] = {}  # in a task's process: of each path its contents, and where they are


def remember(path: str) -> None:
    """Keep in mind that tasks need this file."""
    _named.add(path)


def keep(path: str | Path) -> None:
    """Keep in mind that this file holds a key, and that this process alone reads it."""
    real = str(path) if str(path).startswith("/proc/") else os.path.realpath(path)
    guarded_files.mark(real, str(path))
    if not real.startswith("/proc/"):  # in memory
        _kept.add(real)


def kept() -> frozenset[str]:
    """Return the files of keys that this process alone reads."""
    return frozenset(_kept)


def share(folder: Path, scratch: str, known_file: str) -> None:
    """Keep in mind that tasks use this folder itself.

    `scratch` is a folder in it for files that are nobody's, `known_file` one that no other such folder has.
    """
    _shared[folder] = scratch, known_file


def prove(url: str, proof: Callable[[], None]) -> None:
    """Keep in mind that tasks use this object store; `proof` is Failed where it is another one."""
    _proofs[url] = proof


def lend(name: str, secret: bytes) -> None:
    """Lend tasks a secret that is in no file, and only ever in memory."""
    _lent[name] = secret


def take_back(name: str) -> None:
    """Lend tasks that come from now on this secret no more."""
    _lent.pop(name, None)


def lent(name: str) -> bytes | None:
    """Return a secret that was lent, None if none was."""
    return _lent.get(name)


def forget() -> None:
    """Forget what tasks needed: another verb of this process may need nothing of it."""
    for needs in (_named, _kept, _shared, _proofs, _lent, _defaults):
        needs.clear()
    guarded_files.forget()


def path(name: str) -> str:
    """Return where a file is in this process: at its own path, unless a job brought its contents."""
    return _here[name][1] if name in _here else name


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A file by which a task knows a folder for the driver's."""

    folder: Path
    path: str
    content: bytes
    own: bool  # made for this, and removed at the end

    def check(self) -> None:
        """Check that this host's file is the driver's; Failed if it isn't, or can't be read."""
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
    """What tasks need: the contents of files by path, object stores' variables, and what proves stores."""

    job: str
    contents: Mapping[str, bytes] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    probes: tuple[Probe, ...]
    proofs: tuple[Callable[[], None], ...] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def unpack(self) -> None:
        """Have them in this process; Failed if this host hasn't the driver's stores."""
        _lent.clear()  # a process has many jobs, and what one had is no other's
        _lent.update(self.secrets)
        for name, content in self.contents.items():
            if name not in _here or _here[name][0] != content:
                _here[name] = content, in_memory(content)
        for name, value in self.variables.items():
            os.environ[name] = path(value) if name in FILES else value
        for probe in self.probes:
            probe.check()
        if self.proofs and self.job not in _proven:  # which asks the store's server
            for proof in self.proofs:
                proof()
            _proven[:] = [self.job]


def fix(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Fix the files that tasks need, before Spark's JVM starts, and return them."""
    if not _defaults:
        _defaults.append(dict(_default_files()))
    names = _named | {environment[name] for name in FILES if name in environment}
    stores = {str(folder / known_file) for folder, (_, known_file) in _shared.items()}
    guarded_files.fix(names | {*_defaults[0].values()} | stores)
    return frozenset(names | {*_defaults[0].values()})


@contextmanager
def packed(environment: Mapping[str, str] = os.environ) -> Iterator[JobFiles]:
    """Yield what tasks need as it is now: keys are renewed while a service runs.

    Spark's JVM runs meanwhile, and may replace the files: `guarded_files` keeps hidden keys out of them.
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
    """Return what tasks on this host need: they find all else where it is."""
    return JobFiles(job="", contents={}, variables={}, probes=(), secrets=dict(_lent))


def _probe(folder: Path, scratch: str, known_file: str) -> Probe:
    """Make a file that no copy of the folder has; take the known one where nothing can be written."""
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
        with suppress(RuntimeError):  # this user has no home
            file = str(Path(location).expanduser())
            if os.access(file, os.R_OK):  # S3's clients do without a file that they can't read, too
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
    """Return the path of a new file in memory, which only processes of this user can open."""
    descriptor = os.memfd_create("aqueduct", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(content)
    return f"/proc/{os.getpid()}/fd/{descriptor}"  # stays open for as long as the process
