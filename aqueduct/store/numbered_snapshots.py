"""Snapshots that are one numbered object each.

An object is compressed with zstd. Its first line describes the snapshot in JSON, and its last line has the
SHA-256 of all lines before it.
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
    """A snapshot: a dataclass."""

    @property
    def number(self) -> int: ...

    @property
    def cluster(self) -> str | None:
        """The id of the Kafka cluster; None without one."""

    @property
    def complete(self) -> bool:
        """Whether nothing was skipped."""


S = TypeVar("S", bound=NumberedSnapshot)


def seal(content: bytearray) -> bytes:
    """Add the digest to content and compress it. ValueError if readers would reject the result."""
    content += line({"sha256": hashlib.sha256(content).hexdigest()})
    return compress_frame(content, _most_unpacked, checksum=False)


def unsealed(packed: Data) -> memoryview:
    """Return an object's content. ValueError, KeyError or TypeError if it is damaged."""
    whole = decompress_frame(memoryview(packed), _most_unpacked(packed))
    end = whole.rfind(b"\n", 0, -1) + 1
    content = memoryview(whole)[:end]
    if parse_line(whole[end:], MOST_DIGEST_BYTES)["sha256"] != hashlib.sha256(content).hexdigest():
        raise ValueError("its digest differs from its content")
    return content


def _most_unpacked(packed: Data) -> int:
    return min(MOST_BYTES, max(LEAST_UNPACKED, UNPACKED_FACTOR * len(packed)))


def line(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse_line(text: bytes, most_bytes: int = MOST_LINE_BYTES) -> Any:
    """Parse a line. ValueError if it is not JSON, or would need far more memory than its size."""
    if len(text) > most_bytes:
        raise ValueError(f"it has a line of {len(text):,} bytes, but at most {most_bytes:,} are valid")
    most = FEW_VALUES + len(text) // LEAST_VALUE
    if json_density.has_more(text, json_density.VALUES, most):
        raise ValueError("it has a line with too many values for its size")
    return parsed(text)


def parsed(text: bytes) -> Any:
    """Parse untrusted JSON. ValueError if it is invalid."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def first_line(content: memoryview) -> bytes:
    """Return the first line, which describes a snapshot. ValueError if it is too long or has no end."""
    end = bytes(content[: MOST_LINE_BYTES + 1]).find(b"\n") + 1
    if not end:
        raise ValueError(f"its first line has more than {MOST_LINE_BYTES:,} bytes, or no end")
    return bytes(content[:end])


def natural_number(number: object, most: int = LARGEST) -> int:
    """Return an integer from 0 to `most`. ValueError for other values."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise ValueError(f"{number!r:.40} is not a valid number")
    return number


def check_format(head: Any, newest: int) -> None:
    """Check a first line's format; Refused if it is newer."""
    if natural_number(head["format"]) > newest:
        raise Refused(
            "store-format-unsupported",
            "A newer version of Aqueduct wrote the snapshot. Use that version.",
        )


class NumberedSnapshots(ABC, Generic[S]):
    """The snapshots of one thing in a store."""

    FORMAT: ClassVar[int]
    STORE: ClassVar[str]  # the object that identifies the store
    FOLDER: ClassVar[str]
    SUFFIX: ClassVar[str]
    OF: ClassVar[str]  # its name in sentences

    def __init__(self, objects: Objects, trust: Trust = EVERYBODY, key: SigningKey | None = None) -> None:
        """`trust`: the keys of accepted snapshots; `key` signs new ones, and is accepted, too."""
        self._objects = objects
        self._trust = trust.also(key)
        self._key = key

    @staticmethod
    @abstractmethod
    def encode(snapshot: S) -> bytes:
        """Return a snapshot as the content of an object."""

    @staticmethod
    @abstractmethod
    def decode(packed: Data) -> S:
        """Parse an object's snapshot. Refused if its format is newer.

        ValueError, KeyError or TypeError if it is not a snapshot as a backup writes it.
        """

    @staticmethod
    @abstractmethod
    def check(packed: bytes, snapshot: S) -> None:
        """Check that an object contains this snapshot; errors as in `decode`."""

    @staticmethod
    @abstractmethod
    def source(snapshot: S) -> str:
        """Return the source of the snapshot, for sentences."""

    @abstractmethod
    def refusal(self, snapshot: S, before: str) -> str:
        """Return the refusal of a snapshot in a store of the cluster `before`."""

    def loss_warning(self, snapshot: S, number: int) -> str:
        """Return a phrase if a snapshot has far less than an earlier one, as after a loss; else empty."""
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
        """Open the snapshots in a store. Refused if it has none, unless `make`."""
        content = json.dumps({"format": cls.FORMAT}).encode()
        if make:
            with suppress(Exists):
                objects.create(cls.STORE, content)
        try:
            newer = (
                natural_number(strict_json.parse(objects.read(cls.STORE, at_most=4096))["format"])
                > cls.FORMAT
            )
        except MissingObject:
            raise Refused(
                "backup-missing",
                f"{objects.url} has no backup of {cls.OF}: {cls.STORE} is missing. Check the URL.",
            ) from None
        except DamagedObject:
            check_listing(objects)
            raise
        except (ValueError, KeyError, TypeError):
            check_listing(objects)
            raise Failed(
                "store-identity-damaged",
                f"{objects.url}/{cls.STORE} is damaged. Restore it from a copy of the store.",
            ) from None
        if newer:
            raise Refused(
                "store-format-unsupported",
                f"A newer version of Aqueduct wrote {objects.url}. Use that version.",
            )
        return cls(objects, trust, key)

    @classmethod
    def context(cls) -> bytes:
        """Return the prefix of signed bytes, which separates snapshots from other signed data."""
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
        """Return the store's time of each snapshot, in milliseconds since 1970."""
        times = {entry.path: int(entry.written * 1000) for entry in self._objects.list(self.FOLDER)}
        return {number: times[path] for number in self.numbers() if (path := self.path(number)) in times}

    def trusted_numbers(self) -> Iterator[int]:
        """Yield the numbers of snapshots with a trusted signature, newest first; without keys, of all.

        Other objects are skipped, because planted objects must not stop a backup. Signed copies of a snapshot
        under another number are skipped, too.
        """
        for number in reversed(self.numbers()):
            if not self._trust.keys:
                yield number
                continue
            with suppress(Failed):
                self.created(number)
                yield number

    def created(self, number: int) -> int:
        """Return the time in a snapshot. Failed if the snapshot is damaged or not trusted."""
        path = self.path(number)
        try:
            head = parse_line(first_line(unsealed(self._manifest(number))))
            if natural_number(head["number"]) != number:
                raise ValueError(f"it contains snapshot {head['number']}")
            return natural_number(head["created"], LAST_MILLISECOND)
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(
                "snapshot-unusable",
                f"{self._objects.url}/{path} is damaged ({error}). Restore it from a copy.",
            ) from None

    def _manifest(self, number: int) -> Data:
        """Return an object without its signature. Failed if no trusted key signed it."""
        path = self.path(number)
        content = self._objects.read(path, at_most=MOST_BYTES)
        if flaw := self._trust.fault(number, content, self.context()):
            raise Failed(
                "snapshot-not-trusted",
                f"{self._objects.url}/{path} {flaw}. Find out who wrote it. Pass an older snapshot with "
                "--snapshot.",
            )
        return signing.split(content).manifest

    def read(self, number: int | None = None, at_least: int | None = None) -> S:
        """Return a snapshot, by default the newest. Refused if there is none.

        Failed if it is damaged, not trusted, or has a number below `at_least`.
        """
        numbers = self.numbers()
        if not numbers:
            raise Refused("snapshot-missing", f"{self._objects.url} has no snapshots. Run the backup first.")
        if number is not None and number not in numbers:
            raise Refused(
                "snapshot-missing",
                f"{self._objects.url} has no snapshot {number}. The newest snapshot is {numbers[-1]}.",
            )
        chosen = number or numbers[-1]
        if at_least is not None and chosen < at_least:
            raise Failed(
                "snapshot-too-old",
                f"Snapshot {chosen} is older than snapshot {at_least}, which --at-least requires. Find out "
                f"why {self._objects.url} lacks newer snapshots, and restore them from a copy.",
            )
        path = self.path(chosen)
        try:
            snapshot = self.decode(self._manifest(chosen))
        except (ValueError, KeyError, TypeError) as error:
            older = [candidate for candidate in numbers if candidate < chosen]
            other = f", or use an older snapshot: --snapshot {older[-1]}" if older else ""
            raise Failed(
                "snapshot-unusable",
                f"{self._objects.url}/{path} is damaged ({error}). Restore it from a copy{other}.",
            ) from None
        if snapshot.number != chosen:
            raise Failed(
                "snapshot-unusable",
                f"{self._objects.url}/{path} is damaged: it contains snapshot {snapshot.number}. Restore it "
                "from a copy.",
            )
        return snapshot

    def all(self) -> Iterator[S | Failed]:
        """Yield every snapshot, or the error of an unusable one."""
        for number in self.numbers():
            try:
                yield self.read(number)
            except Failed as error:
                yield error

    def add(self, snapshot: S) -> S:
        """Store a snapshot with the next number. Refused if earlier ones are of another cluster."""
        self._check_cluster(snapshot)
        number, taken = next(self.trusted_numbers(), 0), set(self.numbers())
        while True:
            number += 1
            if number in taken:  # by an object that is not trusted
                continue
            if number not in NUMBERS:
                raise Failed(
                    "snapshot-forged",
                    f"{self._objects.url} has a snapshot {number - 1}, which no backup wrote. Find out who "
                    "has write access to the store, and move the object out of it.",
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
                    f"A snapshot of {self.source(snapshot)} could not be read again: {error}. Nothing was "
                    "kept. Report this as an error of Aqueduct.",
                ) from None
            with suppress(Exists):  # another run took it
                self._objects.create(self.path(number), packed)
                return numbered

    def _check_cluster(self, snapshot: S) -> None:
        for number in self.trusted_numbers():
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
        """Return whether a snapshot's first line has this cluster id. The rest is not verified."""
        start = next(self._objects.stream(self.path(number), HEAD_BYTES), b"")
        try:
            unpacked = (
                zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).stream_reader(start).read(HEAD_BYTES)
            )
            head = parse_line(unpacked.partition(b"\n")[0])
            return bool(head["format"] == self.FORMAT and head["cluster"] == cluster)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError):
            return False


@dataclass(frozen=True, kw_only=True)
class Kept(Generic[S]):
    """The snapshot that a backup added to a store, and the snapshots that it removed."""

    snapshot: S
    removed: tuple[int, ...] = ()  # numbers of older snapshots
    not_removed: str = ""  # why older snapshots were not removed
    less: str = ""  # both sizes, if it is far smaller than the previous one


def keep_snapshot(
    kind: type[NumberedSnapshots[S]],
    objects: EditableObjects,
    snapshot: S,
    most: int | None = None,
    trust: Trust = EVERYBODY,
    key: SigningKey | None = None,
) -> Kept[S]:
    """Store a snapshot, and remove the oldest ones beyond `most`.

    Only readable and trusted snapshots count, whose times agree with the store. Refused or Failed if nothing
    is kept, for example if `trust` requires signatures and `key` is missing.
    """
    if trust.keys and not key:
        raise Refused(
            "option-required",
            "The backup accepts only signed snapshots (--trusted-key), but has no signing key. Pass "
            "--signing-key. Nothing was kept.",
        )
    snapshots = kind.open(objects, trust, key, make=True)
    before = next(snapshots.trusted_numbers(), None)
    made = snapshots.add(snapshot)
    less = snapshots.loss_warning(made, before) if before else ""
    if not most:
        return Kept(snapshot=made, less=less)
    if not made.complete:
        return Kept(snapshot=made, not_removed="this snapshot is incomplete", less=less)
    gone: list[int] = []
    stay: list[str] = []
    try:
        for number in _going(snapshots, most, stay):
            # Compared with each one, because only this one may have the lost content.
            if larger := snapshots.loss_warning(made, number):
                stay.append(f"{larger}; if this is correct, remove {objects.url}/{kind.path(number)}")
                continue
            objects.remove(kind.path(number))
            gone.append(number)
    except AqueductError as error:
        stay.append(error.labelled.rstrip("."))
    return Kept(snapshot=made, removed=tuple(gone), not_removed="; ".join(stay), less=less)


def _going(snapshots: NumberedSnapshots[S], most: int, stay: list[str]) -> list[int]:
    """Return the oldest snapshots beyond `most`. Add to `stay` the ones that do not count, with the reason.

    Else a writer could make a backup remove all valid snapshots, by planting `most` others.
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
        reason = "they are damaged, or no trusted key signed them, so they do not count"
        stay.append(str(Skipped(f"snapshots {', '.join(map(str, unusable))}", reason, "snapshot-unusable")))
    if doubtful:
        reason = "their times are more than a day before the times in the store, so they do not count"
        stay.append(
            str(Skipped(f"snapshots {', '.join(map(str, doubtful))}", reason, "snapshot-times-disagree"))
        )
    if clock.backwards:
        number, created, earlier = clock.backwards[0]
        reason = (
            f"its time is {timestamps.text(created)}, but an earlier snapshot has "
            f"{timestamps.text(earlier)}, so "
            "no snapshot is removed"
        )
        stay.append(str(Skipped(f"snapshot {number}", reason, "snapshot-time-backwards")))
        return []
    return sound[:-most]
