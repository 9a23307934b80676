"""python -m servers.jars hadoop|older-kafka|newest-kafka|oldest-kafka CACHE DIRECTORY LOCK

Unpacks the jars of a server for tests into a directory, unless another run was faster.
"""

import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from aqueduct.control_node.artifacts import Artifact, hadoop_jars, kafka_jars, maven_jars
from aqueduct.errors import AqueductError
from servers import hadoop, oldest_kafka


def kafka(lock: str, cache: str) -> Artifact:
    return kafka_jars(
        version=Path(lock).stem.removeprefix("kafka-"),
        source="maven",
        archive_url=None,
        archive_sha256=None,
        lock=lock,
        cache=cache,
    )


def main(what: str, cache: str, directory: str, lock: str) -> None:
    try:
        if what == "hadoop":
            jars = hadoop_jars(version=hadoop.VERSION, lock=lock, cache=cache)
        elif what == "oldest-kafka":
            name = f"{what}-{oldest_kafka.VERSION}"
            jars = maven_jars(name, [oldest_kafka.COORDINATES], lock=lock, cache=cache)
        else:
            jars = kafka(lock, cache)
    except AqueductError as error:
        sys.exit(f"test: {error}")
    with tempfile.TemporaryDirectory(dir=cache) as scratch, tarfile.open(jars.path) as archive:
        archive.extractall(Path(scratch, what), filter="data")
        with suppress(OSError):
            Path(scratch, what).rename(directory)


if __name__ == "__main__":
    main(*sys.argv[1:])
