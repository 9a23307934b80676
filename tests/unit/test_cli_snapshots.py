import json
import shutil
from pathlib import Path

import pytest

from aqueduct import cli

STORE = Path(__file__).parents[1] / "store" / "format_1"


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["snapshots", "--store", STORE.as_uri()]) == 0
    header, *rows, g1, g2, planes_g1, planes_g2 = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "created", "topics", "records", "bytes", "stored", "bytes", "gaps"]
    assert [row.split()[:5] for row in rows] == [
        ["1", "2014-01-01T00:00:03.000Z", "3", "49", "1,341"],
        ["2", "2014-01-01T02:00:00.000Z", "3", "54", "1,494"],
        ["3", "2014-01-02T00:00:00.000Z", "3", "53", "1,494"],
    ]
    assert [g1, g2] == ["airports g1: ACTIVATE 1 to 2, PASSIVATE 3", "airports g2: ACTIVATE 3"]  # recreated
    assert planes_g1 == "planes g1: ACTIVATE 1 to 2, PASSIVATE 3"  # generations
    assert planes_g2 == "planes g2: ACTIVATE 3"


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["snapshots", "--store", STORE.as_uri(), "--json"]) == 0
    *_, newest = found = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in found] == [1, 2, 3]
    assert newest == {
        "id": 3,
        "created": "2014-01-02T00:00:00.000Z",
        "topics": 3,
        "records": 53,
        "bytes": 1494,
        "gaps": 1,
        "newest_record": "2014-01-01T00:00:44.000Z",
        "generations": [
            {"topic": "planes", "instance": "g1", "state": "PASSIVATE"},
            {"topic": "planes", "instance": "g2", "state": "ACTIVATE"},
            {"topic": "airports", "instance": "g1", "state": "PASSIVATE"},
            {"topic": "airports", "instance": "g2", "state": "ACTIVATE"},
        ],
    }


def test_a_store_without_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(STORE / "store.json", tmp_path)
    assert cli.main(["snapshots", "--store", tmp_path.as_uri(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert cli.main(["snapshots", "--store", tmp_path.as_uri()]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_usable_and_unusable_snapshots_are_both_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = shutil.copytree(STORE, tmp_path / "store")
    (store / "snapshots/0000000002.json.zst").unlink()
    summary = f"aqueduct: [snapshot-unusable] 2 snapshots of {store.as_uri()} cannot be used: 2, 3. "
    assert cli.main(["snapshots", "--store", store.as_uri()]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[2:4] == [
        "         2  is lost",
        "         3  builds on snapshot 2, which is lost",
    ]
    assert [row.split()[0] for row in out.splitlines()] == ["id", "1", "2", "3", "planes"]
    assert err.startswith(summary)
    assert cli.main(["snapshots", "--store", store.as_uri(), "--json"]) == 1
    out, err = capsys.readouterr()
    assert [each["id"] for each in json.loads(out)] == [1]
    lost, built_upon, last = err.splitlines()
    assert lost == "aqueduct: [snapshot-unusable] Snapshot 2 is lost."
    assert built_upon == "aqueduct: [snapshot-unusable] Snapshot 3 builds on snapshot 2, which is lost."
    assert last.startswith(summary)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: --store"),
        (["--store", "file:///none/at/all"], "file:///none/at/all has no backup"),
        (["--store", "/tmp"], "[store-url-invalid] The URL of the store, /tmp,"),  # noqa: S108
    ],
)
def test_refusals(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["snapshots", *arguments]) == 2
    assert sentence in capsys.readouterr().err
