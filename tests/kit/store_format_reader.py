"""A reader of backup stores that was written only from docs/store-format.md, without code of the package.

It reads folders, makes the checks that the page requires, and decodes record batches according to Kafka's
documentation.
"""

import base64
import gzip
import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import lz4.frame
import snappy
import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FRAME_BYTES = 1 << 20
TAG_BYTES = 16
HEADER_BYTES = 36
SIGNATURE_BYTES = 108


class DamagedStoreError(Exception):
    """The error of a store that does not match the page."""


class StoredRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class IndexedBatch(NamedTuple):
    first_offset: int
    last_offset: int
    records: int
    max_timestamp: int
    size: int


Row = Mapping[str, Any]
Lineage = tuple[str, int, int]  # topic, instance, partition


@dataclass
class PrivateKey:
    """The key file of a recipient (docs/link-format.md)."""

    file: Path

    def __post_init__(self) -> None:
        what, self.algorithm, encoded = self.file.read_text().split()
        assert what == "aqueduct-receiver-private-key"
        self._data = base64.b64decode(encoded)
        self._x25519 = X25519PrivateKey.from_private_bytes(self._data[-32:])
        public = self._x25519.public_key().public_bytes_raw()
        if self.algorithm == "mlkem768-x25519":
            mlkem = MLKEM768PrivateKey.from_seed_bytes(self._data[:64])
            public = mlkem.public_key().public_bytes_raw() + public
        self.fingerprint = hashlib.sha256(public).digest()[:16].hex()

    def open(self, sealed: bytes, info: bytes) -> bytes:
        kdf, aead = hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM
        if self.algorithm == "x25519":
            return hpke.Suite(hpke.KEM.X25519, kdf, aead).decrypt(sealed, self._x25519, info)
        mlkem = MLKEM768PrivateKey.from_seed_bytes(self._data[:64])
        private = hpke.MLKEM768X25519PrivateKey(mlkem, self._x25519)
        return hpke.Suite(hpke.KEM.MLKEM768_X25519, kdf, aead).decrypt(sealed, private, info)


@dataclass
class StoreFormatReader:
    """A store in a folder."""

    folder: Path
    private_keys: list[PrivateKey] = field(default_factory=list)
    trusted_keys: list[bytes] = field(default_factory=list)  # Ed25519; none: signatures are not needed

    def __post_init__(self) -> None:
        identity = json.loads((self.folder / "store.json").read_bytes())
        if identity["format"] != 1:
            raise DamagedStoreError(f"format {identity['format']}")
        self.id = identity["id"]

    def numbers(self) -> list[int]:
        return sorted(int(path.name[:10]) for path in self.folder.glob("snapshots/*.json.zst"))

    def snapshot(self, number: int) -> "FormatSnapshot":
        newest, _ = self._manifest(number)
        segments: list[Row] = []
        gaps: list[Row] = []
        digest_before = None
        for current in range(newest["chain"]["base"], number + 1):
            manifest, digest = self._manifest(current)
            chain = manifest["chain"]
            if chain["base"] != current and (chain["parent"], chain["parent_sha256"]) != (
                current - 1,
                digest_before,
            ):
                raise DamagedStoreError(f"snapshot {current} does not follow {current - 1}")
            digest_before = digest
            live = {
                (topic, int(instance))
                for topic, instances in manifest["positions"].items()
                for instance in instances
            }
            segments = [row for row in segments if (row["topic"], row["instance"]) in live]
            gaps = [row for row in gaps if (row["topic"], row["instance"]) in live]
            segments += rows(manifest, manifest["segments"], "Segment")
            gaps += rows(manifest, manifest["gaps"], "Gap")
        snapshot = FormatSnapshot(self, newest, segments, gaps)
        snapshot.check_coverage()
        return snapshot

    def _manifest(self, number: int) -> tuple[dict[str, Any], str]:
        path = f"snapshots/{number:010d}.json.zst"
        stored = self.read(path)
        content = without_signature(stored, self.trusted_keys, "manifest")
        if content[:4] == b"AQE1":
            content = self.decrypt(path, content, "manifest")
        manifest = json.loads(zstandard.ZstdDecompressor().decompress(content))
        if (manifest["format"], manifest["store"], manifest["chain"]["number"]) != (1, self.id, number):
            raise DamagedStoreError(f"{path} is another store's, or another snapshot")
        return manifest, hashlib.sha256(stored).hexdigest()

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def decrypt(self, path: str, stored: bytes, kind: str) -> bytes:
        if stored[:4] != b"AQE1":
            raise DamagedStoreError(f"{path} is not encrypted")
        header = stored[:HEADER_BYTES]
        key = self._data_key(header[4:20].hex(), kind)
        derived = HKDF(SHA256(), 32, salt=header, info=b"aqueduct store\0" + path.encode()).derive(key)
        cipher = AESGCM(derived)
        size = FRAME_BYTES + TAG_BYTES
        frames = [stored[at : at + size] for at in range(HEADER_BYTES, len(stored), size)]
        return b"".join(
            cipher.decrypt(number.to_bytes(11, "big") + bytes([number == len(frames) - 1]), frame, None)
            for number, frame in enumerate(frames)
        )

    def _data_key(self, key_id: str, kind: str) -> bytes:
        objects = self.folder.glob(f"keys/{key_id}.*.json")
        for path in sorted(objects, key=lambda path: int(path.name.split(".")[1]), reverse=True):
            wrapped = json.loads(path.read_bytes())
            info = b"aqueduct data key\0" + kind.encode() + b"\0" + key_id.encode()
            for recipient, sealed in wrapped["wrapped"]:
                for private in self.private_keys:
                    if recipient != private.fingerprint:
                        continue
                    try:
                        key = private.open(base64.b64decode(sealed), info)
                    except InvalidTag:
                        continue
                    identified = b"aqueduct store\0" + kind.encode() + b"\0" + key
                    if hashlib.sha256(identified).digest()[:16].hex() == key_id:
                        return key
        raise DamagedStoreError(f"no private key opens {key_id}")


@dataclass
class FormatSnapshot:
    """The contents of a snapshot, combined from its manifests."""

    reader: StoreFormatReader
    manifest: dict[str, Any]
    segments: list[Row]
    gaps: list[Row]

    def check_coverage(self) -> None:
        for topic, instances in self.manifest["positions"].items():
            for instance, positions in instances.items():
                starts = self.manifest["starts"][topic][instance]
                for partition, (start, stop) in enumerate(zip(starts, positions, strict=True)):
                    lineage = topic, int(instance), partition
                    pieces = self._of(self.segments, lineage) + self._of(self.gaps, lineage)
                    reached = start
                    for piece in sorted(pieces, key=lambda piece: piece["start"]):
                        if piece["start"] != reached:
                            raise DamagedStoreError(f"{lineage} is not covered at offset {reached}")
                        reached = piece["stop"]
                    if reached != stop:
                        raise DamagedStoreError(f"{lineage} is covered up to {reached}, not {stop}")

    def instances(self, topic: str) -> list[Row]:
        [entry] = [entry for entry in self.manifest["topics"] if entry["name"] == topic]
        return rows(self.manifest, entry["instances"], "Instance")

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        [entry] = [entry for entry in self.manifest["groups"] if entry["group"] == group]
        offsets = rows(self.manifest, entry["offsets"], "GroupOffset")
        return {(row["topic"], row["partition"]): row["offset"] for row in offsets}

    def gap_ranges(self, topic: str, instance: int, partition: int) -> list[tuple[int, int]]:
        return [(row["start"], row["stop"]) for row in self._of(self.gaps, (topic, instance, partition))]

    def records(self, topic: str, instance: int, partition: int) -> list[StoredRecord]:
        return [
            record
            for segment in self._of(self.segments, (topic, instance, partition))
            if segment["records"]
            for record in self._segment_records(segment)
        ]

    def _of(self, table: list[Row], lineage: Lineage) -> list[Row]:
        own = (row for row in table if (row["topic"], row["instance"], row["partition"]) == lineage)
        return sorted(own, key=lambda row: int(row["start"]))

    def _segment_records(self, segment: Row) -> list[StoredRecord]:
        folder = f"g{segment['instance']}/" if segment["generation"] else ""
        stem = (
            f"topics/{segment['topic']}/{folder}{segment['partition']}/"
            f"{segment['start']:020d}.{segment['run']}"
        )
        suffix = ".enc" if segment.get("encrypted") else ""
        name = stem + (".log.zst" if segment["compressed"] else ".log") + suffix
        data = self._object(name, segment["stored_bytes"], segment["sha256"], segment)
        if segment["compressed"]:
            stream = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
            data = stream.read()
        if len(data) != segment["unpacked_bytes"]:
            raise DamagedStoreError(f"{name} unpacks to {len(data)} bytes")
        records = list(batch_records(data))
        index = self._object(
            f"{stem}.index{suffix}", segment["index_bytes"], segment["index_sha256"], segment
        )
        self._check_index(segment, index_batches(index), data)
        if len(records) != segment["records"]:
            raise DamagedStoreError(f"{name} has {len(records)} records")
        if any(not segment["start"] <= record.offset < segment["stop"] for record in records):
            raise DamagedStoreError(f"{name} has records outside of its range")
        return records

    def _check_index(self, segment: Row, batches: list[IndexedBatch], data: bytes) -> None:
        described = (
            batches[0].first_offset,
            batches[-1].last_offset,
            sum(batch.records for batch in batches),
            sum(batch.size for batch in batches),
            max(batch.max_timestamp for batch in batches),
        )
        names = "first_offset", "last_offset", "records", "unpacked_bytes", "max_time"
        if described != tuple(segment[name] for name in names):
            raise DamagedStoreError(f"the index of {segment} describes other batches")
        headers = [header for header, _ in record_batches(data)]
        if [header.base_offset for header in headers] != [batch.first_offset for batch in batches]:
            raise DamagedStoreError(f"the index of {segment} describes other batches")

    def _object(self, path: str, size: int, sha256: str, segment: Row) -> bytes:
        stored = self.reader.read(path)
        if (len(stored), hashlib.sha256(stored).hexdigest()) != (size, sha256):
            raise DamagedStoreError(f"{path} is damaged")
        if not segment.get("encrypted"):
            return stored
        if stored[4:20].hex() != segment["run"]:
            raise DamagedStoreError(f"{path} is encrypted with another key than its run's")
        return self.reader.decrypt(path, stored, "records")


def rows(manifest: Mapping[str, Any], table: list[list[Any]], kind: str) -> list[Row]:
    """Return the rows of a table as mappings by column name."""
    columns = manifest["columns"][kind]
    return [dict(zip(columns, row, strict=True)) for row in table]


def index_batches(data: bytes) -> list[IndexedBatch]:
    if data[:4] != b"AQI1":
        raise DamagedStoreError("an index does not begin with AQI1")
    planes = zstandard.ZstdDecompressor().decompress(data[4:])
    count = len(planes) // 40
    columns = []
    for column in range(5):
        values, value = [], 0
        for number in range(count):
            digits = bytes(planes[(column * 8 + plane) * count + number] for plane in range(8))
            value += int.from_bytes(digits, "little", signed=True)
            values.append(value)
        columns.append(values)
    return [IndexedBatch(*row) for row in zip(*columns, strict=True)]


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


BATCH = struct.Struct(">qiibIhiqqqhii")
UNPACK: Mapping[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: gzip.decompress,
    2: lambda data: unpack_snappy(data),
    3: lz4.frame.decompress,
    4: lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


def unpack_snappy(data: bytes) -> bytes:
    if data[:8] != b"\x82SNAPPY\0":
        return bytes(snappy.uncompress(data))
    parts, position = [], 16
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        parts.append(bytes(snappy.uncompress(data[position + 4 : position + 4 + size])))
        position += 4 + size
    return b"".join(parts)


def record_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    position = 0
    while position < len(data):
        header = BatchHeader(*BATCH.unpack_from(data, position))
        whole = data[position : position + 12 + header.length]
        if header.magic != 2 or google_crc32c.value(whole[21:]) != header.crc:
            raise DamagedStoreError(f"the batch at offset {header.base_offset} is damaged")
        if header.attributes & 0x20:
            raise DamagedStoreError(f"the batch at offset {header.base_offset} is a control batch")
        yield header, whole[BATCH.size :]
        position += len(whole)


def batch_records(data: bytes) -> Iterator[StoredRecord]:
    for header, packed in record_batches(data):
        body = Body(UNPACK[header.attributes & 0x07](packed))
        for _ in range(header.records):
            yield body.record(header)


@dataclass
class Body:
    """A reader of the records of a batch: varints and bytes."""

    data: bytes
    position: int = 0

    def record(self, header: BatchHeader) -> StoredRecord:
        length = self.varint()
        end = self.position + length
        self.position += 1  # attributes
        timestamp = header.base_timestamp + self.varint()
        if header.attributes & 0x08:
            timestamp = header.max_timestamp
        offset = header.base_offset + self.varint()
        key, value = self.field(), self.field()
        headers = [((self.field() or b"").decode(), self.field()) for _ in range(self.varint())]
        if self.position != end:
            raise DamagedStoreError(f"the record at offset {offset} has another length")
        return StoredRecord(offset, timestamp, key, value, headers)

    def field(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)


def without_signature(stored: bytes, trusted_keys: Sequence[bytes], what: str) -> bytes:
    """Return an object without its signature. With trusted keys, check the signature first."""
    frame = stored[-SIGNATURE_BYTES:].rjust(SIGNATURE_BYTES, b"\0")
    magic, length, mark, key, signature = struct.unpack("<II4s32s64s", frame)
    signed = (magic, length, mark) == (0x184D2A5A, 100, b"AQS1")
    if trusted_keys:
        if not signed or key not in trusted_keys:
            raise DamagedStoreError(f"a {what} is not signed by a trusted key")
        public = Ed25519PublicKey.from_public_bytes(key)
        public.verify(signature, f"aqueduct {what}\0".encode() + stored[:-SIGNATURE_BYTES])
    return stored[:-SIGNATURE_BYTES] if signed else stored


def metadata_snapshot(
    path: Path, trusted_keys: Sequence[bytes] = (), what: str = ""
) -> tuple[dict[str, Any], bytes]:
    """Read a snapshot of ZooKeeper or of a quorum: its header, and the bytes between header and digest."""
    stored = without_signature(path.read_bytes(), trusted_keys, what)
    content = zstandard.ZstdDecompressor().decompress(stored)
    end = content.rstrip(b"\n").rindex(b"\n") + 1
    if json.loads(content[end:])["sha256"] != hashlib.sha256(content[:end]).hexdigest():
        raise DamagedStoreError(f"{path} is damaged")
    head, _, rest = content[:end].partition(b"\n")
    return json.loads(head), rest
