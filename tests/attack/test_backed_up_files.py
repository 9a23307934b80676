"""A user of a host whose files are backed up, who is to become nobody else by what comes back."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct.cli import main
from servers import ssh
from servers.ssh import SshServer

USER = 1
# What rsync's --fake-super would make of a file that has these: as it is written by `user.rsync.%stat`.
SETUID, LINK, DISK = b"104755 0,0 0:0", b"120777 0,0 0:0", b"60666 254,0 0:0"
SETUID_BY_CAPABILITY = bytes.fromhex("0100000280000000000000000000000000000000")  # VFS_CAP_REVISION_2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh.running(tmp_path_factory.mktemp("ssh")) as started:
        yield started


def plant(folder: Path, name: str, content: str, attributes: dict[str, bytes]) -> None:
    """Make a file as any user may."""
    (folder / name).write_text(content)
    os.chown(folder / name, USER, USER)
    for each, value in attributes.items():
        os.setxattr(folder / name, each, value)


@pytest.mark.parametrize("way", ["ssh", "local"])
@pytest.mark.parametrize("options", [[], ["--xattrs"]])
def test_what_a_user_writes_beside_his_files_makes_nobody_root(
    server: SshServer, tmp_path: Path, way: str, options: list[str]
) -> None:
    folder, target = tmp_path / "etc", tmp_path / "target"
    folder.mkdir()
    for name, attribute, content in (
        ("suid", SETUID, "#!/bin/sh"), ("link", LINK, "/etc/shadow"), ("disk", DISK, "")
    ):  # fmt: skip
        plant(folder, name, content, {"user.rsync.%stat": attribute})
    disguised = {"user.rsync.security.capability": SETUID_BY_CAPABILITY, "user.rsync.trusted.mine": b"x"}
    plant(folder, "able", "#!/bin/sh", disguised)
    source = ["--source", str(folder)]
    if way == "ssh":
        key = server.reader(f"{tmp_path.name}", folder)
        at = ["--ssh-port", str(server.port), "--ssh-key", str(key), "--known-hosts", str(server.known_hosts)]
        source = ["--source", f"{server.login}:{folder}", *at]
    backups = ["--backups", str(tmp_path / "backups"), "--name", "etc"]
    assert main(["files", "backup", *backups, *source, *options]) == 0
    assert main(["files", "restore", *backups, "--to", str(target)]) == 0
    for name in ("suid", "link", "disk", "able"):
        found = (target / name).lstat()
        assert stat.S_ISREG(found.st_mode)
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7000) == (USER, USER, 0)
        assert (target / name).read_text() == (folder / name).read_text()
        assert os.listxattr(target / name) == []
