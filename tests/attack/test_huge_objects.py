"""Objects of any size in a lake, an export, or the store of another program: they are not read."""

from pathlib import Path

import pytest
from kit.identifiers import printed, raises

from aqueduct.cli import main
from aqueduct.errors import ExitCode, Failed
from aqueduct.land import log, table_log
from aqueduct.land.iceberg import _StoredFile
from aqueduct.land.log import Commit, State, Step
from aqueduct.land.table_log import TableLog
from aqueduct.snapshots.export import state as export
from aqueduct.store import names
from aqueduct.store.backends import open_editable
from aqueduct.store.objects import EditableObjects, Exists

SIZE = 1 << 40  # more than any memory
TABLE = "lake.flights"
COMMIT = Commit(
    number=1,
    kind=log.LAND,
    positions=Step({}, {"t": {"0": 1}}),
    added=(),
    removed=(),
    bad=0,
    schema=1,
    created="2026-01-01T00:00:00+00:00",
    topic_ids={"t": "id"},
)


@pytest.fixture
def objects(tmp_path: Path) -> EditableObjects:
    (tmp_path / "store").mkdir()
    return open_editable((tmp_path / "store").as_uri())


def plant(folder: Path, path: str) -> None:
    """Have a sparse file of that size below the store."""
    file = folder / "store" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as planted:
        planted.truncate(SIZE)


def test_a_commit_of_a_table(objects: EditableObjects, tmp_path: Path) -> None:
    plant(tmp_path, f"lake/flights/{log.path(1)}")
    with raises(Failed, "object-too-large", log.path(1)):
        TableLog(objects, TABLE).read()


def test_a_checkpoint_of_a_table(objects: EditableObjects, tmp_path: Path) -> None:
    plant(tmp_path, f"lake/flights/{log.checkpoint_path(500)}")
    with raises(Failed, "landing-checkpoint-damaged", "Move the file to another folder"):
        TableLog(objects, TABLE).read()


def test_commit_too_large_for_readers_is_not_written(
    objects: EditableObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_log, "MOST_LOG_BYTES", 100)
    of_table = TableLog(objects, TABLE)
    with raises(Failed, "landing-commit-too-large", "compact"):
        of_table.commit(COMMIT)
    assert not [path for path in tmp_path.rglob("*.json") if path.is_file()]
    assert TableLog(objects, TABLE).read() == State()


def test_metadata_of_an_iceberg_table(objects: EditableObjects, tmp_path: Path) -> None:
    plant(tmp_path, "lake/flights/_iceberg/metadata/1.metadata.json")
    stored = _StoredFile("hdfs://it", objects, "lake/flights/_iceberg/metadata/1.metadata.json")
    with raises(Failed, "object-too-large"):
        stored.open()


@pytest.mark.parametrize(
    ("path", "read"),
    [
        (export.BEGUN, export.begun),
        (export.DONE, export.done),
        (export.share_path(1), lambda target: export.share_done(target, 1)),
    ],
)
def test_what_an_export_notes(path: str, read: object, objects: EditableObjects, tmp_path: Path) -> None:
    plant(tmp_path, path)
    assert callable(read)
    with raises(Failed, "object-too-large", path):
        read(objects)


@pytest.mark.parametrize("layout", ["kafka-backup", "s3-binary"])
def test_a_file_of_another_program(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, {"kafka-backup": "manifest.json", "s3-binary": "orders/0/000000000007.bytes"}[layout])
    command = ["import", "--from", (tmp_path / "store").as_uri(), "--format", layout]
    assert main([*command, "--store", (tmp_path / "new").as_uri()]) == ExitCode.FAILED
    assert printed(capsys.readouterr().err) == ["object-too-large"]


def test_create_refuses_path_with_huge_planted_object(objects: EditableObjects, tmp_path: Path) -> None:
    """Whoever creates an object compares it with the one that is there."""
    plant(tmp_path, names.STORE)
    with pytest.raises(Exists):
        objects.create(names.STORE, b"{}")
