"""Files of Lenses' Stream Reactor S3 sink, STOREAS Bytes_KeyAndValueWithSizes, versions 2.1.0 to 4.2.0.

    <prefix>/<topic>/<partition>/<offset of the last record>.bytes       numbers padded with zeros, or not

(GitHub: lensesio/stream-reactor, kafka-connect-aws-s3/README-sink.md; 5.0 no longer writes such files.) A
file consists of records: the length of the key and of the value (8 bytes each, big-endian), key, value. It
contains no offsets: they are counted back from the last one, which is in the name.
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
INDEXES = ".indexes/"  # where the sink stores its progress, since 3.0
SIZES = struct.Struct(">qq")
NO_TIME = -1
LACKS = (
    Skipped("timestamps of records", "the files contain none; each is imported as -1", "import-source-lacks"),
    Skipped("headers of records", "the files contain none", "import-source-lacks"),
    Skipped(
        "settings of topics, and replication factors",
        "the files contain none. Set them after the restore",
        "import-source-lacks",
    ),
    Skipped(
        "consumer groups, ACLs and quotas",
        "the files contain none. Set the offsets of consumer groups after the restore",
        "import-source-lacks",
    ),
    Skipped(
        "offsets",
        "only the last offset of each file is known, and the others are counted back from it. Before gaps of "
        "the log (transaction markers, compaction), the imported offsets are too high",
        "import-offsets-counted",
    ),
)

_PATH = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249})/(?P<partition>[0-9]{1,19})/(?P<last>[0-9]{1,19})\.bytes"
)


def store(entries: Iterable[Entry], url: str) -> ForeignStore:
    """Return the contents of a folder of such files. Refused if it contains a file of another layout."""
    files_by_partition: dict[tuple[str, int], list[ForeignFile]] = {}
    for entry in entries:
        if entry.path.startswith(INDEXES):
            continue
        match = _PATH.fullmatch(entry.path)
        if match is None or int(match["partition"]) >= MOST_PARTITIONS:
            raise Refused(
                "import-source-unknown",
                f"{url} contains {entry.path[:120]!r}, which is not a file of {PROGRAM}: its files are "
                "<topic>/<partition>/<offset>.bytes below the sink's prefix. Pass this prefix with --from.",
            )
        file = ForeignFile(entry.path, entry.size, int(match["last"]))
        files_by_partition.setdefault((match["topic"], int(match["partition"])), []).append(file)
    if not files_by_partition:
        raise Refused(
            "import-source-unknown", f"{url} contains no file. Pass the prefix of the sink with --from."
        )
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
                f"{url}: {foreign_partition} has two files for the same offset, with different leading "
                "zeros. Move one of them to another folder.",
            )
    return ForeignStore(
        program=PROGRAM, cluster="", topics=topics, partitions=partitions, groups=(), lacks=LACKS
    )


def read(file_bytes: memoryview, file: ForeignFile, url: str) -> FoundRecords:
    """Read a file; Failed if its size does not match its records."""
    content = file_bytes.tobytes()
    if not content:  # the sink writes no empty files
        raise Failed("import-file-damaged", f"{url}/{file.path} is damaged: it has 0 bytes.")
    begins: list[int] = []
    keys: list[int] = []
    values: list[int] = []
    position = 0
    while position < len(content):  # only the sizes indicate the next record
        try:
            key, value = SIZES.unpack_from(content, position)
        except struct.error:
            key = value = -1
        stop = position + SIZES.size + key + value
        if key < 0 or value < 0 or stop > len(content):
            raise Failed(
                "import-file-damaged",
                f"{url}/{file.path} is truncated, or was not written with Bytes_KeyAndValueWithSizes: the "
                f"record at byte {position} extends beyond its end.",
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
