"""Small objects that would cost their readers much memory, many errors or all of their time."""

import base64
import hashlib
import json
import os
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
import zstandard
from kit.identifiers import raises
from kit.key_pairs import Pair
from kit.manifests import manifest

from aqueduct.common import timestamps
from aqueduct.common.keys import Algorithm, ReceiverKey
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.quorum.snapshots import QuorumSnapshots
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot, ZnodeSnapshots
from aqueduct.recovery.zookeeper.znodes import Right, Znode
from aqueduct.store import manifest as manifests
from aqueduct.store import names, numbered_snapshots
from aqueduct.store.backends import open_editable
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKind
from aqueduct.store.keyring import MOST_RECIPIENTS, Keyring
from aqueduct.store.manifest import Chain
from aqueduct.store.numbered_snapshots import Kept
from aqueduct.store.objects import DamagedObject, Data, EditableObjects, Entry
from aqueduct.store.signing import Trust
from aqueduct.store.snapshots import Broken

MEGABYTES = 300
BIG = 20 << 20  # more than any line may have
DENSE = 15 << 20
STORE = b'{"format":1,"id":"x"}'


@contextmanager
def bounded(megabytes: int = MEGABYTES) -> Iterator[None]:
    """Hold that what is done takes no more memory."""
    tracemalloc.start()
    try:
        yield
    finally:  # also after an error
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < megabytes << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "store").mkdir()
    return folder


@pytest.fixture
def objects(folder: Path) -> EditableObjects:
    return open_editable(folder.as_uri(), private=True)


# Snapshots of ZooKeeper and of quorums


def snapshot() -> ZnodeSnapshot:
    znodes = {path: Znode(path, b"", (Right(31, "world", "anyone"),), 0) for path in ("/", "/a")}
    return ZnodeSnapshot(
        number=0, created=timestamps.now(), connect="host:2181", cluster="ours", zxid=1, znodes=znodes
    )


def keep(objects: EditableObjects) -> Kept[ZnodeSnapshot]:
    return numbered_snapshots.keep_snapshot(ZnodeSnapshots, objects, snapshot(), 3)


def packed(content: bytes, end: bytes = b"") -> bytes:
    digest = json.dumps({"sha256": hashlib.sha256(content).hexdigest()}).encode() + b"\n"
    return zstandard.ZstdCompressor().compress(content + (end or digest))


def head(more: bytes = b"0") -> bytes:
    known = b'"number":2,"created":1,"connect":"a:1","zxid":1,"ephemeral":[],"left_out":[],"counters":[]'
    return b'{"format":2,"cluster":"theirs",%b,"moving":[],"more":%b}\n' % (known, more)


def arrays(size: int) -> bytes:
    return b"[" + b"[]," * (size // 3) + b"0]"


def members(size: int) -> bytes:
    return b"{" + b'"ab":1,' * (size // 7) + b'"a":1}'


COSTLY: dict[str, Callable[[], bytes]] = {
    "long first line": lambda: packed(head(arrays(BIG))),
    "first line of arrays": lambda: packed(head(arrays(DENSE))),
    "first line of members": lambda: packed(head(members(DENSE))),
    "endless first line": lambda: packed(b"[" * BIG),
    "znode of arrays": lambda: packed(head() + b'{"path":"/","x":' + arrays(DENSE) + b"}\n"),
    "long znode": lambda: packed(head() + b'{"path":"/","x":' + arrays(BIG) + b"}\n"),
    "last line of arrays": lambda: packed(head(), b'{"sha256":' + arrays(BIG) + b"}\n"),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_dense_snapshot_stops_no_backup(kind: str, objects: EditableObjects) -> None:
    """6 KB of it took 1.7 GB, at each backup."""
    keep(objects)
    content = COSTLY[kind]()
    assert len(content) < 100_000
    objects.create(ZnodeSnapshots.path(2), content)
    with bounded():
        kept = keep(objects)
    assert kept.snapshot.number == 3
    assert ("[snapshot-unusable] snapshots 2: " in kept.not_removed) == ("znode" not in kind)
    with raises(Failed, "snapshot-unusable", ZnodeSnapshots.path(2)), bounded():
        ZnodeSnapshots.open(objects).read(2)


def test_dense_quorum_snapshot_is_damaged(objects: EditableObjects) -> None:
    objects.create(QuorumSnapshots.STORE, b'{"format":1}')
    about = head(arrays(DENSE)).replace(b'"format":2', b'"format":1')
    objects.create(QuorumSnapshots.path(2), packed(about))
    stored = QuorumSnapshots.open(objects)
    for read in (stored.read, stored.created):
        with raises(Failed, "snapshot-unusable", QuorumSnapshots.path(2)), bounded():
            read(2)


def test_large_znodes_and_long_access_lists_are_kept(objects: EditableObjects) -> None:
    """The limits are above what an ensemble has."""
    rights = tuple(Right(31, "sasl", f"user-{number}") for number in range(3_000))
    znodes = {
        "/": Znode("/", os.urandom(10 << 20), rights, 0),
        "/b": Znode("/b", base64.b64encode(bytes(9)), (), 0),
    }
    left_out = tuple((f"/a/{number}", "no right to read it") for number in range(20_000))
    made = ZnodeSnapshot(
        number=0, created=1, connect="a:1", cluster=None, zxid=1, znodes=znodes, left_out=left_out
    )
    kept = numbered_snapshots.keep_snapshot(ZnodeSnapshots, objects, made)
    assert ZnodeSnapshots.open(objects).read().znodes == kept.snapshot.znodes


@pytest.mark.parametrize(
    "content",
    ["[" * 4000, '{"format":NaN}', '{"format":true}', '{"format":-1}', f'{{"format":{"9" * 4000}}}', "[]"],
)
@pytest.mark.parametrize("kind", [ZnodeSnapshots, QuorumSnapshots])
def test_impossible_format_is_damage(
    content: str, kind: type[ZnodeSnapshots] | type[QuorumSnapshots], objects: EditableObjects
) -> None:
    objects.create(kind.STORE, content.encode())
    with raises(Failed, "store-identity-damaged", kind.STORE):
        kind.open(objects)


# Manifests


def fields() -> bytes:
    names_of_fields = ("".join(letters) for letters in product(ascii_lowercase, repeat=4))
    return b",\n".join(f'"{name}":1'.encode() for name in islice(names_of_fields, 200_000))


LINES = {
    "empty": lambda: b",\n" * ((4 << 20) // 2),
    "one field": lambda: b",\n".join([b'"a":1'] * 200_000),
    "many fields": fields,
}


@pytest.mark.parametrize("kind", LINES)
def test_manifest_of_many_lines_is_not_split(kind: str) -> None:
    """1.5 KB took 710 MB."""
    text = b"{" + LINES[kind]() + b"}"
    content = zstandard.ZstdCompressor().compress(text)
    with raises(Failed, "object-damaged", "snapshot 2"), bounded(32):
        manifests.unpack(content, "snapshot 2")


def test_largest_number_of_lines_is_read() -> None:
    """Each field that is written only where it is needed is."""
    made = manifest(lifecycle={"t": 1}, generation_ends={("t", 1): (1,)})
    assert manifests.unpack(manifests.pack(made), "snapshot 1") == made


@dataclass
class Counted:
    """A store that counts the bytes that are read ahead of their reader."""

    objects: dict[str, bytes]
    url: str = "memory://store"
    sizes: list[int] = field(default_factory=list)

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        content = self.objects[path]
        if path != names.STORE:
            self.sizes.append(len(content))
        return memoryview(content)

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        for path, content in sorted(self.objects.items()):
            if path.startswith(f"{prefix}/"):
                yield Entry(path, len(content), 0)

    def create(self, path: str, data: Data) -> None:
        raise NotImplementedError

    def head(self, path: str) -> int | None:
        raise NotImplementedError

    def stream(self, path: str, chunk_bytes: int = 0) -> Iterator[memoryview]:
        raise NotImplementedError


@pytest.mark.parametrize(("megabytes", "ahead"), [(1, 16), (10, 6), (63, 1), (200, 1)])
def test_large_manifests_are_not_read_ahead(megabytes: int, ahead: int) -> None:
    """16 of 150 MB took 2.4 GB, though none was signed."""
    content = bytes(megabytes << 20)
    store = Counted({names.STORE: STORE, **{names.snapshot(number): content for number in range(1, 33)}})
    trust = Trust(frozenset({bytes(32)}))
    used = 0
    for outcome in Catalog.open(store, trust).summaries():
        assert isinstance(outcome, Broken)
        assert len(store.sizes) - used <= ahead
        used += 1
    assert used == 32


def test_manifest_is_read_up_to_listed_size(folder: Path, objects: EditableObjects) -> None:
    objects.create(names.STORE, STORE)
    objects.create(names.snapshot(1), b"1234")
    opened = Catalog.open(objects)
    listed = {1: opened.listed()[1]._replace(size=3)}
    with raises(Broken, "snapshot-unusable", names.snapshot(1)):
        next(opened.every(listed))


def far(number: int) -> bytes:
    chain = Chain(
        number=number, parent=number - 1, parent_sha256="0", base=1, base_bytes=0, increments_bytes=0
    )
    return manifests.pack(manifest(chain=chain, store="x"))


def test_omitted_numbers_make_one_error(objects: EditableObjects, capsys: pytest.CaptureFixture[str]) -> None:
    """1,000 small manifests made a million errors of 500 MB."""
    from aqueduct.cli import main

    objects.create(names.STORE, STORE)
    for number in (1000, 2000, 3000):
        objects.create(names.snapshot(number), far(number))
    found = [
        (outcome.number, getattr(outcome, "through", 0)) for outcome in Catalog.open(objects).summaries()
    ]
    assert found == [(1, 999), (1000, 1000), (1001, 1999), (2000, 2000), (2001, 2999), (3000, 3000)]
    assert main(["snapshots", "--store", objects.url]) == 1
    said = capsys.readouterr()
    assert "1001 to 1999  are lost" in said.out
    assert "3,000 snapshots of " in said.err
    assert main(["snapshots", "--store", objects.url, "--json"]) == 1
    assert "Snapshots 2001 to 2999 are lost." in capsys.readouterr().err


# Keys


@pytest.mark.parametrize("rows", [7_000, MOST_RECIPIENTS + 1, 2])
def test_rows_of_one_recipient_cost_no_attempt(
    rows: int, folder: Path, objects: EditableObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 MiB of rows cost a second, and anybody can write more such objects."""
    pair = Pair(tmp_path, "mine")
    key = Keyring(objects).create(DataKind.MANIFEST, [pair.key.public])
    recipients = [f"{number:064x}" for number in range(rows - 1)] if rows == MOST_RECIPIENTS + 1 else []
    wrapped = [[recipient, "AAAA"] for recipient in [pair.fingerprint, *recipients]]
    wrapped += wrapped[:1] * (rows - len(wrapped))
    planted = json.dumps({"format": 1, "kind": key.kind, "wrapped": wrapped}).encode()
    (folder / names.key(key.id, 2)).write_bytes(planted)
    attempts: list[bytes] = []
    opened = ReceiverKey.open

    def count(self: ReceiverKey, *arguments: Any) -> bytes:
        attempts.append(b"")
        return opened(self, *arguments)

    monkeypatch.setattr(ReceiverKey, "open", count)
    assert Keyring(objects, [pair.key]).open(key.id, DataKind.MANIFEST, "it") == key
    assert len(attempts) == 1


def test_key_for_too_many_recipients_is_unwritten(objects: EditableObjects) -> None:
    public = [ReceiverKey.generate(Algorithm.X25519).public for _ in range(MOST_RECIPIENTS)]
    with raises(Refused, "recipients-too-many", f"{MOST_RECIPIENTS:,}"):
        Keyring(objects).create(DataKind.RECORDS, public)
    assert list(objects.list("keys")) == []
    Keyring(objects).create(DataKind.RECORDS, public[1:] + public[1:])
    assert len(list(objects.list("keys"))) == 1


# A store in a directory


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def linked_object(path: Path) -> None:
    (path.parent.parent / "other").write_bytes(STORE)
    path.symlink_to(path.parent.parent / "other")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


PLANTED = [link, linked_object, pipe, listening, Path.mkdir]


@pytest.fixture
def reads(objects: EditableObjects) -> list[Callable[[str], object]]:
    return [
        objects.read,
        lambda path: objects.read(path, at_most=100),
        lambda path: next(objects.stream(path)),
    ]


@pytest.mark.parametrize("plant", PLANTED)
def test_only_files_are_objects_of_directory(
    plant: Callable[[Path], None],
    folder: Path,
    objects: EditableObjects,
    reads: list[Callable[[str], object]],
) -> None:
    """A link to /dev/zero has a size of 0 and no end; a pipe is waited for."""
    plant(folder / "planted")
    for read in reads:
        with raises(DamagedObject, "object-damaged", "planted"):
            read("planted")
    if plant is not Path.mkdir:
        assert [entry.path for entry in objects.list("")] == ["planted"]
        assert (objects.head("planted") or 0) == next(objects.list("")).size < 100


@pytest.mark.parametrize("plant", [link, pipe])
def test_planted_link_or_pipe_is_one_broken_snapshot(
    plant: Callable[[Path], None], folder: Path, objects: EditableObjects
) -> None:
    objects.create(names.STORE, STORE)
    objects.create(names.snapshot(1), manifests.pack(manifest(store="x")))
    plant(folder / names.snapshot(2))
    found = [getattr(outcome, "why", "") for outcome in Catalog.open(objects).summaries()]
    assert found[0] == ""
    assert names.snapshot(2) in found[1]


@pytest.mark.parametrize("plant", PLANTED)
def test_planted_store_json_is_damage(
    plant: Callable[[Path], None], folder: Path, objects: EditableObjects
) -> None:
    plant(folder / names.STORE)
    with raises(Failed, "store-identity-damaged", names.STORE):
        Catalog.open(objects)


def test_growing_object_is_read_once(
    folder: Path, objects: EditableObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is that of the moment when it is opened."""
    (folder / "planted").write_bytes(b"12")
    status = os.fstat

    def grow(descriptor: int) -> os.stat_result:
        before = status(descriptor)
        with (folder / "planted").open("ab") as file:
            file.write(bytes(1 << 20))
        return before

    monkeypatch.setattr(os, "fstat", grow)
    with raises(DamagedObject, "object-damaged", "planted"):
        objects.read("planted", at_most=1 << 21)
