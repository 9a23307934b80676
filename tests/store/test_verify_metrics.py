"""The metrics of `aqueduct verify`, in a file for the textfile collector."""

import shutil
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aqueduct.cli import main
from aqueduct.errors import ExitCode

STORE = Path(__file__).parent / "format_1"


def values(file: Path) -> dict[str, float]:
    return {
        sample.name.removeprefix("aqueduct_backup_verify_"): sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORE, tmp_path / "store"))


def test_the_time_without_damage_stays_while_verifies_fail(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "verify.prom"
    command = ["verify", "--store", store.as_uri(), "--metrics-file", str(file)]
    assert main(command) == ExitCode.DONE
    first = values(file)
    assert (first["exit_code"], first["damaged"]) == (0, 0)
    assert first["succeeded_time"] == first["time"]
    sorted(store.glob("topics/flights/0/*.log"))[0].unlink()
    assert main(command) == ExitCode.FAILED
    damaged = values(file)
    assert damaged["exit_code"] == 1
    assert damaged["damaged"] > 0
    assert damaged["succeeded_time"] == first["succeeded_time"]
    shutil.rmtree(store)
    assert main(command) != ExitCode.DONE
    gone = values(file)
    assert gone["exit_code"] != 0
    assert "snapshot" not in gone, "none was read"
    assert gone["succeeded_time"] == first["succeeded_time"]


def test_the_file_is_not_one_of_the_store(store: Path) -> None:
    file = store / "verify.prom"
    assert main(["verify", "--store", store.as_uri(), "--metrics-file", str(file)]) == ExitCode.REFUSED
    assert not file.exists()
