"""Collection and Python package of a control node fit, or a playbook says so."""

import shutil
from pathlib import Path

import pytest

from aqueduct.control_node import release
from aqueduct.errors import Refused

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Return a copy of the modules, as the collection has them."""
    for name in ("aqueduct", "spark_apps"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "VERSION").write_text("7.8.9\n")
    return tmp_path


def test_the_same_modules_in_another_folder_fit(collection: Path) -> None:
    release.check_fit(collection)


def test_a_checkout_fits_itself() -> None:
    release.check_fit(ROOT)


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_another_release_is_refused_with_both_versions(collection: Path, change: str) -> None:
    module = collection / "aqueduct/common/durations.py"
    if change == "changed":
        module.write_text(module.read_text() + "\n# another release\n")
    elif change == "added":
        module.with_name("durations_2.py").touch()
    else:
        module.unlink()
    with pytest.raises(Refused) as refused:
        release.check_fit(collection)
    assert refused.value.id == "release-mismatch"
    assert "7.8.9" in refused.value.sentence
    assert (ROOT / "VERSION").read_text().strip() in refused.value.sentence
