"""Reads tables as any lister does: by HDFS's own REST or from an object store, and pyarrow.

Where the environment names an object store (AWS_ENDPOINT_URL), it reads there. This file is sent to a host of
the lake, and runs there, with nothing of ours: `watch TABLE...` reads all of
them again and again until its input ends, `rows TABLE` prints rows, and `commits TABLE` the table's log. Of
an Iceberg table `metadata METASTORE TABLE` prints where its metadata is, `content PATH...` files in base64,
and `rows_of PATH...` their rows, each with its file.
"""

import base64
import http.client
import json
import os
import select
import ssl
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

# HDFS's folder, and the store's bucket.
LAKE, PLACE = "/lake", ("k_topic", "k_partition", "k_offset")
TLS = Path("/etc/aqueduct/hdfs/tls")
PAUSE_SECONDS = 3.0
NO_DAY = "__HIVE_DEFAULT_PARTITION__"


class AwayError(Exception):
    """HDFS does not answer."""


class GoneError(Exception):
    """Something that was listed is not there any more."""


class Files:
    """Where files are."""

    def ask(self, path: str, what: str, method: str = "GET") -> bytes:
        """Return what a file has (OPEN), or what HDFS says to other things that it is asked."""
        raise NotImplementedError

    def listed(self, path: str) -> list[tuple[str, bool]]:
        """Return names in a folder, and whether each is a folder."""
        raise NotImplementedError

    def files(self, path: str) -> Iterator[str]:
        """Yield the files below a folder that readers look at."""
        for name, is_folder in self.listed(path):
            if not name.startswith(("_", ".")):
                yield from self.files(f"{path}/{name}") if is_folder else [f"{path}/{name}"]


class Store(Files):
    """Arrow's own client of S3, as the environment says."""

    def __init__(self) -> None:
        from pyarrow import fs

        scheme, _, host = os.environ["AWS_ENDPOINT_URL"].partition("://")
        self._select = fs.FileSelector
        self._store = fs.S3FileSystem(
            scheme=scheme,
            endpoint_override=host,
            region=os.environ["AWS_REGION"],
            tls_ca_file_path=os.environ["AWS_CA_BUNDLE"],
        )

    def ask(self, path: str, what: str, method: str = "GET") -> bytes:
        with self._store.open_input_file(path.removeprefix("/")) as file:
            return bytes(file.read())

    def listed(self, path: str) -> list[tuple[str, bool]]:
        found = self._store.get_file_info(self._select(path.removeprefix("/"), allow_not_found=True))
        return sorted((each.base_name, not each.is_file) for each in found)


class Hdfs(Files):
    """A client of HDFS's REST, with the certificate of this host."""

    def __init__(self) -> None:
        self._context = ssl.create_default_context(cafile=str(TLS / "ca.pem"))
        [certificate] = (path for path in TLS.glob("*.pem") if path.name != "ca.pem")
        self._context.load_cert_chain(str(certificate))
        self._open: dict[str, http.client.HTTPSConnection] = {}
        self._page = f"https://{Path('/etc/hostname').read_text().strip()}:9871"

    def ask(self, path: str, what: str, method: str = "GET") -> bytes:
        url = f"{self._page}/webhdfs/v1{quote(path)}?op={what}&user.name=aqueduct-land"
        status, content, elsewhere = self._once(url, method)
        if status == 307:
            status, content, _ = self._once(elsewhere, method)
        if status == 404:
            raise GoneError(path)
        if status != 200:
            raise AwayError(f"{status}: {content[:300]!r}")
        return content

    def _once(self, url: str, method: str) -> tuple[int, bytes, str]:
        parts = urlsplit(url)
        to = self._open.pop(parts.netloc, None) or http.client.HTTPSConnection(
            parts.netloc, context=self._context, timeout=120
        )
        try:
            to.request(method, f"{parts.path}?{parts.query}")
            answer = to.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            to.close()
            raise AwayError(repr(error)) from None
        self._open[parts.netloc] = to
        return answer.status, content, answer.headers.get("Location", "")

    def listed(self, path: str) -> list[tuple[str, bool]]:
        try:
            found = json.loads(self.ask(path, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        except GoneError:
            return []
        return [(each["pathSuffix"], each["type"] == "DIRECTORY") for each in found]


def folder(table: str) -> str:
    return f"{LAKE}/{table.replace('.', '/')}"


def watch(files: Files, tables: list[str]) -> Iterator[dict[str, Any]]:
    """Read which records are in any of the tables, and count those that are there twice."""
    import pyarrow as pa
    from pyarrow import orc

    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        found: dict[str, Any] = {"began": time.time()}
        try:
            paths = [path for table in tables for path in files.files(folder(table))]
            read = [orc.ORCFile(pa.BufferReader(files.ask(path, "OPEN"))).read([*PLACE]) for path in paths]
            found |= {"files": len(paths), "rows": 0, "distinct": 0}
            if read:
                whole = pa.concat_tables(read)
                found |= {"rows": len(whole), "distinct": len(whole.group_by([*PLACE]).aggregate([]))}
        except (AwayError, GoneError) as error:
            found["error"] = f"{type(error).__name__}: {error}"
        yield found | {"ended": time.time()}


def rows(files: Files, table: str) -> Iterator[dict[str, Any]]:
    """Yield rows without what is NULL; moments in milliseconds, decimals as text, bytes in hexadecimal."""
    for path in files.files(folder(table)):
        day = path.rpartition("/")[0].rpartition("/day=")[2] if "/day=" in path else NO_DAY
        of_folder = {} if day == NO_DAY else {"day": day}
        for row in _rows(files, path):
            yield row | of_folder


def rows_of(files: Files, *paths: str) -> Iterator[dict[str, Any]]:
    for path in paths:
        for row in _rows(files, path):
            yield row | {"path": path}


def _rows(files: Files, path: str) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import orc

    for row in orc.ORCFile(pa.BufferReader(files.ask(path, "OPEN"))).read().to_pylist():
        yield {name: _plain(each) for name, each in row.items() if each is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    if isinstance(value, Decimal):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def metadata(_: Files, metastore: str, table: str) -> Iterator[str]:
    """Yield where the metastore says that an Iceberg table's metadata is."""
    from pymetastore.hive_metastore.ThriftHiveMetastore import Client
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport

    host, _, port = metastore.removeprefix("thrift://").partition(":")
    transport = TBufferedTransport(TSocket(host, int(port)))
    transport.open()
    yield Client(TBinaryProtocol(transport)).get_table(*table.split(".")).parameters["metadata_location"]
    transport.close()


def content(files: Files, *paths: str) -> Iterator[str]:
    for path in paths:
        yield base64.b64encode(files.ask(path, "OPEN")).decode()


def commits(files: Files, table: str) -> Iterator[dict[str, Any]]:
    log = f"{folder(table)}/_land/commits"
    for name, _ in files.listed(log):
        yield json.loads(files.ask(f"{log}/{name}", "OPEN"))


def newest(files: Files, table: str) -> Iterator[int]:
    """Yield the number of the newest commit."""
    yield max(
        (int(name.removesuffix(".json")) for name, _ in files.listed(f"{folder(table)}/_land/commits")),
        default=0,
    )


def move(files: Files, path: str, to: str) -> Iterator[dict[str, Any]]:
    """Give a file another name, and yield what HDFS says; fail where it did not."""
    done = json.loads(files.ask(path, f"RENAME&destination={quote(to)}", "PUT"))
    assert done["boolean"], f"{path} was not moved to {to}"
    yield done


def main(what: str, *arguments: str) -> None:
    files = Store() if "AWS_ENDPOINT_URL" in os.environ else Hdfs()
    told: Iterator[Any]
    if what == "watch":
        told = watch(files, [*arguments])
    else:
        known = (rows, rows_of, metadata, content, commits, newest, move)
        told = {each.__name__: each for each in known}[what](files, *arguments)
    for each in told:
        print(json.dumps(each), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
