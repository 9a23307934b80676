"""Reads the manifests of a store, and adds the next one."""

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
READERS = 16  # manifests that are read in parallel
READ_BYTES = 64 << 20  # of these manifests, or one larger manifest


@dataclass(frozen=True)
class Parent:
    """The snapshot that the next one follows, and the next one's number."""

    stored: Stored | None  # None: nothing
    number: int

    @property
    def manifest(self) -> Manifest | None:
        return self.stored.manifest if self.stored else None

    def follow(self) -> Chain:
        """Return the chain fields of the next manifest."""
        return follow(self.stored, self.number)


class Catalog:
    """A store with backups. It is thread-safe. Snapshots that `trust` does not accept count as broken."""

    def __init__(
        self, objects: Objects, identity: str, trust: Trust = EVERYBODY, keys: Keyring | None = None
    ) -> None:
        self._objects = objects
        self._keys = keys or Keyring(objects)
        self._trust = trust
        self.id = identity

    @classmethod
    def open(cls, objects: Objects, trust: Trust = EVERYBODY, keys: Keyring | None = None) -> "Catalog":
        """Open a store. Refused if it does not exist or has a newer format. Failed if it is damaged."""
        identity = _identity(objects)
        if identity is None:
            raise Refused(
                "backup-missing", f"{objects.url} has no backup: {names.STORE} is missing. Check the URL."
            )
        return cls(objects, identity, trust, keys)

    @classmethod
    def open_or_make(
        cls, objects: Objects, trust: Trust = EVERYBODY, keys: Keyring | None = None
    ) -> "Catalog":
        """Open a store, and create it if it does not exist. Failed if it is damaged.

        Refused if the server does not support If-None-Match: two concurrent backups would overwrite each
        other's snapshots. The check writes store.json again with other content.
        """
        identity = _identity(objects)
        if identity is None:
            with suppress(Exists):  # another run created it
                objects.create(names.STORE, _store_json(secrets.token_hex(8)))
            identity = str(_identity(objects))
        try:
            objects.create(names.STORE, bytes(objects.read(names.STORE, at_most=STORE_BYTES)) + b"\n")
        except Exists:
            return cls(objects, identity, trust, keys)
        raise Refused(
            "store-write-unsupported",
            f"The store {objects.url} ignores If-None-Match, so runs could overwrite objects. Use an object "
            "store that supports conditional writes.",
        )

    def numbers(self) -> list[int]:
        """Return the number of every snapshot, ascending."""
        return list(self.listed())

    def listed(self) -> dict[int, Entry]:
        """Return the listed entry of each manifest by its snapshot's number, ascending."""
        return _listed(self._objects)

    def parent(self, *, past_damage: bool = False) -> Parent:
        """Return the parent of the next snapshot: the newest one. Only its manifest is read.

        Failed if the listing shows that a manifest of its chain is missing. With `past_damage`, the whole
        chain is read, and the parent is the newest undamaged snapshot, or none.
        """
        listed = self.listed()
        if not listed:
            return Parent(None, 1)
        self._refuse_forged(listed)
        newest = max(listed)
        if past_damage:
            whole = self._newest_whole(listed)
            return Parent(self._read(whole) if whole else None, newest + 1)
        try:
            stored = self._read(newest)
            if not _adds_up(stored.manifest.chain, listed):
                self._fold(stored.manifest, listed)
        except Broken as error:
            raise self._unfollowable(error) from None
        return Parent(stored, newest + 1)

    def manifest(self, number: int) -> Manifest:
        """Read a manifest. Broken if it is damaged."""
        return self._read(number).manifest

    def snapshot(self, number: int | None = None, at_least: int | None = None) -> Snapshot:
        """Return a snapshot, by default the newest. Refused if there is none, Failed if it is damaged.

        Failed, too, if its number is below `at_least`: a store does not show that its newest snapshots were
        removed. Expired segments that were removed are gaps of the snapshot.
        """
        listed = self.listed()
        if not listed:
            raise Refused(
                "snapshot-missing", f"{self._objects.url} has no snapshots. Run `aqueduct backup` first."
            )
        odd = self._odd(listed)
        if number is None:
            self._refuse_forged(listed)
        elif number in odd:
            raise self._forged(number, odd[number])
        sound = {candidate: entry for candidate, entry in listed.items() if candidate not in odd}
        numbers = list(sound)
        if number is not None and not 1 <= number <= max(numbers, default=0):
            raise Refused(
                "snapshot-missing",
                f"{self._objects.url} has no snapshot {number}. `aqueduct snapshots` lists the existing "
                "ones.",
            )
        if number is not None and number not in listed and not self._needed(number, numbers):
            raise Refused(
                "snapshot-missing",
                f"{self._objects.url} does not have snapshot {number} any more: it was pruned or lost. "
                "`aqueduct snapshots` lists the existing ones.",
            )
        if at_least is not None and (number or numbers[-1]) < at_least:
            raise Failed(
                "snapshot-too-old",
                f"Snapshot {number or numbers[-1]} is older than snapshot {at_least}, which --at-least "
                f"requires. Find out why {self._objects.url} lacks newer snapshots, and restore them from a "
                "copy.",
            )
        try:
            snapshot = self._fold(self.manifest(number or numbers[-1]), listed).snapshot()
        except Broken as error:
            whole = self._newest_whole(sound)
            other = f", or use the newest undamaged one: --snapshot {whole}" if whole else ""
            raise Failed(
                error.id, f"{error} Restore the manifest from a copy of {self._objects.url}{other}."
            ) from None
        return self.retained(snapshot)

    def retained(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with gaps in place of expired segments that the store has removed."""
        return expiry.retained(snapshot, self._objects, timestamps.now())

    def commit(
        self,
        increment: Manifest,
        key: SigningKey | None = None,
        encrypting: DataKey | None = None,
        revise: Callable[[Snapshot], Snapshot] | None = None,
    ) -> Manifest:
        """Commit the next snapshot. Return the written manifest: the increment, or a full one if it is due.

        The manifest is encrypted with `encrypting`, and then signed with `key`. `revise` changes the content
        of earlier snapshots, and requires a full manifest.

        Exists if another run has committed this number. Failed if a full manifest is due, and an earlier one
        is damaged.
        """
        written = increment
        if full_due(increment) or (revise and not increment.full):
            try:
                whole = self._fold(increment, self.listed()).snapshot()
            except Broken as error:
                raise self._unfollowable(error) from None
            written = self.retained(revise(whole) if revise else whole).full()
        packed, path = manifest.pack(written), names.snapshot(written.number)
        if encrypting:
            packed = bytes(encryption.encrypt(encrypting, path, packed))
        if len(packed) > validation.MOST_MANIFEST_BYTES:
            raise Failed(
                "manifest-too-large",
                f"The manifest of snapshot {written.number} of {self._objects.url} would have "
                f"{len(packed):,} "
                f"bytes, with {len(written.segments):,} segments. The limit is "
                f"{validation.MOST_MANIFEST_BYTES:,} bytes. Nothing was committed. Back up into a new store, "
                "with larger segments (--segment-bytes) or less often.",
            )
        self._objects.create(path, key.signed(packed) if key else packed)
        return written

    def keys_in_use(self) -> set[str]:
        """Return the ids of the keys of all manifests and of their records.

        Reads every manifest. Manifests that cannot be read or are not trusted do not count.
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
        """Yield every listed manifest, oldest first. Raise Broken at the first broken one.

        The manifests have no groups, ACLs and quotas.
        """
        for outcome in self._each(listed, Fold()):
            if isinstance(outcome, Broken):
                raise outcome
            yield outcome

    def _each(self, listed: Mapping[int, Entry], fold: Fold) -> Iterator[Manifest | Broken]:
        """Yield every manifest, oldest first, after it was added to the fold.

        A missing number was pruned, unless an existing snapshot builds on it: then it is lost.
        """
        odd = self._odd(listed)
        broken = dict[int | None, Broken]()
        before, former = 0, Former()
        for number, content in self._read_all(
            (listed_number for listed_number in listed if listed_number not in odd), listed
        ):
            if content is None:
                continue  # pruned since it was listed, or lost: the next one shows it
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
            if len(lost) > 1:  # one for all, because planted snapshots could skip many numbers
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
        """Return whether the next existing snapshot builds on a lost one, or cannot be read."""
        try:
            return self.manifest(min(number for number in numbers if number > lost)).chain.base <= lost
        except Broken:
            return True

    def _odd(self, listed: Mapping[int, Entry]) -> dict[int, str]:
        """Return why no backup can have written these snapshots, by number."""

        @cache
        def created(number: int) -> int | None:
            try:
                return self.manifest(number).created
            except (Failed, Refused):
                return None

        return validation.odd_snapshots(listed, created)

    def _refuse_forged(self, listed: Mapping[int, Entry]) -> None:
        """Failed if a snapshot exists that no backup wrote: no run may follow or restore it."""
        for number, reason in self._odd(listed).items():
            raise self._forged(number, reason)

    def _forged(self, number: int, flaw: str) -> Failed:
        path = names.snapshot(number)
        return Failed(
            "snapshot-forged",
            f"{Broken(number, flaw)} No backup wrote it. Find out who has write access to "
            f"{self._objects.url}, "
            f"move {path} out of the store, and run the command again.",
        )

    def _fold(self, newest: Manifest, listed: Mapping[int, Entry]) -> Fold:
        """Fold a manifest and the ones that it builds on. Broken if one of them is damaged."""
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
        """Return the newest undamaged snapshot. Snapshots that build on a broken one are skipped."""
        at_most = max(listed, default=0)
        for number in sorted(listed, reverse=True):
            if number <= at_most:
                try:
                    self._fold(self.manifest(number), listed)
                    return number
                except Broken as error:
                    at_most = error.root.number - 1
        return None

    def _unfollowable(self, error: Broken) -> Failed:
        whole = self._newest_whole(self.listed())
        then = f"continues after snapshot {whole}, the newest undamaged one" if whole else "reads all records"
        return Failed(
            error.id,
            f"{error} Nothing was committed. Restore the manifest from a copy of {self._objects.url}. Or "
            f"back up once with --past-damage, which {then}.",
        )

    def _read_all(
        self, numbers: Iterable[int], listed: Mapping[int, Entry]
    ) -> Iterator[tuple[int, memoryview | Broken | None]]:
        """Read manifests in order, some in parallel.

        Those in memory have at most READ_BYTES by the listing, or are a single larger one.
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
                # Threads only read: unpacking in threads needs more memory, and is not faster.
                yield from zip(some, pool.map(lambda number: self._data(number, listed), some), strict=True)

    def _read(self, number: int) -> Stored:
        return self._stored(number, self._data(number))

    def _data(self, number: int, listed: Mapping[int, Entry] | None = None) -> memoryview | Broken | None:
        """Read a manifest's object, up to the listed size; None if it does not exist."""
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
            return Broken(number, f"cannot be read: {str(error).rstrip('.')}")

    def _stored(
        self, number: int, content: memoryview | Broken | None, former: Former | None = None
    ) -> Stored:
        """Parse a stored manifest. Broken if it is damaged, or has another number or store.

        `former`: for the reading of many manifests, see `manifest.unpack`.
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
                packed = self._keys.decrypt_manifest(names.snapshot(number), memoryview(packed))
            parsed = manifest.unpack(packed, where, former)
        except Failed as error:
            raise Broken(number, f"cannot be read: {str(error).rstrip('.')}") from None
        if parsed.store != self.id:
            reason = f"belongs to another store: {where} has id {parsed.store}, but {names.STORE} {self.id}"
            raise Broken(number, reason)
        if parsed.number != number:
            raise Broken(number, f"cannot be read: {where} contains snapshot {parsed.number}")
        if reason := validation.fault(parsed):
            raise Broken(number, f"was not written by a backup: {where} is damaged or forged: {reason}")
        sha256 = hashlib.sha256(content).hexdigest()
        return Stored(parsed, len(content), sha256, signature is not None, encrypted)


def check_not_removed(objects: Objects, number: int) -> None:
    """Failed if a snapshot was removed after it was read. Then its missing objects are no damage.

    Prune removes manifests first.
    """
    if objects.head(names.snapshot(number)) is None:
        raise Failed(
            "snapshot-removed",
            f"Snapshot {number} of {objects.url} was removed during this run, with the objects that only it "
            "lists: it was pruned or lost. Use another snapshot. `aqueduct snapshots` lists them.",
        )


def _listed(objects: Objects) -> dict[int, Entry]:
    entries = ((names.snapshot_number(entry.path), entry) for entry in objects.list(names.SNAPSHOTS))
    return dict(sorted((number, entry) for number, entry in entries if number is not None))


def _adds_up(chain: Chain, listed: Mapping[int, Entry]) -> bool:
    """Return whether the listed manifests of a chain have the sizes in the chain."""
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
    """Return the store's id; None if the store is empty. Failed if store.json is lost or damaged."""
    where = f"{objects.url}/{names.STORE}"
    try:
        content = strict_json.parse(objects.read(names.STORE, at_most=STORE_BYTES))
        manifest.check_format(content, where)
        return strict_json.build(_Store, content).id
    except MissingObject:
        if not (listed := _listed(objects)):
            return None
        fault = f"{where} is lost, but the store has snapshots ({len(listed)})."
    except DamagedObject as error:
        fault, listed = str(error), _listed(objects)
    except strict_json.Unreadable as error:
        fault = f"{where} is damaged: {error}."
        listed = _listed(objects)
    raise Failed("store-identity-damaged", f"{fault} {_remedy(objects, listed)}")


def _remedy(objects: Objects, numbers: Collection[int]) -> str:
    """Return how to repair store.json. Each manifest has its store's id."""
    for number in sorted(numbers, reverse=True):
        with suppress(Failed):
            path = names.snapshot(number)
            content = objects.read(path, at_most=validation.MOST_MANIFEST_BYTES)
            expected = _store_json(manifest.unpack(content, path).store).decode()
            return f"Write this content, from snapshot {number}: {expected}"
    if numbers:
        return "Restore it from a copy of the store."
    return (
        "The store lists no snapshots. Check the URL and the endpoint. Then restore the file from a copy of "
        "the store, or back up to another prefix."
    )
