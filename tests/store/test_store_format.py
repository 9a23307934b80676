"""docs/store-format.md is true and complete: a reader written from it reads what the product writes."""

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import made_store
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kit import store_format_reader
from kit.foreign_stores import KafkaBackup, Row
from kit.store_format_reader import DamagedStoreError, PrivateKey, StoredRecord, StoreFormatReader

from aqueduct.cli import main
from aqueduct.common.keys import Algorithm, ReceiverKey
from aqueduct.errors import ExitCode
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.quotas import Quota
from aqueduct.recovery.quorum import snapshots as quorum_snapshots
from aqueduct.recovery.quorum.metadata import Metadata
from aqueduct.recovery.quorum.snapshots import QuorumSnapshot, QuorumSnapshots
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot, ZnodeSnapshots
from aqueduct.recovery.zookeeper.znodes import Right, Znode
from aqueduct.store import manifest, names, signing
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKind
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import Chain, Manifest, StoredGroup, StoredPartition, StoredTopic
from aqueduct.store.segments import SegmentLimits, Writer

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/store-format.md"
FIRST_VERSION = Path(__file__).parent / "format_1"


def flight_records(offsets: Iterable[int]) -> list[StoredRecord]:
    """Return the records that made_store writes at these offsets."""
    return [
        StoredRecord(
            offset,
            made_store.BEGAN + 1000 * offset,
            b"N%d" % (offset % 5),
            None if offset % 7 == 0 else b"flight %d" % offset,
            [],
        )
        for offset in offsets
    ]


def check_made_store(folder: Path) -> None:
    """Compare a store of made_store with the records that were written."""
    reader = StoreFormatReader(folder)
    assert reader.id == made_store.ID
    assert reader.numbers() == [1, 2, 3]
    first, newest = reader.snapshot(1), reader.snapshot(3)
    assert first.records("flights", 1, 0) == flight_records(range(40))
    assert newest.records("flights", 1, 0) == flight_records(range(45))
    assert newest.records("flights", 1, 1) == flight_records(range(3))
    assert newest.gap_ranges("flights", 1, 1) == [(3, 7)]
    assert newest.records("flights", 1, 2) == []
    assert newest.records("planes", 1, 0) == flight_records([0, 3, 5, 8])
    assert newest.records("planes", 2, 0) == flight_records([3, 8, 9, 11])
    assert newest.records("airports", 2, 0) == flight_records([0])
    assert [(each["number"], each["state"]) for each in newest.instances("planes")] == [
        (1, "PASSIVATE"),
        (2, "ACTIVATE"),
    ]
    assert newest.group_offsets("readers") == {("flights", 0): 3}
    assert newest.manifest["acls"] == [
        vars(Acl(principal="User:a", resource="topic", name="flights", pattern="literal", operation="read"))
    ]
    assert newest.manifest["quotas"] == [vars(Quota({"user": "a"}, {"producer_byte_rate": 1048576.0}))]


def test_reader_reads_store_of_first_version() -> None:
    check_made_store(FIRST_VERSION)


def test_reader_reads_store_of_this_version(tmp_path: Path) -> None:
    made_store.make(tmp_path.as_uri())
    check_made_store(tmp_path)


def test_reader_reads_imported_snapshot(tmp_path: Path) -> None:
    rows = [
        Row(
            offset,
            1_700_000_000_000 + offset,
            None if offset % 5 == 0 else b"" if offset % 9 == 0 else b"key-%d" % offset,
            None if offset % 7 == 0 else b"" if offset % 11 == 0 else b"value-%d-" % offset * 30,
            [
                (f"h\u00e9{number % 2}", None if number == 1 else b"v%d" % number)
                for number in range(offset % 4)
            ],
        )
        for offset in range(5, 5_000)
    ]
    source = KafkaBackup(tmp_path / "source")
    source.topic("orders", 2)
    source.gap("orders", 1, 0, 5)
    source.add("orders", 1, rows[:3_000])
    source.add("orders", 1, rows[3_000:])
    url, store = source.finish({"billing": {"orders": {"1": 50}}}), tmp_path / "store"

    argv = ["import", "--from", url, "--format", "kafka-backup", "--store", store.as_uri()]
    assert main(argv) == ExitCode.INCOMPLETE

    snapshot = StoreFormatReader(store).snapshot(1)
    expected = [StoredRecord(row.offset, row.time, row.key, row.value, [*row.headers]) for row in rows]
    assert snapshot.records("orders", 1, 1) == expected
    assert snapshot.records("orders", 1, 0) == []
    assert snapshot.gap_ranges("orders", 1, 1) == [(0, 5)]
    assert snapshot.group_offsets("billing") == {("orders", 1): 50}


@pytest.fixture
def key_files(tmp_path: Path) -> list[Path]:
    """Return the private key files of two recipients, one for each algorithm."""
    folder = tmp_path / "recipients"
    for name, algorithm in (("hybrid", Algorithm.HYBRID), ("classic", Algorithm.X25519)):
        key = ReceiverKey.generate(algorithm)
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.key").write_text(key.text())
        (folder / f"{name}.key").chmod(0o600)
        (folder / f"{name}.pub").write_text(key.public.text())
    return [folder / "hybrid.key", folder / "classic.key"]


LARGE = range(60_000)  # records of more than one encrypted frame


@pytest.fixture
def protected(tmp_path: Path, key_files: list[Path]) -> tuple[Path, bytes]:
    """Return a store whose snapshots are signed and encrypted, and the public key that signed them."""
    folder = tmp_path / "protected"
    objects = open_store(folder.as_uri())
    recipients = [ReceiverKey.parse(path.read_text(), path.name) for path in key_files]
    ring = Keyring(objects, recipients[:1])
    signing_key = signing.SigningKey(Ed25519PrivateKey.generate())
    catalog = Catalog.open_or_make(objects, signing.EVERYBODY.also(signing_key), ring)
    public = [each.public for each in recipients]
    for number, offsets in enumerate((LARGE[:40_000], LARGE[40_000:]), 1):
        key = ring.create(DataKind.RECORDS, public)
        writer = Writer(
            objects,
            StoredPartition("flights", 1, 0),
            key.id,
            offsets.start,
            generation=False,
            limits=SegmentLimits(),
            key=key,
        )
        writer.add([made_store.batch(offsets, "gzip" if number == 2 else "none")], offsets.stop)
        segment = writer.finish()
        assert segment
        increment = Manifest(
            chain=catalog.parent().follow(),
            store=catalog.id,
            run=key.id,
            created=number,
            started=number,
            ended=number,
            cluster="cluster",
            version="0.1.0",
            options={},
            starts={("flights", 1): (0,)},
            positions={("flights", 1): (offsets.stop,)},
            topics=(made_store.stored_topic("flights", 1, made_store.instance(1)),),
            segments=(segment._replace(expires=2**40),),
            gaps=(),
            groups=(),
            acls=(),
            quotas=(),
            open_transactions=(),
            groups_ahead=(),
            lifecycle={"flights": 7},
        )
        catalog.commit(increment, signing_key, ring.create(DataKind.MANIFEST, public))
    return folder, signing_key.public


@pytest.mark.parametrize("recipient", [0, 1])
def test_reader_reads_signed_encrypted_store(
    protected: tuple[Path, bytes], key_files: list[Path], recipient: int
) -> None:
    folder, signer = protected
    assert b"flight 1" not in b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    reader = StoreFormatReader(folder, [PrivateKey(key_files[recipient])], [signer])
    snapshot = reader.snapshot(2)
    assert len({row["run"] for row in snapshot.segments}) == 2
    assert snapshot.records("flights", 1, 0) == flight_records(LARGE)


def test_reader_reads_rewrapped_keys(
    protected: tuple[Path, bytes], key_files: list[Path], tmp_path: Path
) -> None:
    folder, _ = protected
    successor = ReceiverKey.generate(Algorithm.X25519)
    (tmp_path / "successor.key").write_text(successor.text())
    (tmp_path / "successor.pub").write_text(successor.public.text())
    reader = StoreFormatReader(folder, [PrivateKey(tmp_path / "successor.key")])
    with pytest.raises(DamagedStoreError):
        reader.snapshot(2)
    argv = ["rewrap", "--store", folder.as_uri(), "--private-key", str(key_files[0])]
    assert main([*argv, "--recipient", str(tmp_path / "successor.pub")]) == ExitCode.DONE
    assert reader.snapshot(2).records("flights", 1, 0) == flight_records(LARGE)


def test_reader_rejects_untrusted_signature(protected: tuple[Path, bytes], key_files: list[Path]) -> None:
    folder, _ = protected
    with pytest.raises(DamagedStoreError):
        StoreFormatReader(folder, [PrivateKey(key_files[0])], [b"\0" * 32]).snapshot(2)


@pytest.mark.parametrize("pattern", ["topics/flights/0/*40.0b.log", "topics/flights/0/*40.0b.index"])
def test_reader_detects_changed_objects(tmp_path: Path, pattern: str) -> None:
    made_store.make(tmp_path.as_uri())
    [path] = tmp_path.glob(pattern)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    snapshot = StoreFormatReader(tmp_path).snapshot(3)
    with pytest.raises(DamagedStoreError):
        snapshot.records("flights", 1, 0)


def test_reader_detects_exchanged_parent(tmp_path: Path) -> None:
    made_store.make((tmp_path / "one").as_uri())
    made_store.make((tmp_path / "other").as_uri())
    catalog = Catalog.open(open_store((tmp_path / "one").as_uri()))
    changed = manifest.pack(replace(catalog.manifest(2), created=1))
    (tmp_path / "other" / names.snapshot(2)).write_bytes(changed)
    reader = StoreFormatReader(tmp_path / "other")
    assert reader.snapshot(2).manifest["created"] == 1
    with pytest.raises(DamagedStoreError):
        reader.snapshot(3)


def test_reader_reads_znode_snapshot(tmp_path: Path) -> None:
    znodes = [
        Znode("/", b"", (Right(31, "world", "anyone"),), 0),
        Znode("/brokers", None, (Right(1, "digest", "a:b"), Right(31, "x509", "CN=kafka")), 3),
    ]
    snapshot = ZnodeSnapshot(
        number=0,
        created=5,
        connect="localhost:2181",
        cluster="cluster",
        zxid=77,
        znodes={each.path: each for each in znodes},
        ephemeral=("/controller",),
    )
    kept = ZnodeSnapshots.open(open_editable(tmp_path.as_uri()), make=True).add(snapshot)
    head, rest = store_format_reader.metadata_snapshot(tmp_path / f"znodes/{kept.number:020d}.jsonl.zst")
    assert (head["format"], head["number"], head["zxid"], head["ephemeral"]) == (2, 1, 77, ["/controller"])
    acl = [[1, "digest", "a:b"], [31, "x509", "CN=kafka"]]
    assert [json.loads(line) for line in rest.splitlines()] == [
        {"path": "/", "data": "", "acl": [[31, "world", "anyone"]], "version": 0},
        {"path": "/brokers", "data": None, "acl": acl, "version": 3},
    ]


def test_reader_reads_signed_metadata_snapshots(tmp_path: Path) -> None:
    key, other = (signing.SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))
    znodes = ZnodeSnapshots.open(open_editable(f"{tmp_path.as_uri()}/z"), key=key, make=True)
    root = Znode("/", b"", (Right(31, "world", "anyone"),), 0)
    znodes.add(
        ZnodeSnapshot(
            number=0, created=5, connect="localhost:2181", cluster="cluster", zxid=77, znodes={"/": root}
        )
    )
    of_quorum = tmp_path / "snapshot.zst"
    packed = quorum_snapshots.encode(
        QuorumSnapshot(
            1, 5, Metadata(cluster="cluster", node=101, offset=42, epoch=3, checkpoint=b"x", log=b"y")
        )
    )
    of_quorum.write_bytes(key.signed(packed, QuorumSnapshots.context()))
    for path, what in (
        (tmp_path / "z/znodes" / f"{1:020}.jsonl.zst", "ZooKeeper snapshot"),
        (of_quorum, "a quorum snapshot"),
    ):
        head, _ = store_format_reader.metadata_snapshot(path, [key.public], what)
        assert head == store_format_reader.metadata_snapshot(path)[0]
        assert head["number"] == 1
        with pytest.raises(DamagedStoreError):
            store_format_reader.metadata_snapshot(path, [other.public], what)
        with pytest.raises(InvalidSignature):
            store_format_reader.metadata_snapshot(path, [key.public], "manifest")


def test_reader_reads_quorum_snapshot(tmp_path: Path) -> None:
    metadata = Metadata(
        cluster="cluster", node=101, offset=42, epoch=3, checkpoint=b"checkpoint\n", log=b"log"
    )
    path = tmp_path / "snapshot.zst"
    path.write_bytes(quorum_snapshots.encode(QuorumSnapshot(1, 5, metadata)))
    head, rest = store_format_reader.metadata_snapshot(path)
    assert (head["format"], head["node"], head["offset"], head["epoch"]) == (1, 101, 42, 3)
    assert rest == b"checkpoint\nlog\n"
    assert (head["checkpoint"], head["log"]) == (11, 3)


def imported_packages(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in named}


def test_reader_uses_nothing_of_the_package() -> None:
    packages = imported_packages(Path(store_format_reader.__file__).read_text())
    assert "zstandard" in packages
    assert not packages & {"aqueduct", "servers", "demo", "made_store", "clients"}


def undocumented_names(page: str) -> list[str]:
    """Return fields, columns and folders of a store that a page does not describe."""
    records = Manifest, Chain, StoredTopic, StoredGroup, Acl, Quota, ZnodeSnapshot
    expected = {each.name for record in records for each in fields(record)} - {"znodes"}
    expected |= {column for columns in manifest._COLUMNS.values() for column in columns}
    expected |= {*manifest._COLUMNS, *Znode._fields, "format", "columns", *map(str, manifest.InstanceState)}
    expected |= {"kind", "wrapped", "recipient", "sealed", "restore", "snapshot", names.STORE}
    folders = {f"`{folder}/" for folder in (names.SNAPSHOTS, names.TOPICS, names.KEYS, names.LEASES)}
    spelled = set(re.findall(r"[`\"]([\w.]+)[`\"]", page))
    return sorted(expected - spelled) + sorted(folder for folder in folders if folder not in page)


def test_page_describes_every_field_and_object() -> None:
    assert undocumented_names(PAGE.read_text()) == []


def test_undocumented_field_is_found() -> None:
    page = PAGE.read_text().replace("`generation_ends`", "").replace("`leases/", "")
    assert undocumented_names(page) == ["generation_ends", "`leases/"]
