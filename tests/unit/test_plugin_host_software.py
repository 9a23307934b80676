"""What the module host_software does on a host: folders shared by a group, and compiled environments."""

import hashlib
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from kit import plugin_modules

GROUP = 54_321  # of nobody here


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    return plugin_modules.load("host_software")


def share(plugin: ModuleType, folder: Path, group: int) -> bool:
    """Share a folder; return whether that changed it."""
    host = plugin.Host(SimpleNamespace(check_mode=False, params={"brought": {}}))
    with plugin.safe_files.folder(folder) as opened:
        host._share(opened, group)
    return bool(host.changed)


def entries(path: Path) -> dict[tuple[int, int], int]:
    """Return what each tag and id may do, as Linux keeps it."""
    acl = os.getxattr(path, "system.posix_acl_access")
    return {(tag, each): may for tag, may, each in struct.iter_unpack("<HHI", acl[4:])}


def test_new_files_in_shared_folder_are_group_accessible(plugin: ModuleType, tmp_path: Path) -> None:
    assert share(plugin, tmp_path, GROUP)
    umask = os.umask(0o077)
    try:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder").chmod(0o770)  # as Hadoop's file system does
        (tmp_path / "folder/log").touch()
        (tmp_path / "folder/log").chmod(0o660)
    finally:
        os.umask(umask)
    log = tmp_path / "folder/log"
    assert entries(log)[plugin.GROUP, GROUP] & entries(log)[plugin.MASK, plugin.NOBODY] == 6
    assert not log.stat().st_mode & 0o007
    assert (
        entries(log)[plugin.GROUP_OBJ, plugin.NOBODY] == 0
    )  # the user's own group has nothing to do with it


def test_shared_folder_is_not_changed_again(plugin: ModuleType, tmp_path: Path) -> None:
    assert [share(plugin, tmp_path, group) for group in (GROUP, GROUP, GROUP + 1, GROUP + 1)] == [
        True,
        False,
        True,
        False,
    ]


def test_what_the_program_imports_is_compiled(plugin: ModuleType, tmp_path: Path) -> None:
    """Where a package of another environment is lacking, or something is broken, the rest is."""
    package = tmp_path / "aqueduct/room"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("raise SystemExit(9)")
    (package / "elsewhere.py").write_text("import no_such_package")
    (package / "broken.py").write_text("import used, and more")
    (package / "here.py").write_text("import used")
    (tmp_path / "used.py").touch()
    (tmp_path / "unused.py").touch()

    found = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    subprocess.run([sys.executable, "-I", "-c", f"{found}\n{plugin.COMPILE}"], check=True)
    names = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    assert names == {"__init__", "elsewhere", "here", "used"}


def test_our_package_of_the_former_name_is_removed(plugin: ModuleType, tmp_path: Path) -> None:
    """Both would else stay, with the modules that only the former one has."""
    environment, wheel = tmp_path / "base", tmp_path / "aqueduct_estate-1.0-py3-none-any.whl"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    [packages] = environment.glob("lib/python3.*/site-packages")
    former = {
        "METADATA": "Metadata-Version: 2.1\nName: aqueduct\nVersion: 0.9\n",
        "RECORD": "",
        "INSTALLER": "uv",
    }
    (packages / "aqueduct-0.9.dist-info").mkdir()
    for name, content in former.items():
        (packages / "aqueduct-0.9.dist-info" / name).write_text(content)
    (packages / "aqueduct").mkdir()
    (packages / "aqueduct/gone.py").touch()
    listed = ["aqueduct/gone.py", *(f"aqueduct-0.9.dist-info/{name}" for name in former)]
    (packages / "aqueduct-0.9.dist-info/RECORD").write_text("".join(f"{name},,\n" for name in listed))
    (environment / plugin.WHEELS).write_text(f"wheels for Python {plugin.PYTHON}")
    information = "aqueduct_estate-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as members:
        members.writestr("aqueduct/__init__.py", "")
        members.writestr(
            f"{information}/METADATA", "Metadata-Version: 2.1\nName: aqueduct-estate\nVersion: 1.0\n"
        )
        members.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        members.writestr(f"{information}/RECORD", "")
    brought = {plugin.OWN: {"path": str(wheel), "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}}
    host = plugin.Host(SimpleNamespace(check_mode=False, params={"brought": brought}))
    uv = str(Path(sys.executable).with_name("uv"))
    host.environment("base", str(environment), "wheels", wheel.name, uv)
    assert [path.name for path in packages.glob("aqueduct*.dist-info")] == [information]
    assert (packages / "aqueduct/__init__.py").exists()
    assert not (packages / "aqueduct/gone.py").exists()


def test_host_without_apt_is_refused_before_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of the RPM family is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = {"path": str(tmp_path / "made"), "owner": "root", "mode": "0755", "shared_by": None}
    answer = plugin_modules.run("host_software", {"packages": ["rsync"], "folders": [folder]})
    assert answer["failed"]
    assert "[distribution-unsupported]" in answer["msg"]
    assert not (tmp_path / "made").exists()
