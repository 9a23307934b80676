"""Snapshots that are one numbered object each: whole or not there.

Compressed with zstd: a first line of JSON tells what the snapshot is, and its last one has the SHA-256 of all
before it.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import zstandard

from aqueduct.common import strict_json, timestamps
from aqueduct.errors import AqueductError, Failed, Refused, Skipped
from aqueduct.kafka.batches.codecs import compress_frame, decompress_frame
from aqueduct.store import json_density, signing
from aqueduct.store.clock import Clock
from aqueduct.store.objects import (
    DamagedObject,
    Data,
    EditableObjects,
    Exists,
    MissingObject,
    Objects,
    check_listing,
)
from aqueduct.store.signing import EVERYBODY, SigningKey, Trust

MOST_BYTES = 512 << 20  # stored, and unpacked: who keeps such metadata has all of it in memory
LEAST_UNPACKED = 64 << 20  # that any snapshot may unpack to; a larger one
UNPACKED_FACTOR = 100  # ... to this many times its stored size
WINDOW_BYTES = 8 << 20  # of a first line's frame: level 3 has 2 MiB
HEAD_BYTES = 1 << 20  # of an object, in which its first line is, unless that names very much
MOST_LINE_BYTES = 16 << 20  # of JSON that is parsed at once
MOST_DIGEST_BYTES = 1000  # of the last line
LEAST_VALUE = 5  # bytes of a line for each of its values: an empty array of three bytes takes 64 in memory
FEW_VALUES = 1000  # that any line may have
NUMBERS = range(1, 10**20)
LARGEST = 2**63 - 1
LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999
CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NumberedSnapshot(Protocol):
    """What an object has: a dataclass."""

    @property
    def number(self) -> int: ...

    @property
    def cluster(self) -> str | None:
        """The id of Kafka's cluster, if it is one's."""

    @property
    def whole(self) -> bool:
        """Whether it has all that can be kept."""


S = TypeVar("S", bound=NumberedSnapshot)


def seal(content: bytearray) -> bytes:
    """Return content, whose first line is JSON, as an object has it; ValueError if none could read that."""
    content += line({"sha256": hashlib.sha256(content).hexdigest()})
    return compress_frame(content, _most_unpacked, checksum=False)


def opened(packed: Data) -> memoryview:
    """Return an object's content; ValueError, KeyError or TypeError if it isn't what was sealed."""
    whole = decompress_frame(memoryview(packed), _most_unpacked(packed))
    end = whole.rfind(b"\n", 0, -1) + 1
    content = memoryview(whole)[:end]
    if loaded(whole[end:], MOST_DIGEST_BYTES)["sha256"] != hashlib.sha256(content).hexdigest():
        raise ValueError("it is not what was kept")
    return content


def _most_unpacked(packed: Data) -> int:
    return min(MOST_BYTES, max(LEAST_UNPACKED, UNPACKED_FACTOR * len(packed)))


def line(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def loaded(text: bytes, most_bytes: int = MOST_LINE_BYTES) -> Any:
    """Parse a line; ValueError if it isn't JSON, or would take far more memory than its bytes."""
    if len(text) > most_bytes:
        raise ValueError(f"it has a line of {len(text):,} bytes, and {most_bytes:,} at most can be right")
    most = FEW_VALUES + len(text) // LEAST_VALUE
    if json_density.has_more(text, json_density.VALUES, most):
        raise ValueError("it has a line of more values than it can have for its size")
    return parsed(text)


def parsed(text: bytes) -> Any:
    """Parse what was read from elsewhere; ValueError if it isn't JSON."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def first_line(content: memoryview) -> bytes:
    """Return the first line, which describes a snapshot; ValueError if it is too long or has no end."""
    end = bytes(content[: MOST_LINE_BYTES + 1]).find(b"\n") + 1
    if not end:
        raise ValueError(f"its first line has more than {MOST_LINE_BYTES:,} bytes, or no end")
    return bytes(content[:end])


def whole(number: object, most: int = LARGEST) -> int:
    """Return a number that is at least 0; ValueError if it isn't one."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise ValueError(f"{number!r:.40} is no number that it can have")
    return number


def check_format(head: Any, newest: int) -> None:
    """Check a first line's format; Refused if it is newer."""
    if whole(head["format"]) > newest:
        raise Refused(
            "store-format-unsupported", "The snapshot is of a newer version of Aqueduct: take that one."
        )


class NumberedSnapshots(ABC, Generic[S]):
    """The snapshots of one thing in a store."""

    FORMAT: ClassVar[int]
    STORE: ClassVar[str]  # the object that says whose store it is
    FOLDER: ClassVar[str]
    SUFFIX: ClassVar[str]
    OF: ClassVar[str]  # as sentences name it

    def __init__(self, objects: Objects, trust: Trust = EVERYBODY, key: SigningKey | None = None) -> None:
        """`trust`: whose snapshots are believed; `key` signs new ones, which then are, too."""
        self._objects = objects
        self._trust = trust.also(key)
        self._key = key

    @staticmethod
    @abstractmethod
    def encode(snapshot: S) -> bytes:
        """Return a snapshot as an object has it."""

    @staticmethod
    @abstractmethod
    def decode(packed: Data) -> S:
        """Return an object's snapshot; Refused if it is newer.

        ValueError, KeyError or TypeError if it isn't one: nothing is believed that a backup would not write.
        """

    @staticmethod
    @abstractmethod
    def check(packed: bytes, snapshot: S) -> None:
        """Check that an object reads as this snapshot; errors as those of `decode`."""

    @staticmethod
    @abstractmethod
    def source(snapshot: S) -> str:
        """Name what was kept."""

    @abstractmethod
    def refusal(self, snapshot: S, before: str) -> str:
        """Say why a snapshot does not belong to those of the cluster `before`."""

    def less(self, snapshot: S, number: int) -> str:
        """Say that a snapshot has far less than an earlier one, as where that was lost; empty if not."""
        return ""

    @classmethod
    def open(
        cls,
        objects: Objects,
        trust: Trust = EVERYBODY,
        key: SigningKey | None = None,
        *,
        make: bool = False,
    ) -> Self:
        """Open what a store has; Refused if that is nothing, unless it is to be made."""
        content = json.dumps({"format": cls.FORMAT}).encode()
        if make:
            with suppress(Exists):
                objects.create(cls.STORE, content)
        try:
            newer = whole(strict_json.parse(objects.read(cls.STORE, at_most=4096))["format"]) > cls.FORMAT
        except MissingObject:
            raise Refused(
                "backup-missing", f"There is no backup of {cls.OF} in {objects.url}: {cls.STORE} is missing."
            ) from None
        except DamagedObject:
            check_listing(objects)
            raise
        except (ValueError, KeyError, TypeError):
            check_listing(objects)
            raise Failed(
                "store-identity-damaged", f"{objects.url}/{cls.STORE} is damaged: restore it from a copy."
            ) from None
        if newer:
            raise Refused(
                "store-format-unsupported", f"{objects.url} is of a newer version of Aqueduct: take that one."
            )
        return cls(objects, trust, key)

    @classmethod
    def context(cls) -> bytes:
        """Return what is signed before a snapshot, so that it is taken for nothing else that a key signs."""
        return f"aqueduct {cls.OF} snapshot\0".encode()

    @classmethod
    def path(cls, number: int) -> str:
        return f"{cls.FOLDER}/{number:020}{cls.SUFFIX}"

    def numbers(self) -> list[int]:
        """Return the number of every snapshot, ascending."""
        names = (entry.path.removeprefix(f"{self.FOLDER}/") for entry in self._objects.list(self.FOLDER))
        digits = (name.removesuffix(self.SUFFIX) for name in names if name.endswith(self.SUFFIX))
        return sorted(int(stem) for stem in digits if len(stem) == 20 and stem.isascii() and stem.isdecimal())

    def written(self) -> dict[int, int]:
        """Return when the store says that each snapshot was written; milliseconds since 1970."""
        times = {entry.path: int(entry.written * 1000) for entry in self._objects.list(self.FOLDER)}
        return {number: times[path] for number in self.numbers() if (path := self.path(number)) in times}

    def believed(self) -> Iterator[int]:
        """Yield the numbers of snapshots that a trusted key signed, the newest first; without a key, of all.

        What else somebody wrote there is passed over: it must stop no backup. So is what was signed as
        another number: who can read the store can copy it.
        """
        for number in reversed(self.numbers()):
            if not self._trust.keys:
                yield number
                continue
            with suppress(Failed):
                self.created(number)
                yield number

    def created(self, number: int) -> int:
        """Return when a snapshot says that it was made; Failed if it is damaged, or not believed."""
        path = self.path(number)
        try:
            head = loaded(first_line(opened(self._manifest(number))))
            if whole(head["number"]) != number:
                raise ValueError(f"it is snapshot {head['number']}")
            return whole(head["created"], LAST_MILLISECOND)
        except (ValueError, KeyError, TypeError) as error:
            raise Failed("snapshot-unusable", f"{self._objects.url}/{path} is damaged ({error}).") from None

    def _manifest(self, number: int) -> Data:
        """Return an object without its signature; Failed if none of the trusted keys signed it."""
        path = self.path(number)
        content = self._objects.read(path, at_most=MOST_BYTES)
        if flaw := self._trust.fault(number, content, self.context()):
            raise Failed(
                "snapshot-not-trusted",
                f"{self._objects.url}/{path} {flaw}. Find out who wrote it. `--snapshot` takes an older one.",
            )
        return signing.split(content).manifest

    def read(self, number: int | None = None, at_least: int | None = None) -> S:
        """Return a snapshot, or the newest; Refused without one, Failed if it is damaged or not believed.

        Failed, too, if it is older than `at_least`.
        """
        numbers = self.numbers()
        if not numbers:
            raise Refused("snapshot-missing", f"There is no snapshot in {self._objects.url} yet.")
        if number is not None and number not in numbers:
            raise Refused(
                "snapshot-missing",
                f"There is no snapshot {number} in {self._objects.url}; the newest is {numbers[-1]}.",
            )
        chosen = number or numbers[-1]
        if at_least is not None and chosen < at_least:
            raise Failed(
                "snapshot-too-old",
                f"Snapshot {chosen} is older than {at_least}, which was asked for at least: see who removed "
                f"newer ones from {self._objects.url}, and restore them from a copy.",
            )
        path = self.path(chosen)
        try:
            snapshot = self.decode(self._manifest(chosen))
        except (ValueError, KeyError, TypeError) as error:
            older = [candidate for candidate in numbers if candidate < chosen]
            other = f", or use an older one: --snapshot {older[-1]}" if older else ""
            raise Failed(
                "snapshot-unusable",
                f"{self._objects.url}/{path} is damaged ({error}): restore it from a copy{other}.",
            ) from None
        if snapshot.number != chosen:
            raise Failed(
                "snapshot-unusable",
                f"{self._objects.url}/{path} is damaged: it is snapshot {snapshot.number}.",
            )
        return snapshot

    def all(self) -> Iterator[S | Failed]:
        """Yield every snapshot, or why it can't be used."""
        for number in self.numbers():
            try:
                yield self.read(number)
            except Failed as error:
                yield error

    def add(self, snapshot: S) -> S:
        """Keep a snapshot under the next number; Refused if those before are of another cluster."""
        self._check_cluster(snapshot)
        number, taken = next(self.believed(), 0), set(self.numbers())
        while True:
            number += 1
            if number in taken:  # by one that is not believed
                continue
            if number not in NUMBERS:
                raise Failed(
                    "snapshot-forged",
                    f"{self._objects.url} has a snapshot {number - 1}, which no backup wrote: find out who "
                    "may write there, and move it out of the store.",
                )
            numbered = replace(snapshot, number=number)  # type: ignore[type-var]
            try:
                packed = self.encode(numbered)
                self.check(packed, numbered)
                if self._key:
                    packed = self._key.signed(packed, self.context())
            except (ValueError, KeyError, TypeError) as error:
                raise Failed(
                    "snapshot-not-readable-again",
                    f"{self.source(snapshot)} can't be kept so that it can be read again: {error}.",
                ) from None
            with suppress(Exists):  # another run took it
                self._objects.create(self.path(number), packed)
                return numbered

    def _check_cluster(self, snapshot: S) -> None:
        for number in self.believed():
            if self._tells(number, snapshot.cluster):
                if snapshot.cluster:
                    return
                continue
            with suppress(Failed):
                before = self.read(number).cluster
                if before == snapshot.cluster:
                    return
                if before:
                    raise Refused("cluster-mismatch", self.refusal(snapshot, before))

    def _tells(self, number: int, cluster: str | None) -> bool:
        """Tell whether a snapshot's first line names this cluster: it alone is read, so nothing is proved."""
        start = next(self._objects.stream(self.path(number), HEAD_BYTES), b"")
        try:
            unpacked = (
                zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).stream_reader(start).read(HEAD_BYTES)
            )
            head = loaded(unpacked.partition(b"\n")[0])
            return bool(head["format"] == self.FORMAT and head["cluster"] == cluster)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError):
            return False


@dataclass(frozen=True, kw_only=True)
class Kept(Generic[S]):
    """What a backup added to a store, and what it removed."""

    snapshot: S
    removed: tuple[int, ...] = ()  # numbers of older snapshots
    not_removed: str = ""  # why they stay, where they should have gone
    less: str = ""  # than the one before, far: the two sizes


def keep(
    kind: type[NumberedSnapshots[S]],
    objects: EditableObjects,
    snapshot: S,
    most: int | None = None,
    trust: Trust = EVERYBODY,
    key: SigningKey | None = None,
) -> Kept[S]:
    """Add a snapshot, and remove the oldest ones so that no more than `most` are kept.

    Only those count that can be read, that are believed, and whose times the store confirms. Refused or
    Failed where nothing is kept, as where trust asks for signatures and this snapshot would have none.
    """
    if trust.keys and not key:
        raise Refused(
            "option-required",
            "The backup trusts signed snapshots alone (--trusted-key) and has no key that signs. Pass "
            "--signing-key, or no restore accepts what it adds. Nothing was kept.",
        )
    snapshots = kind.open(objects, trust, key, make=True)
    before = next(snapshots.believed(), None)
    made = snapshots.add(snapshot)
    less = snapshots.less(made, before) if before else ""
    if not most:
        return Kept(snapshot=made, less=less)
    if not made.whole:
        return Kept(snapshot=made, not_removed="this one is not whole", less=less)
    gone: list[int] = []
    stay: list[str] = []
    try:
        for number in _going(snapshots, most, stay):
            # Also where others of less came between: what was lost may be in this one alone.
            if larger := snapshots.less(made, number):
                stay.append(f"{larger}; remove {objects.url}/{kind.path(number)} where that is meant")
                continue
            objects.remove(kind.path(number))
            gone.append(number)
    except AqueductError as error:
        stay.append(error.labelled.rstrip("."))
    return Kept(snapshot=made, removed=tuple(gone), not_removed="; ".join(stay), less=less)


def _going(snapshots: NumberedSnapshots[S], most: int, stay: list[str]) -> list[int]:
    """Return the oldest snapshots, those over `most`; say in `stay` which do not count, and why.

    Whoever may create objects could else remove all good ones, by as many as are kept.
    """
    clock = Clock()
    sound: list[int] = []
    unusable: list[int] = []
    doubtful: list[int] = []
    for number, written in sorted(snapshots.written().items()):
        try:
            created = snapshots.created(number)
        except Failed:
            unusable.append(number)
            continue
        _, doubt = clock.time(number, created, written)
        (doubtful if doubt else sound).append(number)
    if unusable:
        reason = "they are damaged, or no trusted key signed them, and they count for nothing"
        stay.append(str(Skipped(f"snapshots {', '.join(map(str, unusable))}", reason, "snapshot-unusable")))
    if doubtful:
        reason = "they say that they are over a day older than the store says, and they count for nothing"
        stay.append(
            str(Skipped(f"snapshots {', '.join(map(str, doubtful))}", reason, "snapshot-times-disagree"))
        )
    if clock.backwards:
        number, created, earlier = clock.backwards[0]
        reason = (
            f"it says that it was made at {timestamps.text(created)}, and one before it at "
            f"{timestamps.text(earlier)}, so none is removed"
        )
        stay.append(str(Skipped(f"snapshot {number}", reason, "snapshot-time-backwards")))
        return []
    return sound[:-most]
