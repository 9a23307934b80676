"""Stores of other programs, written from their documentation, without code of Aqueduct.

kafka-backup: osodevops/kafka-backup on GitHub, 0.17.4, documentation of format.rs and manifest.rs.
Stream Reactor: lensesio/stream-reactor on GitHub, 4.2.0, kafka-connect-aws-s3/README-sink.md.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lz4.block
import zstandard


class Row(NamedTuple):
    """A record in the store of another program."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


PACK = {
    0: ("", bytes),
    1: (".zst", zstandard.ZstdCompressor(write_content_size=False).compress),
    2: (".lz4", lambda data: struct.pack("<I", len(data)) + lz4.block.compress(data, store_size=False)),
}


def content(field: bytes | None) -> bytes:
    return struct.pack("<i", -1) if field is None else struct.pack("<i", len(field)) + field


def record(row: Row) -> bytes:
    data = struct.pack("<qq", row.time, row.offset) + content(row.key) + content(row.value)
    data += struct.pack("<H", len(row.headers))
    for name, value in row.headers:
        data += struct.pack("<H", len(name.encode())) + name.encode() + content(value)
    return struct.pack("<I", len(data)) + data


def segment(rows: Sequence[Row], compression: int, version: int = 1) -> tuple[bytes, int]:
    """Return a segment, and the size of its records in bytes."""
    records = b"".join(map(record, rows))
    data = b"KBAK" + struct.pack("<BB2x", version, compression)
    data += struct.pack("<Qqq", len(rows), rows[0].offset, rows[-1].offset)
    data += PACK[compression][1](records)  # type: ignore[operator]
    return data + struct.pack("<I", zlib.crc32(data)) + b"BKAE", len(records)


class KafkaBackup:
    """A backup of kafka-backup, written segment by segment."""

    def __init__(self, root: Path, name: str = "nightly") -> None:
        self.folder = root / name
        self._name = name
        self._topics: dict[str, dict[str, Any]] = {}

    def add(
        self, topic: str, partition: int, rows: Sequence[Row], compression: int = 1, *, version: int = 1
    ) -> Path:
        data, unpacked = segment(rows, compression, version)
        key = f"topics/{topic}/partition={partition}/segment-{rows[0].offset:020d}.bin{PACK[compression][0]}"
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._partition(topic, partition)["segments"].append(
            {
                "key": f"{self._name}/{key}",
                "start_offset": rows[0].offset,
                "end_offset": rows[-1].offset,
                "start_timestamp": rows[0].time,
                "end_timestamp": rows[-1].time,
                "record_count": len(rows),
                "uncompressed_size": unpacked,
                "compressed_size": len(data),
            }
        )
        return path

    def gap(self, topic: str, partition: int, start: int, stop: int) -> None:
        gaps = self._partition(topic, partition).setdefault("gaps", [])
        reason = "offset_out_of_range"
        gaps.append({"start_offset": start, "end_offset": stop, "reason": reason, "detected_at": 1})

    def topic(self, name: str, partitions: int) -> None:
        self._topic(name)["original_partition_count"] = partitions

    def finish(self, groups: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None, **more: Any) -> str:
        """Write the manifest and the consumer groups, and return the URL of the folder."""
        manifest = {
            "backup_id": self._name,
            "created_at": 1_700_000_000_000,
            "source_cluster_id": "theirs",
            "source_brokers": ["kafka:9092"],
            "compression": "zstd",
            "topics": list(self._topics.values()),
            **more,
        }
        (self.folder / "manifest.json").write_text(json.dumps(manifest, indent=2))
        if groups is not None:
            told = [{"group_id": name, "offsets": offsets} for name, offsets in groups.items()]
            content = {"snapshot_time": 1_700_000_000_000, "groups": told}
            (self.folder / "consumer-groups-snapshot.json").write_text(json.dumps(content))
        return self.folder.as_uri()

    def _topic(self, name: str) -> dict[str, Any]:
        return self._topics.setdefault(
            name, {"name": name, "original_partition_count": None, "partitions": []}
        )

    def _partition(self, topic: str, number: int) -> dict[str, Any]:
        partitions = self._topic(topic)["partitions"]
        found: dict[str, Any]
        for found in partitions:
            if found["partition_id"] == number:
                return found
        partitions.append(found := {"partition_id": number, "segments": []})
        return found


def s3_binary(root: Path, topic: str, partition: int, rows: Iterable[Row], *, padded: bool = True) -> Path:
    """Write a file of keys and values in the format Bytes_KeyAndValueWithSizes of the sink connector."""
    data, last = b"", 0
    for row in rows:
        assert row.key is not None
        assert row.value is not None
        data += struct.pack(">qq", len(row.key), len(row.value)) + row.key + row.value
        last = row.offset
    name = f"{partition:012d}/{last:012d}" if padded else f"{partition}/{last}"
    path = root / topic / f"{name}.bytes"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
