"""Flows whose engine was changed in the inventory, found by the files that a host has."""

from pathlib import Path

import pytest
import yaml

from aqueduct.estate.mirror_engines import ENGINE_FILES, EngineChange, engine_changes

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "/etc/aqueduct/mirror_maker"


@pytest.mark.parametrize("declared", ["mm2", "batches", "classic"])
@pytest.mark.parametrize(("file", "deployed"), ENGINE_FILES.items())
def test_deployed_engine_is_compared_with_the_declared_one(file: str, deployed: str, declared: str) -> None:
    changes = engine_changes([f"{FOLDER}/pro1/{file}", f"{FOLDER}/tls/ca.pem"], {"pro1": declared})
    change = EngineChange(flow="pro1", deployed=deployed, declared=declared)
    assert changes == ([] if declared == deployed else [change])


def test_new_host_and_interrupted_deployment_are_no_change() -> None:
    assert engine_changes([], {"pro1": "mm2"}) == []
    both = [f"{FOLDER}/pro1/mm2.properties", f"{FOLDER}/pro1/replicate.yml"]
    assert engine_changes(both, {"pro1": "batches", "other": "mm2"}) == []


def test_each_engine_removes_the_files_of_others() -> None:
    """Otherwise a switch back would look like an interrupted deployment."""
    absent = yaml.safe_load((ROOT / "roles/mirror_maker/vars/main.yml").read_text())["_mirror_maker_absent"]
    for engine, files in absent.items():
        assert ENGINE_FILES.keys() - files.keys() == {
            file for file, of_engine in ENGINE_FILES.items() if of_engine == engine
        }
