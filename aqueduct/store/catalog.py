"""The manifests of a store: reading them, and adding the next one."""

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from aqueduct.common import strict_json, timestamps
from aqueduct.errors import Failed, Refused
from aqueduct.store import encryption, expiry, manifest, names, signing, validation
from aqueduct.store.encryption import DataKey
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import Chain, Former, Manifest
from aqueduct.store.objects import DamagedObject, Entry, Exists, MissingObject, Objects
from aqueduct.store.signing import EVERYBODY, SigningKey, Trust
from aqueduct.store.snapshots import Broken, Fold, Snapshot, Stored, Summary, follow, full_due

STORE_BYTES = 4096  # of store.json, at most
READERS = 16  # manifests that are read at once
READ_BYTES = 64 << 20  # of them, unless one has more


@dataclass(frozen=True)
class Parent:
    """The snapshot that the next one follows, and the next one's number."""

    stored: Stored | None  # None: nothing
    number: int

    @property
    def manifest(self) -> Manifest | None:
        return self.stored.manifest if self.stored else None

    def follow(self) -> Chain:
        """Return where the next manifest stands."""
        return follow(self.stored, self.number)


class Catalog:
    """A store that is one; threads may share it. Snapshots that `trust` does not believe are broken."""

    def __init__(
        self, objects: Objects, identity: str, trust: Trust = EVERYBODY, keys: Keyring | None = None
    ) -> None:
        self._objects = objects
        self._keys = keys or Keyring(objects)
        self._trust = trust
        self.id = identity

    @classmethod
    def open(cls, objects: Objects, trust: Trust = EVERYBODY, keys: Keyring | None = None) -> "Catalog":
        """Open a store; Refused if there is none, or one of a newer format; Failed if it is damaged."""
        identity = _identity(objects)
        if identity is None:
            raise Refused("backup-missing", f"There is no backup in {objects.url}: {names.STORE} is missing.")
        return cls(objects, identity, trust, keys)

    @classmethod
    def open_or_make(
        cls, objects: Objects, trust: Trust = EVERYBODY, keys: Keyring | None = None
    ) -> "Catalog":
        """Open the store, made if nothing is there. Failed if it is damaged.

        Refused where a conditional write overwrites (a server without If-None-Match): two backups at once
        would then destroy each other's snapshots. Found by writing store.json again in another form.
        """
        identity = _identity(objects)
        if identity is None:
            with suppress(Exists):  # another run was faster
                objects.create(names.STORE, _store_json(secrets.token_hex(8)))
            identity = str(_identity(objects))
        try:
            objects.create(names.STORE, bytes(objects.read(names.STORE, at_most=STORE_BYTES)) + b"\n")
        except Exists:
            return cls(objects, identity, trust, keys)
        raise Refused(
            "store-write-unsupported",
            f"The store {objects.url} overwrites where it is told not to (If-None-Match): take another.",
        )

    def numbers(self) -> list[int]:
        """Return the number of every snapshot, ascending."""
        return list(self.listed())

    def listed(self) -> dict[int, Entry]:
        """Return the entry of every manifest by its snapshot's number, ascending."""
        return _listed(self._objects)

    def parent(self, *, past_damage: bool = False) -> Parent:
        """Return what the next snapshot follows: the newest, of which alone the manifest is read.

        Failed where the listing shows that its chain is not whole. With `past_damage` the whole chain is
        read, and what is followed is the newest snapshot that is whole, or nothing if none is.
        """
        listed = self.listed()
        if not listed:
            return Parent(None, 1)
        self._all_believed(listed)
        newest = max(listed)
        if past_damage:
            whole = self._newest_whole(listed)
            return Parent(self._read(whole) if whole else None, newest + 1)
        try:
            stored = self._read(newest)
            if not _adds_up(stored.manifest.chain, listed):
                self._fold(stored.manifest, listed)
        except Broken as error:
            raise self._not_to_be_followed(error) from None
        return Parent(stored, newest + 1)

    def manifest(self, number: int) -> Manifest:
        """Read a manifest; Broken if it isn't what was written."""
        return self._read(number).manifest

    def snapshot(self, number: int | None = None, at_least: int | None = None) -> Snapshot:
        """Return the snapshot of that number, or the newest. Refused without one, Failed if it is damaged.

        Failed, too, if it is older than `at_least`: that a store lacks its newest, it can't tell itself.
        Segments that have expired and are gone are gaps of it.
        """
        listed = self.listed()
        if not listed:
            raise Refused("snapshot-missing", f"There is no snapshot in {self._objects.url} yet.")
        odd = self._odd(listed)
        if number is None:
            self._all_believed(listed)
        elif number in odd:
            raise self._forged(number, odd[number])
        sound = {candidate: entry for candidate, entry in listed.items() if candidate not in odd}
        numbers = list(sound)
        if number is not None and not 1 <= number <= max(numbers, default=0):
            raise Refused("snapshot-missing", f"There is no snapshot {number} in {self._objects.url}.")
        if number is not None and number not in listed and not self._needed(number, numbers):
            raise Refused(
                "snapshot-missing",
                f"There is no snapshot {number} in {self._objects.url} any more: it was pruned, or is lost. "
                "`aqueduct snapshots` lists those that are there.",
            )
        if at_least is not None and (number or numbers[-1]) < at_least:
            raise Failed(
                "snapshot-too-old",
                f"Snapshot {number or numbers[-1]} is older than {at_least}, which was asked for at least: "
                f"see who removed newer ones from {self._objects.url}, and bring them back from a copy.",
            )
        try:
            snapshot = self._fold(self.manifest(number or numbers[-1]), listed).snapshot()
        except Broken as error:
            whole = self._newest_whole(sound)
            other = f", or take the newest that is whole: --snapshot {whole}" if whole else ""
            raise Failed(
                error.id, f"{error} Bring it back from a copy of {self._objects.url}{other}."
            ) from None
        return self.retained(snapshot)

    def retained(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with gaps instead of segments that have expired and are gone by now."""
        return expiry.retained(snapshot, self._objects, timestamps.now())

    def commit(
        self,
        increment: Manifest,
        key: SigningKey | None = None,
        encrypting: DataKey | None = None,
        revise: Callable[[Snapshot], Snapshot] | None = None,
    ) -> Manifest:
        """Commit the next snapshot. Return what was written: the increment, or a full manifest if one is due.

        It is encrypted, and then signed by `key`, where keys are given. `revise` changes what was there
        before, for which a full manifest is due, too.

        Exists if another run has committed that number meanwhile. Failed if a full one is due, and what it
        builds on is damaged.
        """
        written = increment
        if full_due(increment) or (revise and not increment.full):
            try:
                whole = self._fold(increment, self.listed()).snapshot()
            except Broken as error:
                raise self._not_to_be_followed(error) from None
            written = self.retained(revise(whole) if revise else whole).full()
        packed, path = manifest.pack(written), names.snapshot(written.number)
        if encrypting:
            packed = bytes(encryption.encrypt(encrypting, path, packed))
        if len(packed) > validation.MOST_MANIFEST_BYTES:
            raise Failed(
                "manifest-too-large",
                f"Snapshot {written.number} of {self._objects.url} would have {len(packed):,} bytes, and at "
                f"most {validation.MOST_MANIFEST_BYTES:,} can be read again: it names "
                f"{len(written.segments):,} segments. Nothing was committed. Back up into a new store, with "
                "larger segments (--segment-bytes) or less often.",
            )
        self._objects.create(path, key.signed(packed) if key else packed)
        return written

    def keys_in_use(self) -> set[str]:
        """Return the ids of the keys that snapshots use: those of manifests, and of the records they name.

        Reads every manifest. Records of one that can't be read, or isn't believed, do not count.
        """
        in_use = set[str]()
        listed = self.listed()
        for number, content in self._read_all(listed, listed):
            if content is None or isinstance(content, Broken) or self._trust.fault(number, content):
                continue
            packed, _ = signing.split(content)
            if key := encryption.key_id(packed):
                in_use.add(key)
            with suppress(Failed, Refused):
                segments = self._stored(number, content).manifest.segments
                in_use.update(segment.run for segment in segments if segment.encrypted and segment.records)
        return in_use

    def summaries(self) -> Iterator[Summary | Broken]:
        """Yield a summary of every snapshot, oldest first; reads every manifest."""
        fold = Fold()
        for outcome in self._each(self.listed(), fold):
            yield outcome if isinstance(outcome, Broken) else fold.summary(timestamps.now())

    def every(self, listed: Mapping[int, Entry]) -> Iterator[Manifest]:
        """Yield every manifest that was listed, oldest first; Broken at the first that is not whole.

        Without groups, ACLs and quotas, which are each snapshot's own.
        """
        for outcome in self._each(listed, Fold()):
            if isinstance(outcome, Broken):
                raise outcome
            yield outcome

    def _each(self, listed: Mapping[int, Entry], fold: Fold) -> Iterator[Manifest | Broken]:
        """Yield every manifest, oldest first, when it was added to the fold.

        A number that is not there was pruned, unless something that is there builds on it: then it is lost.
        """
        odd = self._odd(listed)
        broken = dict[int | None, Broken]()
        before, former = 0, Former()
        for number, content in self._read_all(
            (listed_number for listed_number in listed if listed_number not in odd), listed
        ):
            if content is None:
                continue  # pruned since it was listed, or lost: what is above it tells
            try:
                stored = self._stored(number, content, former)
            except Broken as error:
                broken[number] = error
                yield error
                before = number
                continue
            manifest_read = stored.manifest
            chain = manifest_read.chain
            lost = range(max(chain.base, before + 1, number - validation.MOST_MISSING), number)
            if len(lost) > 1:  # one for all: who may create objects could leave out many before each
                yield Broken(lost[0], "are lost", through=lost[-1])
            elif lost:
                yield Broken(lost[0], "is lost")
            before = number
            try:
                below = broken.get(chain.parent)
                if chain.parent and chain.parent in lost:
                    below = Broken(chain.parent, "is lost")
                if below and not manifest_read.full:
                    raise below.above(number)
                fold.add(manifest_read, stored.sha256)
            except Broken as error:
                broken[number] = error
                yield error
            else:
                yield manifest_read
        for number, reason in odd.items():
            yield Broken(number, reason)

    def _needed(self, lost: int, numbers: Iterable[int]) -> bool:
        """Tell whether the next snapshot that is there builds on one that isn't, or can't tell."""
        try:
            return self.manifest(min(number for number in numbers if number > lost)).chain.base <= lost
        except Broken:
            return True

    def _odd(self, listed: Mapping[int, Entry]) -> dict[int, str]:
        """Return why snapshots can't be what a backup wrote, by their numbers."""

        @cache
        def created(number: int) -> int | None:
            try:
                return self.manifest(number).created
            except (Failed, Refused):
                return None

        return validation.odd_snapshots(listed, created)

    def _all_believed(self, listed: Mapping[int, Entry]) -> None:
        """Failed where a snapshot is there that no backup wrote: none may go on behind it, or restore it."""
        for number, reason in self._odd(listed).items():
            raise self._forged(number, reason)

    def _forged(self, number: int, flaw: str) -> Failed:
        path = names.snapshot(number)
        return Failed(
            "snapshot-forged",
            f"{Broken(number, flaw)} No backup wrote it. Find out who may write into {self._objects.url}, "
            f"move {path} out of it, and run the command again.",
        )

    def _fold(self, newest: Manifest, listed: Mapping[int, Entry]) -> Fold:
        """Fold a manifest and what it builds on; Broken if one of them isn't what was written."""
        chain, fold, former = newest.chain, Fold(), Former()
        for number, content in self._read_all(range(chain.base, (chain.parent or 0) + 1), listed):
            try:
                stored = self._stored(number, content, former)
                fold.add(stored.manifest, stored.sha256)
            except Broken as error:
                raise error.above(newest.number) from None
        fold.add(newest)
        return fold

    def _newest_whole(self, listed: Mapping[int, Entry]) -> int | None:
        """Return the newest of these snapshots that is whole; what builds on a broken one isn't tried."""
        at_most = max(listed, default=0)
        for number in sorted(listed, reverse=True):
            if number <= at_most:
                try:
                    self._fold(self.manifest(number), listed)
                    return number
                except Broken as error:
                    at_most = error.root.number - 1
        return None

    def _not_to_be_followed(self, error: Broken) -> Failed:
        whole = self._newest_whole(self.listed())
        then = f"continues after snapshot {whole}, the newest undamaged one" if whole else "reads everything"
        return Failed(
            error.id,
            f"{error} Nothing was committed. Restore it from a copy of {self._objects.url}, or back up "
            f"once with --past-damage, which {then}.",
        )

    def _read_all(
        self, numbers: Iterable[int], listed: Mapping[int, Entry]
    ) -> Iterator[tuple[int, memoryview | Broken | None]]:
        """Read manifests in their order, a few ahead of the one that is used, never all.

        By the sizes of the listing, those in memory at once are no more than READ_BYTES, or one.
        """
        remaining = iter(numbers)
        following = next(remaining, None)
        with ThreadPoolExecutor(READERS) as pool:
            while following is not None:
                some, size = list[int](), 0
                while following is not None and len(some) < READERS:
                    size += listed[following].size if following in listed else 0
                    if some and size > READ_BYTES:
                        break
                    some.append(following)
                    following = next(remaining, None)
                # Threads wait for the store; to unpack in them as well would only cost memory.
                yield from zip(some, pool.map(lambda number: self._data(number, listed), some), strict=True)

    def _read(self, number: int) -> Stored:
        return self._stored(number, self._data(number))

    def _data(self, number: int, listed: Mapping[int, Entry] | None = None) -> memoryview | Broken | None:
        """Read a manifest's object, up to the size that was listed; None: it is lost, or was not there."""
        at_most = validation.MOST_MANIFEST_BYTES
        if listed is not None:
            if number not in listed:
                return None
            at_most = min(at_most, listed[number].size)
        try:
            return self._objects.read(names.snapshot(number), at_most=at_most)
        except MissingObject:
            return None
        except DamagedObject as error:
            return Broken(number, f"can't be read: {str(error).rstrip('.')}")

    def _stored(
        self, number: int, content: memoryview | Broken | None, former: Former | None = None
    ) -> Stored:
        """Parse a stored manifest; Broken if it isn't one, or not the one of that number in this store.

        With `former`, one of many, of which what adds up is wanted: see `manifest.unpack`.
        """
        if content is None:
            raise Broken(number, "is lost")
        if isinstance(content, Broken):
            raise content
        if reason := self._trust.fault(number, content):
            raise Broken(number, reason, untrusted=True)
        where = f"{self._objects.url}/{names.snapshot(number)}"
        try:
            packed, signature = signing.split(content)
            if encrypted := encryption.key_id(packed) is not None:
                packed = self._keys.opened(names.snapshot(number), memoryview(packed))
            parsed = manifest.unpack(packed, where, former)
        except Failed as error:
            raise Broken(number, f"can't be read: {str(error).rstrip('.')}") from None
        if parsed.store != self.id:
            reason = f"is of another store: {where} is of {parsed.store}, and {names.STORE} of {self.id}"
            raise Broken(number, reason)
        if parsed.number != number:
            raise Broken(number, f"can't be read: {where} says that it is snapshot {parsed.number}")
        if reason := validation.fault(parsed):
            raise Broken(number, f"was not written by a backup: {where} is damaged or forged: {reason}")
        sha256 = hashlib.sha256(content).hexdigest()
        return Stored(parsed, len(content), sha256, signature is not None, encrypted)


def still_there(objects: Objects, number: int) -> None:
    """Failed where a snapshot that was read is gone by now: then it is no damage that its objects are, too.

    Prune removes manifests first.
    """
    if objects.head(names.snapshot(number)) is None:
        raise Failed(
            "snapshot-removed",
            f"Snapshot {number} of {objects.url} is gone since this run began, with the objects that only "
            "it lists: it was pruned, or is lost. Use one of the snapshots that `aqueduct snapshots` lists.",
        )


def _listed(objects: Objects) -> dict[int, Entry]:
    entries = ((names.snapshot_number(entry.path), entry) for entry in objects.list(names.SNAPSHOTS))
    return dict(sorted((number, entry) for number, entry in entries if number is not None))


def _adds_up(chain: Chain, listed: Mapping[int, Entry]) -> bool:
    """Tell whether all manifests between a full one and this place have the sizes that it knows."""
    if chain.base == chain.number:
        return True
    between = sum(entry.size for number, entry in listed.items() if chain.base < number < chain.number)
    return (
        chain.base in listed
        and listed[chain.base].size == chain.base_bytes
        and between == chain.increments_bytes
    )


@dataclass(frozen=True)
class _Store:
    id: str


def _store_json(identity: str) -> bytes:
    return strict_json.dumps({"format": manifest.FORMAT, "id": identity})


def _identity(objects: Objects) -> str | None:
    """Return the store's id; None: nothing is there yet. Failed if store.json is lost or damaged."""
    where = f"{objects.url}/{names.STORE}"
    try:
        content = strict_json.parse(objects.read(names.STORE, at_most=STORE_BYTES))
        manifest.check_format(content, where)
        return strict_json.build(_Store, content).id
    except MissingObject:
        if not (listed := _listed(objects)):
            return None
        fault = f"{where} is lost, but not its snapshots ({len(listed)})."
    except DamagedObject as error:
        fault, listed = str(error), _listed(objects)
    except strict_json.Unreadable as error:
        fault = f"{where} is damaged: {error}."
        listed = _listed(objects)
    raise Failed("store-identity-damaged", f"{fault} {_remedy(objects, listed)}")


def _remedy(objects: Objects, numbers: Collection[int]) -> str:
    """Say how to repair store.json: each manifest tells what it must hold."""
    for number in sorted(numbers, reverse=True):
        with suppress(Failed):
            path = names.snapshot(number)
            content = objects.read(path, at_most=validation.MOST_MANIFEST_BYTES)
            expected = _store_json(manifest.unpack(content, path).store).decode()
            return f"By snapshot {number} it should hold {expected}: write that."
    if numbers:
        return "Bring it back from a copy of the store."
    return (
        "The store lists no snapshots. Check the URL and the endpoint; then bring the file back from a copy "
        "of the store, or back up to another prefix."
    )
