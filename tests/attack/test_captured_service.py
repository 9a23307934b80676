"""A service that somebody has captured writes links into its own folders; the next playbook comes as root.

Run as root, as Ansible runs these modules on a host. The service's user is one that every Debian has.
"""

import json
import os
import pwd
import struct
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kit import ansible_process, plugin_modules

from aqueduct.control_node import certificates
from aqueduct.recovery.file_backup.folder import remove_tree

SERVICE = "daemon"
USER = pwd.getpwnam(SERVICE).pw_uid
CONTENT = "root's alone"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder that is the service's, as its configuration was, and its data are."""
    folder = tmp_path / "service"
    folder.mkdir()
    os.chown(folder, USER, USER)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """Return a folder of root's with a file, of which nothing is to change."""
    folder = tmp_path / "of root"
    folder.mkdir(mode=0o755)
    (folder / "file").write_text(CONTENT)
    (folder / "file").chmod(0o600)
    yield folder
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert (folder / "file").read_text() == CONTENT
    for path in (folder, folder / "file"):
        found = path.stat()
        assert (found.st_uid, found.st_mode & 0o077) == (0, 0o055 if path.is_dir() else 0)


def plant(link: Path, target: Path) -> None:
    link.symlink_to(target)
    os.lchown(link, USER, USER)


def made(folder: Path) -> Path:
    folder.mkdir()
    os.chown(folder, USER, USER)
    return folder


def keys(folder: Path, **further: Any) -> dict[str, Any]:
    entry = {"principal": "mirror-lake", "folder": str(folder), "owner": SERVICE, "ca": "", "properties": ""}
    return plugin_modules.run("host_keys", {"keys": [entry | further]})


def folders(path: Path) -> dict[str, Any]:
    folder = {"path": str(path), "owner": SERVICE, "mode": "0700", "shared_by": None}
    return plugin_modules.run("host_software", {"folders": [folder]})


def files(path: Path, content: str, **further: Any) -> dict[str, Any]:
    file = {"dest": str(path), "content": content, "owner": SERVICE, "mode": "0644", **further}
    return plugin_modules.run("service_files", {"files": [file]})


def assert_refused(answer: dict[str, Any], path: Path) -> None:
    assert answer.get("failed")
    assert f"[path-unsafe] {path} is " in answer["msg"]
    assert CONTENT not in str({name: value for name, value in answer.items() if name != "invocation"})


def test_key_folder_that_is_symlink_is_refused(own: Path, victim: Path) -> None:
    plant(own / "tls", victim)
    assert_refused(keys(own / "tls"), own / "tls")


def test_symlinked_parent_folder_is_refused(own: Path, victim: Path) -> None:
    plant(own / "lake", victim)
    assert_refused(keys(own / "lake/tls"), own / "lake")
    assert_refused(folders(own / "lake/tls"), own / "lake")
    assert_refused(files(own / "lake/file", ""), own / "lake")


def test_a_key_is_not_written_through_a_link(own: Path, victim: Path) -> None:
    """Also where the name of the scratch file can be guessed."""
    tls = made(own / "tls")
    for name in (".mirror-lake.key", "mirror-lake.pem", "ca.pem"):
        plant(tls / f".{name}.partial", victim / "file")
    keys(tls)
    assert (tls / ".mirror-lake.key").stat().st_uid == USER


@pytest.mark.parametrize("name", ["mirror-lake.pem", ".mirror-lake.key"])
def test_other_service_key_is_not_read_through_symlink(own: Path, victim: Path, name: str) -> None:
    tls = made(own / "tls")
    plant(tls / name, victim / "file")
    assert_refused(keys(tls), tls / name)


def test_file_owner_is_not_changed_through_symlink(own: Path, victim: Path, tmp_path: Path) -> None:
    """It has the very content that the playbook writes, so that only its owner is set."""
    (tmp_path / "ca").mkdir()
    authority = certificates.have_authority(tmp_path / "ca", datetime.now(UTC))[0]
    wanted = certificates.Wanted(
        principal="mirror-lake",
        names=("lake-1",),
        usages=certificates.SERVICE,
        validity_days=365,
        renewal_days=30,
    )
    tls = own / "tls"
    public = keys(tls)["keys"][0]["public_key"]
    signed = certificates.issue(public, wanted, authority, datetime.now(UTC))
    assert not keys(tls, certificate=signed, ca=CONTENT).get("failed")
    os.chown(tls, USER, USER)
    (tls / "ca.pem").unlink()
    plant(tls / "ca.pem", victim / "file")
    assert_refused(keys(tls, ca=CONTENT), tls / "ca.pem")
    plant(own / "trusted.pem", victim / "file")
    assert_refused(files(own / "trusted.pem", CONTENT), own / "trusted.pem")


def test_folder_owner_is_not_changed_through_symlink(own: Path, victim: Path) -> None:
    plant(own / "state", victim)
    assert_refused(folders(own / "state"), own / "state")


def test_diff_never_shows_root_file_through_symlink(own: Path, victim: Path) -> None:
    """A difference (--diff) has what was there before."""
    plant(own / "worker.properties", victim / "file")
    assert_refused(files(own / "worker.properties", "other"), own / "worker.properties")


def test_a_hard_link_is_refused(own: Path, victim: Path) -> None:
    """A kernel that protects hard links lets no service make one; another one does."""
    os.link(victim / "file", own / "trusted.pem")
    assert_refused(files(own / "trusted.pem", CONTENT), own / "trusted.pem")


def test_a_pipe_is_refused_and_not_waited_for(own: Path) -> None:
    os.mkfifo(own / "trusted.pem")
    assert_refused(files(own / "trusted.pem", ""), own / "trusted.pem")


def test_software_is_not_written_through_a_link(own: Path, victim: Path, tmp_path: Path) -> None:
    software = plugin_modules.load("host_software")
    plant(own / ".plugin.jar.partial", victim / "file")
    (tmp_path / "brought").write_text("jar")
    file = {"name": "jar", "path": str(own / "plugin.jar"), "mode": "0644"}
    digest = software._sha256(tmp_path / "brought")
    brought = {"jar": {"path": str(tmp_path / "brought"), "sha256": digest}}
    answer = plugin_modules.run("host_software", {"files": [{**file, "sha256": digest}], "brought": brought})
    assert not answer.get("failed")
    assert (own / "plugin.jar").read_text() == "jar"


def test_removal_deletes_symlink_but_not_target(own: Path, victim: Path) -> None:
    plant(own / "report.json", victim)
    (made(own / "old") / "log").write_text("")
    plant(own / "old/link", victim)
    for name in ("report.json", "old", "old"):
        answer = files(own / name, "", state="absent")
        assert not answer.get("failed")
    assert list(own.iterdir()) == []
    plant(own / "log", victim)
    assert_refused(files(own / "log/file", "", state="absent"), own / "log")


def test_deep_folder_at_report_path_is_removed(own: Path, victim: Path) -> None:
    """More levels than calls of Python, and longer than a path."""
    current = os.open(own, os.O_RDONLY)
    for name in ["report.json"] + ["a"] * 2500:
        os.mkdir(name, dir_fd=current)
        following = os.open(name, os.O_RDONLY, dir_fd=current)
        for subfolder in ("empty", "other"):
            os.mkdir(subfolder, dir_fd=following)
        os.symlink(victim, "link", dir_fd=following)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=following))
        os.close(current)
        current = following
    os.close(current)
    try:
        answer = files(own / "report.json", "", state="absent")
        assert not answer.get("failed")
        assert list(own.iterdir()) == []
    finally:
        if (own / "report.json").exists():  # pytest's own removal ends at the depth of calls
            remove_tree(own / "report.json")


def test_removal_stops_if_service_moves_folder_meanwhile(
    own: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service moves the folder that is open, whose `..` is another one then."""
    safe_files = plugin_modules.load("service_content").safe_files
    inner = made(made(own / "report.json") / "inner")
    elsewhere = made(own / "elsewhere")
    real = safe_files._without_files

    def move_first(descriptor: int) -> list[str]:
        if inner.exists() and os.fstat(descriptor).st_ino == inner.stat().st_ino:
            inner.rename(elsewhere / "inner")
        return list(real(descriptor))

    monkeypatch.setattr(safe_files, "_without_files", move_first)
    with pytest.raises(safe_files.UnsafePath), safe_files.folder(own) as folder:
        folder.remove("report.json")
    assert (elsewhere / "inner").is_dir()


@pytest.mark.parametrize("linked", ["report.json", "run"])
def test_symlinked_report_is_not_fetched_to_control_node(
    own: Path, victim: Path, tmp_path: Path, linked: str
) -> None:
    """A bundle goes on to another host, and belongs to a service there."""
    plant(own / linked, victim if linked == "run" else victim / "file")
    src = own / "run/file" if linked == "run" else own / "report.json"
    (made(own / "good") / "report.json").write_text("{}")
    brought = {"src": str(own / "good/report.json"), "dest": str(tmp_path / "reports/good.json")}
    missing = {"src": str(own / "good/none"), "dest": str(tmp_path / "reports/none.json")}
    tasks = [
        {"aqueduct.estate.service_content": brought, "register": "good"},
        {"aqueduct.estate.service_content": missing, "register": "lacking"},
        {"ansible.builtin.assert": {"that": ["good.dest is defined", "lacking.dest is not defined"]}},
        {"aqueduct.estate.service_content": {"src": str(src), "dest": f"{tmp_path}/reports/hostile.json"}},
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    done = ansible_process.play(
        tmp_path / "play.yml",
        *("--inventory=localhost,", "--connection=local"),
        f"--extra-vars=ansible_python_interpreter={sys.executable}",
    )
    assert done.returncode == 2
    assert f"{own / linked} is a symbolic link" in " ".join(done.stdout.split())
    assert CONTENT not in done.stdout
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["good.json"]


def test_a_report_without_end_is_not_read(own: Path) -> None:
    """What root reads is in its memory, and then in the control node's."""
    with (own / "report.json").open("wb") as report:
        report.truncate(1 << 40)
    safe_files = plugin_modules.load("service_content").safe_files
    with (
        safe_files.folder(own) as folder,
        pytest.raises(safe_files.UnsafePath, match=r"report\.json .*64 MiB"),
    ):
        folder.read("report.json")


def test_links_of_root_are_followed(victim: Path, tmp_path: Path) -> None:
    """A disk of data has a link to it in the place where services look; /var/run is one."""
    (tmp_path / "disk/data").mkdir(parents=True)
    (tmp_path / "data").symlink_to("disk/../disk/data")
    (tmp_path / "absolute").symlink_to(tmp_path / "data")
    for name in ("data", "absolute"):
        assert not folders(tmp_path / name / "kafka").get("failed")
        assert not files(tmp_path / name / "kafka/file", name).get("failed")
        assert (tmp_path / "disk/data/kafka/file").read_text() == name
    assert (tmp_path / "disk/data/kafka").stat().st_uid == USER


def test_service_cannot_replace_files_in_key_folder(tmp_path: Path) -> None:
    """It reads its files by its group, and may write to none of the folders."""
    assert not keys(tmp_path / "tls").get("failed")
    found = (tmp_path / "tls").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, pwd.getpwnam(SERVICE).pw_gid, 0o750)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a sticky folder of root's in which every user may make files, as /tmp is."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_user_folder_in_sticky_folder_keeps_owner(shared: Path) -> None:
    """It would belong to a service then, with what the user had put into it."""
    safe_files = plugin_modules.load("service_content").safe_files
    planted = made(shared / "state")
    with safe_files.folder(planted, make=True) as folder, pytest.raises(safe_files.UnsafePath):
        folder.give(safe_files.Access(USER + 1, USER + 1, 0o700))
    assert planted.stat().st_uid == USER


def test_hard_link_in_sticky_folder_is_refused(shared: Path, victim: Path) -> None:
    os.link(victim / "file", shared / "trusted.pem")
    assert_refused(files(shared / "trusted.pem", CONTENT), shared / "trusted.pem")


def test_root_symlink_in_sticky_folder_is_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (shared / "data").symlink_to(tmp_path / "disk")
    assert not files(shared / "data/file", "x").get("failed")
    assert (tmp_path / "disk/file").read_text() == "x"


READ_ONLY = 'command="rrsync -ro /etc/x",restrict'
BLOB = struct.pack(">I", 11) + b"ssh-ed25519" + struct.pack(">I", 32)
KEY = f"ssh-ed25519 {b64encode(BLOB + bytes(32)).decode()}"
OTHER_KEY = f"ssh-ed25519 {b64encode(BLOB + bytes([7] * 32)).decode()}"


class Account:
    """A user with a home folder, as pwd has one."""

    def __init__(self, home: Path) -> None:
        self.pw_dir, self.pw_uid, self.pw_gid = str(home), USER, USER


class Authorizing:
    """The module for a key, with `check_mode`."""

    def __init__(self, *, check_mode: bool = False) -> None:
        self.check_mode = check_mode
        self.params = {"key": f"{KEY} old", "key_options": READ_ONLY, "comment": "file_backup etc"}


def authorize(home: Path, *, check_mode: bool = False) -> bool:
    module = plugin_modules.load("ssh_authorized_key")
    return bool(module.apply(Authorizing(check_mode=check_mode), Account(home)))


@pytest.mark.parametrize("linked", [".ssh", ".ssh/authorized_keys"])
def test_key_is_not_authorized_through_symlink_of_user(own: Path, victim: Path, linked: str) -> None:
    if linked == ".ssh":
        plant(own / ".ssh", victim)
    else:
        plant(made(own / ".ssh") / "authorized_keys", victim / "file")
    unsafe = plugin_modules.load("service_content").safe_files.UnsafePath
    with pytest.raises(unsafe, match="symbolic link"):
        authorize(own)


def test_a_key_is_authorized_once_beside_others(own: Path) -> None:
    assert authorize(own, check_mode=True)
    assert not (own / ".ssh").exists()
    assert authorize(own)
    file = own / ".ssh/authorized_keys"
    line = f"{READ_ONLY} {KEY} file_backup etc\n"
    assert file.read_text() == line
    assert not authorize(own)
    for path, mode in ((own / ".ssh", 0o700), (file, 0o600)):
        assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (USER, mode)
    file.write_text(f"# mine\nssh-rsa BBBB me\n{KEY} without options\n\n{KEY} twice")
    assert authorize(own, check_mode=True)
    assert "twice" in file.read_text()
    assert authorize(own)
    assert file.read_text() == f"# mine\nssh-rsa BBBB me\n{line}\n"


@pytest.mark.parametrize(
    "answer",
    [
        "x ssh-ed25519",
        "ssh-ed25519 ssh-ed25519",
        "ssh-ed25519 AAAAC3Nz",
        f"ssh-rsa {KEY.split()[1]}",
        f"ssh-ed25519 {KEY.split()[1]}!",
        f'command="x" {KEY}',
        "ssh-ed25519",
        f"ssh-ed25519 {b64encode(BLOB[:15]).decode()}",
    ],
)
def test_invalid_public_key_replaces_no_authorized_key_line(answer: str) -> None:
    """A captured backup host answers with its public key, which is then authorized on the source's host."""
    module = plugin_modules.load("ssh_authorized_key")
    before = f"{OTHER_KEY} operator@control\n{KEY} second@control\n"
    with pytest.raises(ValueError, match=r"its|not"):
        module.authorized(before, answer, READ_ONLY, "file_backup etc")
    refused = plugin_modules.run("ssh_authorized_key", {"user": SERVICE, "key": answer})
    assert refused["failed"]
    assert refused["msg"].startswith("[ssh-key-invalid] ")


def test_only_lines_of_exactly_this_key_are_replaced() -> None:
    module = plugin_modules.load("ssh_authorized_key")
    kept = [
        f"{OTHER_KEY} operator@control",
        f"{OTHER_KEY} {KEY}",  # a comment
        f'environment="KEY= {KEY} " {OTHER_KEY}',
        f"ssh-rsa {KEY.split()[1]}",
        f"# {KEY}",
    ]
    replaced = [KEY, f'command="a \\" b" , {KEY} x'.replace(" , ", ",restrict "), f"  restrict\t{KEY}"]
    content = "".join(f"{line}\n" for line in kept + replaced)
    written = module.authorized(content, f"{KEY} of the host", READ_ONLY, "file_backup etc")
    assert written.splitlines() == [*kept, f"{READ_ONLY} {KEY} file_backup etc"]


def test_missing_user_gets_no_authorized_key() -> None:
    answer = plugin_modules.run("ssh_authorized_key", {"user": "nobody-here", "key": KEY})
    assert answer["failed"]
    assert answer["msg"].startswith("[host-user-missing] ")
