"""Files of Lenses' Stream Reactor S3 sink, STOREAS Bytes_KeyAndValueWithSizes, versions 2.1.0 to 4.2.0.

    <prefix>/<topic>/<partition>/<offset of the last record>.bytes       numbers padded with zeros, or not

(GitHub: lensesio/stream-reactor, kafka-connect-aws-s3/README-sink.md; 5.0 has no such files any
more.) A file is records one after the other: the key's length and the value's (8 bytes each, big-endian),
key, value. Nothing else is there: offsets are counted back from the last one.
"""

import re
import struct
from collections.abc import Iterable

import numpy as np

from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.kafka.batches.records import Records
from aqueduct.snapshots.importer.fields import Fields, bodies
from aqueduct.snapshots.importer.layout import ForeignFile, ForeignPartition, ForeignStore, FoundRecords
from aqueduct.store.objects import Entry
from aqueduct.store.validation import MOST_PARTITIONS

PROGRAM = "Stream Reactor's S3 sink (2.1.0 to 4.2.0, Bytes_KeyAndValueWithSizes)"
INDEXES = ".indexes/"  # where the sink, since 3.0, looks up how far it has come
SIZES = struct.Struct(">qq")
NO_TIME = -1
LACKS = (
    Skipped("times of records", "such files have none, so the records have none (-1)", "import-source-lacks"),
    Skipped("headers of records", "such files have none", "import-source-lacks"),
    Skipped(
        "settings of topics, and replication factors",
        "such files have none. Set them after the restore",
        "import-source-lacks",
    ),
    Skipped(
        "consumer groups, ACLs and quotas",
        "such files have none, so groups begin anew",
        "import-source-lacks",
    ),
    Skipped(
        "offsets",
        "only each file's last offset is known, and the others are counted from it: where the log had gaps "
        "(markers of transactions, compaction), offsets before a gap are higher than they were",
        "import-offsets-counted",
    ),
)

_PATH = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249})/(?P<partition>[0-9]{1,19})/(?P<last>[0-9]{1,19})\.bytes"
)


def store(entries: Iterable[Entry], url: str) -> ForeignStore:
    """Return what such files are there; Refused at a file of another layout."""
    files_by_partition: dict[tuple[str, int], list[ForeignFile]] = {}
    for entry in entries:
        if entry.path.startswith(INDEXES):
            continue
        match = _PATH.fullmatch(entry.path)
        if match is None or int(match["partition"]) >= MOST_PARTITIONS:
            raise Refused(
                "import-source-unknown",
                f"{url} has {entry.path[:120]!r}, which is not a file of {PROGRAM}: its files are "
                "<topic>/<partition>/<offset>.bytes below the sink's prefix. Pass that prefix with --from.",
            )
        file = ForeignFile(entry.path, entry.size, int(match["last"]))
        files_by_partition.setdefault((match["topic"], int(match["partition"])), []).append(file)
    if not files_by_partition:
        raise Refused("import-source-unknown", f"{url} has no file. Pass the prefix of the sink with --from.")
    topics: dict[str, int] = {}
    for topic, partition in files_by_partition:
        topics[topic] = max(topics.get(topic, 0), partition + 1)
    partitions = tuple(
        ForeignPartition(
            topic=topic, partition=partition, files=tuple(sorted(files, key=lambda file: file.last))
        )
        for (topic, partition), files in sorted(files_by_partition.items())
    )
    for foreign_partition in partitions:
        lasts = [file.last for file in foreign_partition.files]
        if len(set(lasts)) < len(lasts):
            raise Refused(
                "import-file-repeated",
                f"{url}: {foreign_partition} has the file of an offset twice, with different leading zeros. "
                "Move one of them away.",
            )
    return ForeignStore(
        program=PROGRAM, cluster="", topics=topics, partitions=partitions, groups=(), lacks=LACKS
    )


def read(file_bytes: memoryview, file: ForeignFile, url: str) -> FoundRecords:
    """Read a file; Failed if records do not fill it."""
    content = file_bytes.tobytes()
    if not content:  # a sink writes a file when it has a record
        raise Failed("import-file-damaged", f"{url}/{file.path} is damaged: it has 0 bytes.")
    begins: list[int] = []
    keys: list[int] = []
    values: list[int] = []
    position = 0
    while position < len(content):  # only the sizes say where the next record is
        try:
            key, value = SIZES.unpack_from(content, position)
        except struct.error:
            key = value = -1
        stop = position + SIZES.size + key + value
        if key < 0 or value < 0 or stop > len(content):
            raise Failed(
                "import-file-damaged",
                f"{url}/{file.path} is truncated, or was not written with Bytes_KeyAndValueWithSizes: the "
                f"record at byte {position} does not end in it.",
            )
        if len(begins) > file.last:
            raise Failed(
                "import-file-damaged",
                f"{url}/{file.path} has more records than its last offset {file.last} allows.",
            )
        begins.append(position + SIZES.size)
        keys.append(key)
        values.append(value)
        position = stop
    starts, sizes = np.array(begins, np.int64), np.array(keys, np.int64)
    of_keys, of_values = Fields(starts, sizes), Fields(starts + sizes, np.array(values, np.int64))
    offsets = np.arange(file.last + 1 - len(begins), file.last + 1, dtype=np.int64)
    times = np.full(len(begins), NO_TIME, np.int64)
    return FoundRecords(Records(times, offsets, bodies(content, of_keys, of_values)), file.last + 1)
