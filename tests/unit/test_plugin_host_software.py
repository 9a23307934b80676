"""A folder that the module host_software shares by a group: the group has all that anybody creates there."""

import importlib.util
import os
import struct
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/modules/host_software.py"
GROUP = 54_321  # of nobody here


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("host_software", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(path: Path) -> dict[tuple[int, int], int]:
    """Return what each tag and id may do, as Linux keeps it."""
    acl = os.getxattr(path, "system.posix_acl_access")
    return {(tag, each): may for tag, may, each in struct.iter_unpack("<HHI", acl[4:])}


def test_what_is_created_in_a_shared_folder_is_the_group_s_too(plugin: ModuleType, tmp_path: Path) -> None:
    host = plugin.Host(SimpleNamespace(check_mode=False, params={"brought": {}}))
    host._share(tmp_path, GROUP)
    assert len(host.changed) == 1
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


def test_a_folder_that_is_shared_stays_as_it_is(plugin: ModuleType, tmp_path: Path) -> None:
    def changed(group: int) -> bool:
        host = plugin.Host(SimpleNamespace(check_mode=False, params={"brought": {}}))
        host._share(tmp_path, group)
        return bool(host.changed)

    assert [changed(group) for group in (GROUP, GROUP, GROUP + 1, GROUP + 1)] == [True, False, True, False]
