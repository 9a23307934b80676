"""An Iceberg table that is written only by iceberg_log. Its metadata lists data files that do not exist."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kit.iceberg_reader import newest
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.table import Table

from aqueduct.land import declaration, log
from aqueduct.land.iceberg import IcebergTables
from aqueduct.land.log import AddedFile, State
from aqueduct.land.metastore import Metastore
from servers.hive_metastore import HiveMetastore


class IcebergLog:
    """An Iceberg table that is written only by iceberg_log."""

    def __init__(self, metastore: HiveMetastore, folder: Path, **more: Any) -> None:
        self.name = f"t{os.urandom(4).hex()}"
        self.metastore = metastore
        self.folder = folder
        declared = {
            "table": f"lake.{self.name}",
            "topics": ["t"],
            "columns": [{"name": "n", "type": "int"}],
            "kind": "iceberg",
            **more,
        }
        [self.table] = declaration.parse([declared], "lake.yml")

    def state(self, number: int, files: Iterable[int] | Mapping[int | str, int], took_rows: int = 0) -> State:
        """Return a state with these files, by default with one row each."""
        rows = files if isinstance(files, Mapping) else dict.fromkeys(files, 1)
        live = {
            (path := f"_iceberg/data/{file}.orc"): AddedFile(path=path, rows=rows[file], bytes=1, sha256="")
            for file in rows
        }
        defined = log.definition(self.table)
        return State(number=number, live=live, definition=defined, took_rows=took_rows)

    @property
    def metadata(self) -> Path:
        """The folder of its metadata."""
        return self.folder / "lake" / self.name / "_iceberg" / "metadata"

    def updater(self) -> IcebergTables:
        metastore = Metastore([("127.0.0.1", self.metastore.port)])
        return IcebergTables(lambda: metastore, self.folder.as_uri())

    def found(self) -> Table:
        """Return the table, opened by an independent reader."""
        return HiveCatalog("hive", uri=self.metastore.url).load_table(f"lake.{self.name}")

    def read(self) -> tuple[int, list[str]]:
        """Return the newest commit in the table, and the names of the table's files."""
        found = self.found()
        names = [Path(task.file.file_path).stem for task in found.scan().plan_files()]
        return int(newest(found)["aqueduct.commit"]), sorted(names)
