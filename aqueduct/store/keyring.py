"""The data keys of a store, each wrapped (HPKE) for those who may open what it encrypts.

    keys/<id>.<number>.json      one key; a higher number wraps the same key for others

A run has two: one of records, wrapped for the recipients alone, and one of its manifest, wrapped for the
backup host as well, since the next run must read what it follows. A key's id is a digest of it: no planted
object can pass off another key. A list of recipients ends with a seal that takes the key to make: no planted
list is believed. Tasks are lent records' keys, in memory: no private key of a recipient leaves the driver.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

from aqueduct.common import job_files, strict_json
from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.store import encryption, names
from aqueduct.store.encryption import DataKey, DataKind
from aqueduct.store.objects import DamagedObject, MissingObject, Objects

# What needs it imports cryptography: a store without encryption need not wait for it.
if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey, ReceiverPublicKey

MOST_BYTES = 1 << 20  # of a key's object
MOST_RECIPIENTS = 1000  # of it, with the seal
READERS = 16  # objects that are read, or written, at once
_INFO = b"aqueduct data key\0"
_LENT = "data key of records "
_SEAL = "seal"  # in the place of a recipient: a proof that whoever made the list had the key
_SEAL_INFO = b"aqueduct wrapped key\0"


class Locked(Refused):
    """The error of encrypted data without a matching private key."""

    id = "decryption-key-missing"


class WrappedKey(NamedTuple):
    recipient: str  # fingerprint
    sealed: str  # base64


@dataclass(frozen=True)
class _KeyObject:
    format: int
    kind: str
    wrapped: tuple[WrappedKey, ...]


class Rewrapped(NamedTuple):
    """The outcome of wrapping all keys of a store for others."""

    wrapped: int  # keys that were not wrapped for just these recipients before
    keys: int  # in the store
    planted: tuple[str, ...]  # paths of key objects that were written without the key, so nobody can use them
    unused: tuple[str, ...] = ()  # paths of objects of keys that do not open, and that no snapshot uses


class Keyring:
    """The wrapped keys of a store, and the private keys that can open some. It is thread-safe."""

    def __init__(self, objects: Objects, private: Sequence["ReceiverKey"] = ()) -> None:
        self._objects = objects
        self._private = {key.public.fingerprint.hex(): key for key in private}
        self._numbers: dict[str, list[int]] = {}

    def create(self, kind: DataKind, recipients: Sequence["ReceiverPublicKey"]) -> DataKey:
        """Create a key, and store it for the recipients."""
        key = DataKey.generate(kind)
        self._store(key, recipients, 1)
        return key

    def decrypt_manifest(self, path: str, encrypted: memoryview) -> memoryview:
        """Decrypt a manifest. Locked without a matching private key, Failed if it or its key is damaged."""
        key = self.open(str(encryption.key_id(encrypted)), DataKind.MANIFEST, f"{self._objects.url}/{path}")
        return encryption.decrypt(key, path, encrypted, self._objects.url)

    def open(self, key: str, kind: DataKind | None, subject: str) -> DataKey:
        """Return the key with an id. Locked if no private key opens it; `subject`: the encrypted data.

        Without `kind`, the kind in the key's object is used.
        """
        recipients: dict[str, None] = {}
        damaged = ""  # the last object that is, and why
        for number in self._found(key):
            path = names.key(key, number)
            try:
                key_object = self._read(path)
            except Failed as error:
                damaged = str(error)
                continue
            recipients |= dict.fromkeys(
                wrapped_key.recipient for wrapped_key in key_object.wrapped if wrapped_key.recipient != _SEAL
            )
            for wrapped_key in key_object.wrapped:
                if wrapped_key.recipient in self._private:
                    opened = self._unwrap(key, kind or DataKind(key_object.kind), wrapped_key)
                    if opened:
                        return opened
                    damaged = f"{self._objects.url}/{path} is damaged: it wraps another key than {key}."
        # Without a key, a damaged object beside a sound one proves nothing: anybody may have planted it.
        if damaged and (not recipients or recipients.keys() & self._private.keys()):
            raise Failed("object-damaged", damaged)
        if not recipients:
            raise Failed(
                "object-missing",
                f"{names.key(key, 1)}, the key of {subject}, is missing in {self._objects.url}. Restore it "
                "from a copy of the store.",
            )
        given = (
            f"the private keys are {some(self._private)}" if self._private else "no private key was passed"
        )
        raise Locked(
            f"{subject} is encrypted for {some(recipients)}, but {given}. Pass the file of a matching key "
            f"with --private-key.{damaged and ' Another error: '}{damaged}"
        )

    def lend(self, runs: Iterable[str], subject: str) -> None:
        """Give tasks the keys of these runs' records, until the command ends. Locked without one of them."""
        with ThreadPoolExecutor(READERS) as pool:
            for key in pool.map(lambda run: self.open(run, DataKind.RECORDS, subject), sorted(set(runs))):
                job_files.lend(_LENT + key.id, key.secret)

    def rewrap(
        self,
        recipients: Sequence["ReceiverPublicKey"],
        hosts: Sequence["ReceiverPublicKey"],
        keys_in_use: Callable[[], Collection[str]],
    ) -> Rewrapped:
        """Wrap every key for these recipients, and manifests' for `hosts`.

        All keys are opened before the first one is written. Locked or Failed if a used key cannot be opened;
        unused ones are skipped, because any writer can create objects with invented ids. A key that is
        wrapped for exactly these recipients is unchanged, if its seal proves that its writer had the key.
        Failed if a written object cannot be read again.
        """
        every = sorted(self._listed())
        with ThreadPoolExecutor(READERS) as pool:
            of = "The key {} of " + self._objects.url
            outcomes = list(pool.map(lambda key: self._open_or_error(key, of.format(key)), every))
            errors = {
                key: outcome
                for key, outcome in zip(every, outcomes, strict=True)
                if not isinstance(outcome, DataKey)
            }
            in_use = keys_in_use() if errors else ()
            for key, error in errors.items():
                if key in in_use:
                    raise error
            opened = [outcome for outcome in outcomes if isinstance(outcome, DataKey)]
            receivers = [[*recipients, *(hosts if key.kind is DataKind.MANIFEST else ())] for key in opened]
            written = list(pool.map(self._wrapped_for, opened, receivers))
            fresh_keyring = Keyring(self._objects, [*self._private.values()])
            planted = list(chain.from_iterable(pool.map(fresh_keyring._check, opened, receivers)))
        unused = [names.key(key, number) for key in errors for number in self._found(key)]
        return Rewrapped(sum(written), len(opened), tuple(sorted(planted)), tuple(sorted(unused)))

    def _open_or_error(self, key: str, subject: str) -> DataKey | Locked | Failed:
        try:
            return self.open(key, None, subject)
        except (Locked, Failed) as error:
            return error

    def _wrapped_for(self, key: DataKey, receivers: Sequence["ReceiverPublicKey"]) -> bool:
        """Store a key for these recipients. Return False if it is stored for them already."""
        numbers = self._found(key.id)
        if numbers and self._wraps(key, numbers[0], receivers):
            return False
        number = numbers[0] + 1 if numbers else 1
        if number > names.LAST_KEY:  # somebody planted the last one; readers look at all numbers
            number = next(candidate for candidate in count(1) if candidate not in numbers)
        self._store(key, receivers, number)
        return True

    def _check(self, key: DataKey, receivers: Sequence["ReceiverPublicKey"]) -> list[str]:
        """Return objects of a key that were not made with it, and that readers try before the one that was.

        Failed if there is none for these recipients.
        """
        planted: list[str] = []
        for number in self._found(key.id):
            if self._wraps(key, number, receivers):
                return planted
            planted.append(names.key(key.id, number))
        raise Failed(
            "key-not-rewrapped",
            f"The key {key.id} of {self._objects.url} was wrapped, but its object differs when it is read "
            "again. Check which other users write there, and run the command again. Former recipients can "
            "still open the key.",
        )

    def _wraps(self, key: DataKey, number: int, receivers: Sequence["ReceiverPublicKey"]) -> bool:
        """Tell whether an object wraps a key for just these recipients.

        Where a recipient's private key is here, the key is opened with it; for the others whoever made the
        object vouches, who had the key.
        """
        try:
            key_object = self._read(names.key(key.id, number))
        except Failed:
            return False
        wrapped = [wrapped_key for wrapped_key in key_object.wrapped if wrapped_key.recipient != _SEAL]
        if {holder.recipient for holder in wrapped} != {holder.fingerprint.hex() for holder in receivers}:
            return False
        seals = [wrapped_key.sealed for wrapped_key in key_object.wrapped if wrapped_key.recipient == _SEAL]
        if key_object.kind != key.kind or seals != [_seal(key, number, wrapped)]:
            return False
        return all(
            self._unwrap(key.id, key.kind, wrapped_key)
            for wrapped_key in wrapped
            if wrapped_key.recipient in self._private
        )

    def _store(self, key: DataKey, recipients: Sequence["ReceiverPublicKey"], number: int) -> None:
        public = {receiver.fingerprint.hex(): receiver for receiver in recipients}
        if len(public) >= MOST_RECIPIENTS:
            raise Refused(
                "recipients-too-many",
                f"A key can have fewer than {MOST_RECIPIENTS:,} recipients, but {len(public):,} were passed. "
                "Pass the keys of fewer recipients.",
            )
        wrapped = [
            WrappedKey(name, base64.b64encode(receiver.seal(key.secret, _info(key.kind, key.id))).decode())
            for name, receiver in public.items()
        ]
        wrapped.append(WrappedKey(_SEAL, _seal(key, number, wrapped)))
        content = strict_json.dumps(_KeyObject(1, key.kind, tuple(wrapped)))
        self._objects.create(names.key(key.id, number), content)

    def _unwrap(self, key: str, kind: DataKind, wrapped: WrappedKey) -> DataKey | None:
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.b64decode(wrapped.sealed, validate=True)
            secret = self._private[wrapped.recipient].open(sealed, _info(kind, key))
        except (InvalidTag, ValueError, binascii.Error):
            return None
        opened = DataKey(kind, secret)
        return opened if opened.id == key else None

    def _read(self, path: str) -> _KeyObject:
        where = f"{self._objects.url}/{path}"
        try:
            key_object = strict_json.loads(_KeyObject, self._objects.read(path, at_most=MOST_BYTES))
            DataKind(key_object.kind)
        except (MissingObject, DamagedObject):
            raise
        except ValueError as error:
            raise Failed("object-damaged", f"{where} is damaged: {error}.") from None
        if key_object.format != 1:
            raise Failed(
                "store-format-unsupported",
                f"{where} has format {key_object.format}, but this version of Aqueduct supports only 1. "
                "Update Aqueduct.",
            )
        # One attempt for each recipient: whoever has none of the keys could list one a thousand times.
        rows = key_object.wrapped
        if len(rows) > MOST_RECIPIENTS or len({wrapped_key.recipient for wrapped_key in rows}) < len(rows):
            raise Failed(
                "object-damaged",
                f"{where} is damaged: it lists a recipient twice, or more than {MOST_RECIPIENTS:,}.",
            )
        return key_object

    def _found(self, key: str) -> list[int]:
        """Return the numbers under which a key is stored, the highest first."""
        if key not in self._numbers:
            self._numbers = self._listed()
        return sorted(self._numbers.get(key, ()), reverse=True)

    def _listed(self) -> dict[str, list[int]]:
        numbers_by_key: dict[str, list[int]] = {}
        for entry in self._objects.list(names.KEYS):
            if parsed := names.key_number(entry.path):
                numbers_by_key.setdefault(parsed[0], []).append(parsed[1])
        return numbers_by_key


@contextmanager
def lending(key: DataKey | None) -> Iterator[None]:
    """Give tasks the key of a run's records while they write."""
    if key is None:
        yield
        return
    job_files.lend(_LENT + key.id, key.secret)
    try:
        yield
    finally:
        job_files.take_back(_LENT + key.id)


def lent(run: str) -> DataKey | None:
    """Return the key of a run's records; None if this process does not have it."""
    secret = job_files.lent(_LENT + run)
    return DataKey(DataKind.RECORDS, secret) if secret else None


def _seal(key: DataKey, number: int, wrapped: Sequence[WrappedKey]) -> str:
    """Return what only somebody with the key can add to a list of recipients."""
    mac = hmac.digest(key.secret, _SEAL_INFO, "sha256")
    message = strict_json.dumps([key.kind, key.id, number, wrapped])
    return base64.b64encode(hmac.digest(mac, message, "sha256")).decode()


def _info(kind: DataKind, key: str) -> bytes:
    return _INFO + kind.encode() + b"\0" + key.encode()
