"""Bytes that nobody of ours made, for each parser that reads strangers' bytes.

    python tests/fuzz_bytes.py NAME [--seconds N]

Good samples are changed in all ways by Hypothesis, which shrinks what it finds. Each input ends in a value
or in one of the parser's own errors: never in another, never after more than three seconds of processor time,
and never with more than 300 MB. `script/fuzz NAME` goes on for ten minutes.
"""

import argparse
import atexit
import base64
import gzip
import hashlib
import json
import posixpath
import re
import resource
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote
from uuid import UUID

import lz4.block
import lz4.frame
import pyarrow as pa
import snappy
import zstandard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kit import manifests
from pyarrow import orc

from aqueduct.common.keys import ReceiverKey
from aqueduct.control_node.status.facts import samples
from aqueduct.errors import AqueductError
from aqueduct.estate import schema_registry
from aqueduct.kafka import client_config
from aqueduct.kafka.batches import bodies, plain_records
from aqueduct.kafka.batches.batch import CRC_FROM, HEADER, LENGTH_FROM, Damaged, seal, walk
from aqueduct.kafka.batches.codecs import CODECS, compress
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.kafka.batches.offsets import Index
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land import avro_schema, orc_format, orc_times
from aqueduct.land.avro_schema import WrongSchema
from aqueduct.link.ledger import bundle, entry
from aqueduct.link.ledger.lineage import Lineage
from aqueduct.link.wire import frame, position
from aqueduct.link.wire.frame import Announcement, Frame, Malformed
from aqueduct.link.wire.position import SenderPosition
from aqueduct.recovery.quorum import records as quorum_records
from aqueduct.recovery.quorum.records import PartitionState
from aqueduct.recovery.zookeeper import snapshots as znode_snapshots
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot
from aqueduct.recovery.zookeeper.znodes import Right, Znode
from aqueduct.snapshots.importer import kafka_backup
from aqueduct.snapshots.importer.layout import ForeignFile
from aqueduct.store import manifest, names, numbered_snapshots, segments, validation
from aqueduct.store.backends import open_store
from aqueduct.store.encryption import DataKind
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import Chain, Instance, InstanceState, Manifest, Segment, StoredTopic

MOST_SECONDS = 3.0  # of a processor, for an input; 256 MB took 0.3, and once 1.2 on a busy machine
MOST_MEMORY = 300 << 20  # bytes that the process may grow by
MEBIBYTE = 1 << 20
BOMB = 400 << 20  # bytes that a batch unpacks to
EXAMPLES = 500  # of one round of Hypothesis
ID = UUID(int=7)


@dataclass(frozen=True)
class Parser:
    """A parser of strangers' bytes."""

    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]  # how it says that it doesn't take something
    samples: Sequence[bytes]
    hostile: Callable[[], Iterable[bytes]] = tuple  # inputs that are not changed; they take seconds to make
    dress: Callable[[bytes], bytes] = bytes  # make changed bytes get past what only guards against chance


# Record batches


def batches() -> Iterator[bytes]:
    rows = [Record(1000 + n, 5 + 3 * n, body(f"key {n}", "value" * n)) for n in range(20)]
    for codec in CODECS:
        yield bytes(build(Records.listed(rows), codec=codec))
        yield bytes(build(Records.listed(rows[:1]), codec=codec)) * 2


def body(key: str, value: str) -> bytes:
    return bodies.body(key.encode(), value.encode(), [(b"a", b"1"), (b"b", None)])


def of_payload(payload: bytes, count: int = 1, codec: int = 0) -> bytes:
    """Return a batch with that for its records, which it counts as so many."""
    data = bytearray(next(batches()))[: HEADER.size] + payload
    data[CRC_FROM : CRC_FROM + 2] = codec.to_bytes(2)
    data[HEADER.size - 4 : HEADER.size] = count.to_bytes(4)
    return resealed(bytes(data))


def hostile_batches() -> Iterator[bytes]:
    yield of_payload(b"\x80" * 400_000)  # a number without end
    yield of_payload(b"\x80" * 400_000 + b"\x00", 0x7FFFFFFF)
    yield of_payload(b"\x00" * 300_000, 300_000)  # records without a length
    yield of_payload(b"", 0x7FFFFFFF)
    zeros = bytes(BOMB)
    for number, codec in list(enumerate(CODECS))[1:]:
        yield of_payload(compress(codec, zeros), 1, number)
    yield of_payload(zstandard.ZstdCompressor().compress(zeros), 1, CODECS.index("zstd"))  # tells its size
    empty = {
        "gzip": gzip.compress(b""),
        "lz4": lz4.frame.compress(b"", block_linked=False, store_size=False),
        "zstd": zstandard.ZstdCompressor(write_content_size=False).compress(b""),
    }
    for codec, packed in empty.items():
        for each in (packed, b"\x50\x2a\x4d\x18" + bytes(4)):  # a frame that readers skip
            frames = compress(codec, b"") + each * (MEBIBYTE // len(each))
            yield of_payload(frames, 1, CODECS.index(codec))
    yield of_payload(gzip.compress(bytes(BOMB // 4)) * 4, 1, CODECS.index("gzip"))
    yield of_payload(compress("zstd", bytes(BOMB // 4)) * 4, 1, CODECS.index("zstd"))


def resealed(data: bytes) -> bytes:
    """Make the CRC of a changed batch right, as far as there is one."""
    whole = bytearray(data)
    if len(whole) < HEADER.size:
        return data
    whole[8:12] = (len(whole) - LENGTH_FROM).to_bytes(4)
    seal(whole)
    return bytes(whole)


def read_batches(data: bytes) -> None:
    """Read them as vectors, as most do."""
    found = list(walk(data))
    Index.of(found)
    for batch in found:
        read_bodies(Records.of([batch]).bodies)
        cut(batch, Window(start=batch.base_offset + 1))


def read_records(data: bytes) -> None:
    """Read them one by one, as hosts without numpy do."""
    for batch in walk(data):
        read_bodies([content for _, content in plain_records.bodies(batch)])


def read_bodies(found: Sequence[bytes]) -> None:
    for content in found:
        with suppress(IndexError, ValueError):
            bodies.key_and_value(content)
            bodies.headers(content)


# The store


def stored() -> Manifest:
    topic = StoredTopic(
        name="flights",
        topic_id="id",
        partitions=2,
        replication_factor=1,
        compacted=False,
        settings={"retention.ms": "1"},
        instances=(Instance(1, "id", InstanceState.ACTIVATE, 1),),
    )
    segment = Segment("flights", 1, 0, 0, 9, 0, 8, 9, 90, 80, "ab", 7, "cd", 1, 2, "r1", True, False)
    return manifests.manifest(
        chain=Chain(number=2, parent=1, parent_sha256="ab", base=1, base_bytes=10, increments_bytes=0),
        run="r1",
        created=1,
        started=1,
        ended=2,
        options={"topics": ["flights"]},
        starts={("flights", 1): (0, 0)},
        positions={("flights", 1): (9, -1)},
        topics=(topic,),
        segments=(segment, replace_segment(segment)),
        epochs={("flights", 1): (3, -1)},
    )


def replace_segment(segment: Segment) -> Segment:
    return segment._replace(start=9, stop=12, first_offset=None, last_offset=None, records=0)


def plain_manifest() -> bytes:
    return zstandard.ZstdDecompressor().decompress(manifest.pack(stored()))


def read_manifest(data: bytes) -> None:
    validation.fault(manifest.unpack(data, "snapshot 2"))


def frame_of(size: int, states: int | None = None) -> bytes:
    """Return a Zstandard frame of that many zeros, whose header states another size if one is given."""
    packing = zstandard.ZstdCompressor(write_content_size=True).compressobj(size)
    packed = bytearray(b"".join(packing.compress(bytes(1 << 20)) for _ in range(size >> 20)))
    packed += packing.flush()
    if states is not None:
        descriptor = packed[4]
        assert descriptor >> 6 == 2  # the size has four bytes, behind the window's if there is one
        at = 5 if descriptor & 0x20 else 6
        packed[at : at + 4] = states.to_bytes(4, "little")
    return bytes(packed)


def hostile_frames() -> Iterator[bytes]:
    yield frame_of(BOMB)
    yield frame_of(BOMB, states=16 << 20)  # more than its window, so a decoder of streams sees it at the end
    yield frame_of(BOMB, states=0)
    yield zstandard.ZstdCompressor(write_content_size=False).compress(bytes(BOMB))
    yield frame_of(BOMB // 8) * 8


def hostile_manifests() -> Iterator[bytes]:
    yield from hostile_frames()
    for text in (b"[],", b"{},", b'"",', b"1,"):
        yield zstandard.ZstdCompressor().compress(b'{"a":[' + text * ((16 << 20) // len(text) - 9) + b"0]}")
    for text in (b",\n", b'"a":1,\n'):
        yield zstandard.ZstdCompressor().compress(b"{" + text * ((16 << 20) // len(text) - 9) + b"}")


def archives() -> Iterator[bytes]:
    content = b"".join(batches())
    yield zstandard.ZstdCompressor().compress(content)
    yield zstandard.ZstdCompressor().compress(content) * 2
    yield content


def read_archive(data: bytes) -> None:
    """Read a segment of which the manifest says whatever lets most through."""
    told = stored().segments[0]._replace(compressed=True, unpacked_bytes=validation.MOST_OBJECT_BYTES)
    for _ in segments.batches(told, memoryview(data)):
        pass


def hostile_archives() -> Iterator[bytes]:
    yield from hostile_frames()
    header = bytearray(next(batches())[: HEADER.size])
    for length in ((1 << 31) - 1, 90 << 20):
        header[8:12] = length.to_bytes(4)
        packing = zstandard.ZstdCompressor().compressobj()
        pieces = [bytes(header), *[bytes(1 << 20)] * (BOMB >> 20)]
        yield b"".join(map(packing.compress, pieces)) + packing.flush()


def znodes() -> Iterator[bytes]:
    of = Znode("/brokers", b"data", (Right(31, "world", "anyone"),), 0)
    root = of._replace(path="/")
    yield znode_snapshots.encode(
        ZnodeSnapshot(
            number=1,
            created=1,
            connect="a:2181",
            cluster="c",
            zxid=1,
            znodes={"/": root, "/brokers": of},
            ephemeral=(),
            left_out=(),
            counters=(),
            moving=(),
        )
    )


def hostile_znodes() -> Iterator[bytes]:
    """Yield snapshots with a dense line: the first one, a znode, the last one."""
    yield from hostile_frames()
    head = zstandard.ZstdDecompressor().decompress(next(znodes())).split(b"\n")[0][:-1]
    for text in (b"[],", b'"ab":1,', b'"[",', b"\n"):
        for size in (60, 15):
            dense = [text * ((1 << 20) // len(text))] * size
            yield sealed([head + b',"x":[', *dense, b"0]}\n"])
            yield sealed([head + b'}\n{"path":"/","x":[', *dense, b"0]}\n"])


def sealed(parts: Sequence[bytes]) -> bytes:
    """Return a snapshot of that content, which is never in memory as a whole."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    end = numbered_snapshots.line({"sha256": digest.hexdigest()})
    packing = zstandard.ZstdCompressor().compressobj(size=sum(map(len, parts)) + len(end))
    return b"".join([*map(packing.compress, parts), packing.compress(end), packing.flush()])


def metadata() -> Iterator[bytes]:
    """Yield batches of a quorum's log: a topic, a partition, a change of it."""
    state = PartitionState(
        replicas=(1, 2),
        in_sync=(1,),
        leader=1,
        leader_epoch=2,
        version=1,
        removing=(),
        adding=(3,),
        epoch=4,
        directories=(bytes(16),) * 2,
    )
    topic_id = base64.urlsafe_b64encode(ID.bytes).decode().rstrip("=")
    topic = b"\1\2\0" + b"\x02t" + ID.bytes + b"\0"
    change = b"\1\5\0" + bytes(4) + ID.bytes + b"\1\1\4" + (3).to_bytes(4)
    values = [topic, quorum_records.partition_record(topic_id, 0, state), change]
    yield quorum_records.batch_of([*values, quorum_records.producer_ids_record(7)], 0, 1, 1000)


def hostile_metadata() -> Iterator[bytes]:
    many = b"\xff\xff\xff\xff\x0f"
    for value in (
        b"\1\2\0" + b"\xff" * 1_000_000 + b"\1",
        b"\x80" * 1_000_000,
        b"\1\3\1" + bytes(4) + ID.bytes + many + bytes(1_000_000),  # replicas
        b"\1\5\0" + bytes(4) + ID.bytes + many + b"\0\0" * 200_000,  # tags
    ):
        yield quorum_records.batch_of([value], 0, 1, 1000)


def read_metadata(data: bytes) -> None:
    image = quorum_records.MetadataImage()
    for batch in walk(data):
        image.replay(batch)


def foreign_segments() -> Iterator[bytes]:
    record = struct.pack("<qqi1si1sH", 1000, 5, 1, b"k", 1, b"v", 0)
    for compression, pack in enumerate((bytes, zstandard.ZstdCompressor().compress, lz4.block.compress)):
        content = pack(struct.pack("<I", len(record)) + record)
        yield foreign_segment(kafka_backup.HEADER.pack(b"KBAK", 1, compression, 1, 5, 5) + content + bytes(8))


def foreign_segment(data: bytes) -> bytes:
    """Make the end of a segment of another program right."""
    content = data[: -kafka_backup.FOOTER.size]
    return content + kafka_backup.FOOTER.pack(zlib.crc32(content), b"BKAE")


def hostile_foreign_segments() -> Iterator[bytes]:
    def of(compression: int, content: bytes) -> bytes:
        return foreign_segment(
            kafka_backup.HEADER.pack(b"KBAK", 1, compression, 1, 5, 5) + content + bytes(8)
        )

    yield from (of(kafka_backup.ZSTD, each) for each in hostile_frames())
    yield of(kafka_backup.LZ4, struct.pack("<I", (2 << 30) - 1) + bytes(9))
    yield of(kafka_backup.LZ4, lz4.block.compress(bytes(BOMB)))


def hostile_large_foreign_segments() -> Iterator[bytes]:
    """Yield segments of records without anything, as many as may be."""
    least = struct.pack("<IqqiiH", kafka_backup.LEAST_RECORD, 5, 5, -1, -1, 0)
    content = zstandard.compress(least * kafka_backup.ANY_RECORDS)
    for count in (kafka_backup.ANY_RECORDS, kafka_backup.ANY_RECORDS + 1, 1 << 40):
        head = kafka_backup.HEADER.pack(b"KBAK", 1, kafka_backup.ZSTD, count, 5, 5)
        yield foreign_segment(head + content + bytes(8))


def read_foreign_segment(data: bytes, count: int = 1) -> None:
    kafka_backup.read(memoryview(data), ForeignFile("segment", len(data), 5, 5, count), "the store")


def read_large_foreign_segment(data: bytes) -> None:
    """Read a segment of which the manifest tells as many records as the segment itself."""
    with suppress(struct.error):
        read_foreign_segment(data, kafka_backup.HEADER.unpack_from(data)[3])


def orc_files() -> Iterator[bytes]:
    table = pa.table({"at": pa.array([-1, 5], pa.int64()).view(pa.timestamp("us")), "k_offset": [1, 2]})
    for compression in ("zstd", "zlib", "snappy", "uncompressed"):
        sink = pa.BufferOutputStream()
        orc.write_table(table, sink, compression=compression)
        yield sink.getvalue().to_pybytes()


def orc_file(data: bytes, stripes: int = 1, below: Sequence[int] = (1,)) -> bytes:
    """Return a file of one column of days, whose stripes have these packed bytes for values."""
    packing = orc_format.Packing(5, 256 << 10)

    def message(*fields: tuple[int, int | bytes]) -> bytes:
        return orc_format.emit(
            orc_format.Field(number, orc_format.BYTES if isinstance(of, bytes) else orc_format.VARINT, of)
            for number, of in fields
        )

    stream = message(
        (orc_format.STREAM_KIND, orc_format.DATA), (orc_format.COLUMN, 1), (orc_format.LENGTH, len(data))
    )
    stripe_footer = packing.packed(message((orc_format.STREAMS, stream)))
    stripe = message(
        (orc_format.OFFSET, 0),
        (orc_format.INDEX_LENGTH, 0),
        (orc_format.DATA_LENGTH, len(data)),
        (orc_format.STRIPE_FOOTER_LENGTH, len(stripe_footer)),
    )
    root = message((orc_format.TYPE_KIND, 12), *((orc_format.SUBTYPES, each) for each in below), (3, b"day"))
    day = message((orc_format.TYPE_KIND, orc_format.DATE))
    footer = message(
        *[(orc_format.STRIPES, stripe)] * stripes, (orc_format.TYPES, root), (orc_format.TYPES, day)
    )
    return orc_tail(data + stripe_footer, packing.packed(footer))


def orc_tail(content: bytes, footer: bytes) -> bytes:
    numbers = {
        orc_format.FOOTER_LENGTH: len(footer),
        orc_format.COMPRESSION: 5,
        orc_format.BLOCK: 256 << 10,
        orc_format.METADATA_LENGTH: 0,
    }
    postscript = orc_format.emit(orc_format.Field(n, orc_format.VARINT, v) for n, v in numbers.items())
    return content + footer + postscript + bytes([len(postscript)])


def orc_runs() -> list[bytes]:
    """Return files whose bytes stand for very many values."""
    packed = orc_format.Packing(5, 256 << 10).packed
    delta = b"\xc1\xff\0\0"  # 512 values
    return [
        orc_file(packed(delta * (MEBIBYTE // 4))),
        orc_file(packed(b"\0\0" * MEBIBYTE)),  # runs of three
        orc_file(packed(delta * 2)),  # few enough bytes for a row
        orc_file(packed(delta * (orc_times.LEAST_ITEMS // 512 + 1)), below=[]),  # as items of an array
        orc_file(packed(b"\0\0" * MEBIBYTE), below=[]),
    ]


def orc_footers() -> list[bytes]:
    """Return files whose footers unpack to very many fields, or to numbers without an end."""
    packed = orc_format.Packing(5, 256 << 10).packed
    whole = orc_file(b"")
    return [
        orc_tail(b"", packed(b"\x08" + b"\xff" * 1_000_000 + b"\1")),
        orc_tail(b"", packed(b"\x08\0" * 2_000_000)),
        orc_tail(b"", packed(b"\x1a\0" * 2_000_000)),  # stripes
        orc_tail(b"", packed(b"\x22" + put(1_000_000) + b"\x08\x0c" * 500_000)),  # fields of a type
        orc_tail(b"", packed((b"\x22" + put(20_000) + b"\x08\x0c" * 10_000) * 200)),  # of all types
        orc_tail(b"", packed(b"\x22" + put(2_000_004) + b"\x12" + put(2_000_000) + b"\1" * 2_000_000)),
        orc_file(b"", stripes=20_000),
        whole[:-1] + b"\xff",
    ]


def put(number: int) -> bytes:
    """Return a number of Protocol Buffers."""
    return orc_format.emit([orc_format.Field(1, orc_format.VARINT, number)])[1:]


def hostile_orc_files() -> Iterator[bytes]:
    """Yield files whose footers are bombs, of which their tails say what lets most through."""
    yield from orc_runs()
    yield orc_file(orc_format.Packing(5, 256 << 10).packed(b"\0\0" * (orc_times.LEAST_ITEMS // 3)), below=[])
    yield from orc_footers()
    packed = {1: zlib.compress(bytes(BOMB), wbits=-15), 2: snappy.compress(bytes(BOMB)), 5: frame_of(BOMB)}
    for kind, chunk in packed.items():
        for block in (1 << 40, 8 << 20, 256 << 10):
            header = (min(len(chunk), (1 << 23) - 1) << 1).to_bytes(3, "little")
            numbers = {1: len(chunk) + 3, 2: kind, 3: block, 5: 0}
            postscript = orc_format.emit(
                orc_format.Field(n, orc_format.VARINT, v) for n, v in numbers.items()
            )
            yield header + chunk + postscript + bytes([len(postscript)])


def avro_schemas() -> Iterator[bytes]:
    fields = [
        {"name": "n", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "d", "type": {"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "E"}}},
        {"name": "again", "type": ["null", "a.R"]},
    ]
    yield json.dumps({"type": "record", "name": "R", "namespace": "a", "fields": fields}).encode()
    yield b'{"type":"record","name":"R","fields":[]}'


def hostile_avro_schemas() -> Iterator[bytes]:
    """Yield schemas as long as they may be, of as many parts."""
    size = avro_schema.MOST_TEXT - 200
    begin, end = b'{"type":"record","name":"R","fields":[', b"]}"
    for part in (
        '{"name":"f%d","type":"int"}',
        '{"name":"f%d","type":{"type":"record","name":"R%d","fields":[]}}',
        '{"name":"f%d","type":{"type":"array","items":"int"}}',
        '{"name":"f%d","type":["null","R"]}',
        '{"name":"f%d","type":"R%d"}',
        "%d",
    ):
        parts = (part.replace("%d", str(number)) for number in range(size // len(part) // 2))
        yield begin + ",".join(parts).encode() + end
    for part in (b'"int"', b"[]", b"{}", b'"R"', b'["int"]'):
        yield begin + b'{"name":"f","type":[' + b",".join([part] * (size // (len(part) + 1))) + b"]}" + end
    symbols = ",".join(f'"{number}"' for number in range(size // 10)).encode()
    yield begin + b'{"name":"f","type":{"type":"enum","name":"E","symbols":[' + symbols + b"]}}" + end
    yield begin + b" " * (4 << 20) + end
    for depth in (300, 900, 5_000):
        openings = (f'"name":"R{number}","fields":[{{"name":"f","type":' for number in range(depth))
        opening = "".join(f'{{"type":"record",{each}' for each in openings)
        yield f'{opening}"int"{"}]}" * depth}'.encode()


def read_avro_schema(data: bytes) -> None:
    schema = avro_schema.parse(data.decode(errors="replace"))
    for path in (("n",), ("at",), ("again", "n"), ("f",)):
        if found := avro_schema.at(schema, path):
            avro_schema.unfit(found, pa.int64(), None)


def keys() -> Iterator[bytes]:
    sealed = base64.b64encode(bytes(range(64))).decode()
    yield json.dumps(
        {"format": 1, "kind": "records", "wrapped": [[digit * 64, sealed] for digit in "ab"]}
    ).encode()
    yield json.dumps({"format": 1, "kind": "manifest", "wrapped": []}).encode()


@cache
def keyring() -> tuple[Path, Keyring]:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    private = ReceiverKey.generate()
    path = folder / names.key("0" * 32, 1)
    path.parent.mkdir()
    return path, Keyring(open_store(folder.as_uri()), [private])


def read_key(data: bytes) -> None:
    path, ring = keyring()
    path.write_bytes(data)
    ring.open("0" * 32, DataKind.RECORDS, "what it encrypts")


def indexes() -> Iterator[bytes]:
    yield Index.of([]).to_bytes()
    yield Index.of([each for data in batches() for each in walk(data)]).to_bytes()


def read_index(data: bytes) -> None:
    found = Index.from_bytes(data, validation.MOST_OBJECT_BYTES)
    _ = found.records, found.position
    found.rank(7)
    with suppress(IndexError):
        found.offset(1)


def recompressed_index(data: bytes) -> bytes:
    mark = Index.of([]).to_bytes()[:4]
    return mark + zstandard.ZstdCompressor().compress(data)


def hostile_indexes() -> Iterator[bytes]:
    mark = Index.of([]).to_bytes()[:4]
    yield from (mark + each for each in hostile_frames())


# The schema registry


def registry_paths() -> Iterator[bytes]:
    for path in (
        "/schemas/ids/7",
        "/subjects/a%3Ab-value/versions/latest",
        "/..;x/%2e%2e/registry/v3/admin/rules",
    ):
        yield f"{schema_registry.API}{path}".encode()
    yield b"/health/ready"
    yield b"/apis/registry;x/v3/admin/rules"


def read_registry_path(data: bytes) -> None:
    """Check that a path that no rule denies is one that is meant to be served, by every reading of it."""
    path = data.decode("latin-1")
    if any(re.fullmatch(rule, path) for rule in schema_registry.DENIED_PATHS):
        return
    for text in (path, unquote(path), unquote(unquote(path))):
        plain = re.sub(r";[^/]*", "", text).replace("\\", "/")
        resolved = posixpath.normpath(re.sub("/+", "/", plain)) + "/"
        assert resolved.startswith((f"{schema_registry.API}/", "/health/")), path


# Hosts


def metrics_pages() -> Iterator[bytes]:
    yield b'# TYPE a gauge\na 1\na{name="a\\\\b",type="x\\"y"} 2.5e3 1700000000\nb NaN\n'
    yield 'node_systemd_unit_state{name="kafka.service",state="active"} 1\nx{a="\u2028"} +Inf\n'.encode()


def hostile_metrics_pages() -> Iterator[bytes]:
    for part in (b"a", b"a=", b'a="",', b'"', b"\\", b"{", b" "):
        yield b"x{" + part * 100_000 + b"} 1\n"
        yield b"x{" + part * 8_000 + b"} 1\n"


def read_metrics_page(data: bytes) -> None:
    """Read all samples; none may have a name of two lines."""
    for name, labels, _ in samples(data.decode(errors="replace")):
        assert not any("\n" in text for text in (name, *labels)), name


# The link


def frames() -> Iterator[bytes]:
    content = next(batches()) * 3
    yield frame.pack(Frame(topic="flights", topic_id=ID, partition=3, first=5, last=70, batches=content))
    yield frame.pack(
        Frame(topic="flights", topic_id=ID, partition=3, first=5, last=70, batches=content), compress_above=1
    )
    yield frame.pack(Frame(topic="flights", topic_id=ID, partition=3, first=0, last=0, batches=b""))
    yield frame.pack(Announcement(topic="flights", topic_id=ID, partition=3, first=0, end=70, compacted=True))


def read_frame(data: bytes) -> None:
    frame.key_of(data)
    frame.unpack(data)


def entries() -> Iterator[bytes]:
    lineage = Lineage(topic_id=str(ID), first=0, next=90, gaps=[(1, 2), (5, 5)], lost=[(8, 9)])
    partition = entry.LedgerPartition(topic="flights", partition=0, current=lineage, retired={"old": lineage})
    yield json.dumps(entry.records(partition, 1)).encode()


def read_entries(data: bytes) -> None:
    try:
        found = json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        found = {"flights/0": data.decode(errors="replace")}
    if isinstance(found, dict):
        entry.partitions({key: value for key, value in found.items() if isinstance(value, str)})


def properties() -> Iterator[bytes]:
    yield b"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/a.pem\nssl.ca.location=/b"
    jaas = r"org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password=\"b\";"
    yield f"security.protocol: SASL_SSL\n# x\nsasl.mechanism PLAIN\nsasl.jaas.config={jaas}\n".encode()


# Text that JSON parsers choke on: without end in depth, in digits, in exponents.
HOSTILE = [b"[" * 200_000, b'{"a":' * 100_000, b"9" * 5_000, b"1e999", b"NaN", b'"\\ud800"', b"\xff\xfe" * 9]

BUNDLE = {
    "type": "all",
    "results": [{"topic": "flights", "partition": 0, "gaps": [[1, 2]], "topic_id": str(ID)}],
}

PARSERS: Mapping[str, Parser] = {
    "batches": Parser(read_batches, (Damaged,), [*batches()], hostile_batches, resealed),
    "records": Parser(read_records, (Damaged,), [*batches()], hostile_batches, resealed),
    "manifests": Parser(
        read_manifest,
        (AqueductError,),
        [manifest.pack(stored()), plain_manifest(), *HOSTILE],
        hostile_manifests,
        dress=zstandard.ZstdCompressor().compress,
    ),
    "archives": Parser(
        read_archive,
        (AqueductError, zstandard.ZstdError),
        [*archives()],
        hostile_archives,
        zstandard.ZstdCompressor().compress,
    ),
    "znodes": Parser(
        lambda data: znode_snapshots.decode(data),
        (AqueductError, ValueError, KeyError, TypeError),
        [*znodes(), *HOSTILE],
        hostile_znodes,
        lambda data: numbered_snapshots.seal(bytearray(data)),
    ),
    "foreign": Parser(
        read_foreign_segment,
        (AqueductError,),
        [*foreign_segments()],
        hostile_foreign_segments,
        foreign_segment,
    ),
    "orc": Parser(
        lambda data: orc_times.fault(memoryview(data), rows=2, iceberg=False),
        (),
        [*orc_files()],
        hostile_orc_files,
    ),
    "large": Parser(
        read_large_foreign_segment,
        (AqueductError,),
        [*foreign_segments()],
        hostile_large_foreign_segments,
        foreign_segment,
    ),
    "quorum": Parser(read_metadata, (Damaged, ValueError), [*metadata()], hostile_metadata, resealed),
    "avro": Parser(read_avro_schema, (WrongSchema,), [*avro_schemas(), *HOSTILE], hostile_avro_schemas),
    "registry": Parser(read_registry_path, (), [*registry_paths()]),
    "metrics": Parser(read_metrics_page, (), [*metrics_pages()], hostile_metrics_pages),
    "keys": Parser(read_key, (AqueductError,), [*keys(), *HOSTILE]),
    "indexes": Parser(
        read_index,
        (Damaged,),
        [*indexes(), *(zstandard.ZstdDecompressor().decompress(each[4:]) for each in indexes())],
        hostile_indexes,
        dress=recompressed_index,
    ),
    "bundles": Parser(
        lambda data: bundle.loads(data.decode(errors="replace"), "the bundle"),
        (AqueductError,),
        [json.dumps(BUNDLE).encode(), *HOSTILE],
    ),
    "ledger": Parser(read_entries, (AqueductError,), [*entries(), *HOSTILE]),
    "positions": Parser(
        lambda data: position.loads(data.decode(errors="replace")),
        (),
        [SenderPosition(topic_id=str(ID), from_=3, session=4, epoch=5).dumps().encode(), *HOSTILE],
    ),
    "frames": Parser(read_frame, (Malformed,), [*frames()]),
    "properties": Parser(
        lambda data: client_config.parse(data.decode(errors="replace"), "the file"),
        (AqueductError,),
        [*properties(), *HOSTILE],
    ),
}


@st.composite
def changed(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """Change a sample: bits, numbers, pieces that go, come twice, or come from elsewhere."""
    data = bytearray(draw(st.sampled_from(samples)))
    numbers = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1])
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 40)))
        match draw(st.sampled_from(["bit", "number", "cut", "twice", "noise", "spliced", "end"])):
            case "bit":
                if at < len(data):
                    data[at] ^= 1 << draw(st.integers(0, 7))
            case "number":
                width = draw(st.sampled_from([1, 2, 4, 8]))
                data[at : at + width] = (draw(numbers) & ((1 << 8 * width) - 1)).to_bytes(width)
            case "cut":
                del data[at:to]
            case "twice":
                data[at:at] = data[at:to] * draw(st.integers(1, 30))
            case "noise":
                data[at:to] = draw(st.binary(max_size=40))
            case "spliced":
                data[at:to] = draw(st.sampled_from(samples))[:200]
            case "end":
                del data[at:]
    return bytes(data)


def memory() -> int:
    """Return the most bytes of memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(name: str, seconds: float) -> int:
    """Try for so long; return how many inputs. Hypothesis' error, with the smallest input, at a fault."""
    parser, inputs = PARSERS[name], 0
    try_one(parser, parser.samples[0], memory())  # what is imported at the first use is no input's
    before = memory()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(changed(parser.samples), st.booleans())
    def one(data: bytes, dressed: bool) -> None:
        nonlocal inputs
        inputs += 1
        try_one(parser, parser.dress(data) if dressed else data, before)

    for sample in (*parser.samples, *map(parser.dress, parser.samples), *parser.hostile()):
        try_one(parser, sample, before)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        one()
    return inputs


def try_one(parser: Parser, data: bytes, before: int) -> None:
    began = time.process_time()
    with suppress(*parser.errors):
        parser.parse(data)
    took, grown = time.process_time() - began, memory() - before
    assert took < MOST_SECONDS, f"{took:.1f} s of a processor for {data[:80]!r}"
    assert grown < MOST_MEMORY, f"{grown:,} bytes of memory for {data[:80]!r}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/fuzz", description="Throw wrong bytes at a parser.")
    parser.add_argument("name", choices=PARSERS)
    parser.add_argument("--seconds", type=float, default=600, help="default: 600")
    args = parser.parse_args(arguments)
    inputs = fuzz(args.name, args.seconds)
    print(
        f"{args.name}: {inputs:,} inputs, each a value or an error of its own; {memory() >> 20} MiB at most"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
