"""The data keys of a store, each wrapped (HPKE) for those who may open what it encrypts.

    keys/<id>.<number>.json      one key; a higher number wraps the same key for others

A run has two: one of records, wrapped for the recipients alone, and one of its manifest, wrapped for the
backup host as well, since the next run must read what it follows. A key's id is a digest of it: no planted
object can pass off another key. Tasks are lent records' keys, in memory: no private key leaves the driver.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from aqueduct import job_files, strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.store import encryption, names
from aqueduct.store.encryption import DataKey, DataKind
from aqueduct.store.objects import MissingObject, Objects, ObjectTooLarge
from aqueduct.wording import some

# What needs it imports cryptography: a store without encryption need not wait for it.
if TYPE_CHECKING:
    from aqueduct.keys import ReceiverKey, ReceiverPublicKey

MOST_BYTES = 1 << 20  # of a key's object
READERS = 16  # objects that are read, or written, at once
_INFO = b"aqueduct data key\0"
_LENT = "data key of records "


class Locked(Refused):
    """A refusal of what is encrypted for others than the keys that are here."""

    id = "decryption-key-missing"


class WrappedKey(NamedTuple):
    recipient: str  # fingerprint
    sealed: str  # base64


@dataclass(frozen=True)
class _KeyObject:
    format: int
    kind: str
    wrapped: tuple[WrappedKey, ...]


class Keyring:
    """The wrapped keys of a store, and the private keys that may open some; threads may share it."""

    def __init__(self, objects: Objects, private: Sequence["ReceiverKey"] = ()) -> None:
        self._objects = objects
        self._private = {key.public.fingerprint.hex(): key for key in private}
        self._numbers: dict[str, list[int]] = {}

    def create(self, kind: DataKind, recipients: Sequence["ReceiverPublicKey"]) -> DataKey:
        """Make a key, and store it for the recipients."""
        key = DataKey.generate(kind)
        self._store(key, recipients, 1)
        return key

    def opened(self, path: str, data: memoryview) -> memoryview:
        """Decrypt a manifest; Locked without a key to it, Failed if it or its key is damaged."""
        key = self.open(str(encryption.key_id(data)), DataKind.MANIFEST, f"{self._objects.url}/{path}")
        return encryption.decrypt(key, path, data, self._objects.url)

    def open(self, key: str, kind: DataKind, what: str) -> DataKey:
        """Return the key of that id; Locked, with `what` it encrypts, unless a private key opens it."""
        recipients: dict[str, None] = {}
        damaged = ""
        for number in self._found(key):
            path = names.key(key, number)
            try:
                found = self._read(path)
            except Failed as error:
                damaged = str(error)
                continue
            recipients |= dict.fromkeys(each.recipient for each in found.wrapped)
            for each in found.wrapped:
                if each.recipient in self._private:
                    opened = self._unwrap(key, kind, each)
                    if opened:
                        return opened
                    damaged = f"{self._objects.url}/{path} is damaged: what it wraps isn't the key {key}."
        if damaged:
            raise Failed("object-damaged", damaged)
        if not recipients:
            raise Failed(
                "object-missing", f"{self._objects.url} has lost {names.key(key, 1)}, the key of {what}."
            )
        given = f"{some(self._private)} is none of them" if self._private else "no private key is given"
        raise Locked(
            f"{what} is encrypted for {some(recipients)}, and {given}: name the file of one that is, with "
            "--private-key."
        )

    def lend(self, runs: Iterable[str], what: str) -> None:
        """Lend tasks the keys of these runs' records, till the verb ends; Locked without one of them."""
        with ThreadPoolExecutor(READERS) as pool:
            for key in pool.map(lambda run: self.open(run, DataKind.RECORDS, what), sorted(set(runs))):
                job_files.lend(_LENT + key.id, key.secret)

    def rewrap(
        self, recipients: Sequence["ReceiverPublicKey"], hosts: Sequence["ReceiverPublicKey"]
    ) -> tuple[int, int]:
        """Wrap every key for these recipients, and manifests' for `hosts`; how many, and of how many.

        All are opened before the first is written. What is wrapped for just these stays as it is.
        """
        every = sorted(self._listed())
        with ThreadPoolExecutor(READERS) as pool:
            due = list(filter(None, pool.map(lambda key: self._due(key, recipients, hosts), every)))
            for _ in pool.map(lambda write: write(), due):
                pass
        return len(due), len(every)

    def _due(
        self, key: str, recipients: Sequence["ReceiverPublicKey"], hosts: Sequence["ReceiverPublicKey"]
    ) -> Callable[[], None] | None:
        newest = self._found(key)[0]
        now = self._read(names.key(key, newest))
        kind = DataKind(now.kind)
        wanted = [*recipients, *(hosts if kind is DataKind.MANIFEST else ())]
        if {each.recipient for each in now.wrapped} == {each.fingerprint.hex() for each in wanted}:
            return None
        opened = self.open(key, kind, f"The key {key} of {self._objects.url}")
        return lambda: self._store(opened, wanted, newest + 1)

    def _store(self, key: DataKey, recipients: Sequence["ReceiverPublicKey"], number: int) -> None:
        public = {each.fingerprint.hex(): each for each in recipients}
        wrapped = tuple(
            WrappedKey(name, base64.b64encode(each.seal(key.secret, _info(key.kind, key.id))).decode())
            for name, each in public.items()
        )
        data = strict_json.dumps(_KeyObject(1, key.kind, wrapped))
        self._objects.create(names.key(key.id, number), data)

    def _unwrap(self, key: str, kind: DataKind, wrapped: WrappedKey) -> DataKey | None:
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.b64decode(wrapped.sealed, validate=True)
            secret = self._private[wrapped.recipient].open(sealed, _info(kind, key))
        except (InvalidTag, ValueError, binascii.Error):
            return None
        found = DataKey(kind, secret)
        return found if found.id == key else None

    def _read(self, path: str) -> _KeyObject:
        where = f"{self._objects.url}/{path}"
        try:
            found = strict_json.loads(_KeyObject, self._objects.read(path, at_most=MOST_BYTES))
            DataKind(found.kind)
        except (MissingObject, ObjectTooLarge):
            raise
        except ValueError as error:
            raise Failed("object-damaged", f"{where} is damaged: {error}.") from None
        if found.format != 1:
            raise Failed(
                "store-format-unsupported",
                f"{where} has format {found.format}, this program knows 1: update Aqueduct.",
            )
        return found

    def _found(self, key: str) -> list[int]:
        """Return the numbers under which a key is stored, the highest first."""
        if key not in self._numbers:
            self._numbers = self._listed()
        return sorted(self._numbers.get(key, ()), reverse=True)

    def _listed(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in self._objects.list(names.KEYS):
            if parsed := names.key_number(each.path):
                found.setdefault(parsed[0], []).append(parsed[1])
        return found


@contextmanager
def lending(key: DataKey | None) -> Iterator[None]:
    """Lend tasks the key of a run's records, for as long as they write."""
    if key is None:
        yield
        return
    job_files.lend(_LENT + key.id, key.secret)
    try:
        yield
    finally:
        job_files.take_back(_LENT + key.id)


def lent(run: str) -> DataKey | None:
    """Return the key of a run's records; None: this process has none."""
    secret = job_files.lent(_LENT + run)
    return DataKey(DataKind.RECORDS, secret) if secret else None


def _info(kind: DataKind, key: str) -> bytes:
    return _INFO + kind.encode() + b"\0" + key.encode()
