"""`aqueduct files` with a real rsync over a real sshd; what is in a folder is told by find and sha256sum."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kit.identifiers import assert_printed, raises

from aqueduct.cli import main
from aqueduct.common import lock, timestamps
from aqueduct.errors import Refused
from aqueduct.recovery.file_backup import rsync
from servers import broker, ssh
from servers.ssh import SshServer

DAY = 86_400_000
FIRST = 1_795_658_400_000  # 2026-11-26T02:00:00Z
# What somebody may have in the place of rrsync: whatever path is asked for, it has one folder.
OWN_RSYNC = """#!/bin/sh
case $SSH_ORIGINAL_COMMAND in
*--sender*) exec ${{SSH_ORIGINAL_COMMAND% *}} '{folder}/' ;;
*) echo read-only >&2; exit 1 ;;
esac
"""
PORT_22 = """command="rrsync -ro '{folder}'",restrict,port-forwarding,permitopen="127.0.0.1:22\""""
LESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
BIG = 200_000_000  # bytes, which take rsync half a second


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh.running(tmp_path_factory.mktemp("ssh")) as started:
        yield started


@dataclass
class Site:
    """A folder of a host that ssh leads to, and backups of it here."""

    server: SshServer
    folder: Path
    backups: Path
    capsys: pytest.CaptureFixture[str]
    set_clock: Callable[[int], None]
    keys: list[Path] = field(default_factory=list)
    by_ssh: bool = True

    @property
    def source(self) -> list[str]:
        if not self.by_ssh:
            return [f"--source={self.folder}"]
        at = f"--source={self.server.login}:{self.folder}", f"--ssh-port={self.server.port}"
        return [*at, f"--known-hosts={self.server.known_hosts}", f"--ssh-key={self.keys[-1]}"]

    def backup(self, day: float, *options: str) -> int:
        self.set_clock(int(FIRST + day * DAY))
        return self.run("backup", "--name=etc", *self.source, *options)

    def run(self, command: str, *options: str) -> int:
        return main(["files", command, f"--backups={self.backups}", *options])

    def said(self) -> str:
        """Return what was printed since this was last asked."""
        return "".join(self.capsys.readouterr())

    def tree(self, day: float) -> Path:
        return self.backups / "etc" / date(day) / "tree"

    def inode(self, day: float, path: str) -> int:
        return (self.tree(day) / path).stat().st_ino

    def dates(self) -> list[str]:
        self.said()
        assert self.run("list", "--json") == 0
        return [each["date"] for each in json.loads(self.capsys.readouterr().out)]


@pytest.fixture
def here(
    server: SshServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Site:
    """Return one that is on this host: ssh takes its time."""
    folder = tmp_path / "etc kafka"
    folder.mkdir()
    fill(folder)
    return Site(
        server,
        folder,
        tmp_path / "backups",
        capsys,
        lambda at: monkeypatch.setattr(timestamps, "now", lambda: at),
        by_ssh=False,
    )


@pytest.fixture
def site(here: Site, tmp_path: Path) -> Site:
    here.by_ssh = True
    here.keys.append(here.server.reader(tmp_path.name, here.folder))
    return here


def fill(folder: Path) -> None:
    """Make all kinds of files that a configuration may have."""
    (folder / "server.properties").write_text("broker.id=1\n")
    (folder / "empty").touch()
    (folder / "with a blank, ä and \n a line").write_text("odd")
    os.mkfifo(folder / "pipe")
    (folder / "keys").mkdir()
    (folder / "keys/broker.key").write_bytes(bytes(range(256)) * 100)
    (folder / "keys/broker.key").chmod(0o400)
    os.chown(folder / "keys/broker.key", 1234, 2345)
    (folder / "keys").chmod(0o2750)
    os.link(folder / "keys/broker.key", folder / "keys/same.key")
    (folder / "link").symlink_to("keys/broker.key")
    (folder / "nowhere").symlink_to("/not/there")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o4755)
    (folder / "hidden/deep").mkdir(parents=True)
    (folder / "hidden/deep/.x").write_text("x")
    (folder / "hidden").chmod(0)
    for number, path in enumerate(sorted(folder.rglob("*"), reverse=True)):
        os.utime(path, ns=(0, 1_600_000_000_123_456_789 + number), follow_symlinks=False)


def truth(folder: Path) -> list[str]:
    """Tell what a folder has by programs that share nothing with ours."""
    form = r"%P\t%y\t%m\t%U:%G\t%T@\t%l\t%n\0"
    lines = subprocess.run(["find", ".", "-printf", form], cwd=folder, capture_output=True, check=True)
    sums = "find . -type f -print0 | sort -z | xargs -0 --no-run-if-empty sha256sum"
    digests = subprocess.run(sums, cwd=folder, shell=True, capture_output=True, check=True)  # noqa: S602
    inodes: dict[int, list[str]] = {}
    for path in folder.rglob("*"):
        inodes.setdefault(path.lstat().st_ino, []).append(str(path.relative_to(folder)))
    links = sorted(str(sorted(names)) for names in inodes.values() if len(names) > 1)
    return [*sorted(lines.stdout.decode().split("\0")), *digests.stdout.decode().splitlines(), *links]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def date(day: float) -> str:
    return time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime((FIRST + day * DAY) // 1000))


def children(pid: int, name: str) -> list[int]:
    """Return the processes of a name below one, sooner than a process that lists them would."""
    parents: dict[int, tuple[int, str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            before, after = stat.read_text().rsplit(") ", 1)
            number, comm = before.split(" (", 1)
            parents[int(number)] = int(after.split()[1]), comm
    below = {pid}
    while more := {each for each, (parent, _) in parents.items() if parent in below} - below:
        below |= more
    return sorted(each for each in below - {pid} if parents[each][1] == name)


def kill_rsync(condition: Callable[[], object]) -> None:
    """Kill rsync when the condition holds.

    It is stopped while that is looked at, and so does not end meanwhile.
    """

    def is_killed() -> bool:
        for process in children(os.getpid(), "rsync")[:1]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
                reached = bool(condition())
                os.kill(process, signal.SIGKILL if reached else signal.SIGCONT)
                return reached
        return False

    wait_until("half of it", is_killed)


def wait_until(what: str, condition: Callable[[], object], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.005)


def half_written(site: Site) -> bool:
    return any(site.backups.glob("etc/.unfinished-*/tree/.big.*"))


@contextmanager
def meanwhile(what: Callable[[], None]) -> Iterator[None]:
    """Do something when half of the big file is there."""
    faults: list[BaseException] = []

    def act() -> None:
        try:
            what()
        except BaseException as error:
            faults.append(error)

    other = threading.Thread(target=act)
    other.start()
    yield
    other.join()
    assert not faults, faults


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Have a disk of its own there."""
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(["size=2m", *options]), "none", str(folder)], check=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# Five days


def test_each_day_restores_exactly_and_shares_unchanged_files(site: Site) -> None:
    """One of them is missing, and one was killed at half."""
    folder, was = site.folder, {}

    def back_up(day: int) -> None:
        was[day] = truth(folder)
        assert site.backup(day) == 0, site.said()

    back_up(0)
    (folder / "server.properties").write_text("broker.id=1\nlog.dirs=/data\n")
    back_up(1)
    # Day 2 is missing.
    (folder / "tool").chmod(0o755)
    (folder / "keys/new.key").write_text("new")
    (folder / "empty").unlink()
    back_up(3)
    assert (
        site.inode(0, "keys/broker.key")
        == site.inode(1, "keys/broker.key")
        == site.inode(3, "keys/broker.key")
    )
    assert "2 of them (13 bytes) are new, the others are shared with " + date(1) in site.said()
    big = folder / "big"
    with big.open("wb") as file:
        file.truncate(BIG)

    with meanwhile(lambda: kill_rsync(lambda: half_written(site))):
        assert site.backup(4) == 1
    said = site.said()
    assert "was killed by signal 9. " in said or "broke" in said, said
    assert "Traceback" not in said
    big.unlink()
    assert names(site.backups / "etc") == [".changing", ".reading", date(0), date(1), date(3)]
    back_up(5)
    assert site.inode(3, "keys/new.key") == site.inode(5, "keys/new.key")
    assert site.dates() == [date(day) for day in was]
    for day, expected in was.items():
        target = site.backups.parent / f"restored-{day}"
        assert site.run("restore", "--name=etc", f"--at={date(day)[:10]}", f"--to={target}") == 0, site.said()
        assert truth(target) == expected
    assert site.run("verify") == 0
    assert "all files are as they were backed up" in site.said()


def test_what_each_day_took_adds_up(here: Site) -> None:
    for day in range(3):
        (here.folder / f"day {day}").write_bytes(os.urandom(100_000 * (day + 1)))
        assert here.backup(day) == 0
    here.said()
    assert here.run("du", "--name=etc") == 0
    rows = re.findall(r"^etc +(\S+) +([\d,]+) *([\d,]*)$", here.said(), re.MULTILINE)
    took = {which: int(new.replace(",", "")) for which, new, _ in rows}
    trees = {which: int(whole.replace(",", "") or 0) for which, _, whole in rows}
    whole = ["du", "-s", "--block-size=1", str(here.backups / "etc")]
    every = int(subprocess.run(whole, capture_output=True, text=True, check=True).stdout.split()[0])
    own = (here.backups / "etc").stat().st_blocks * 512
    assert sum(took[date(day)] for day in range(3)) + own == took["all"] == every
    assert [took[date(day)] // 100_000 for day in range(1, 3)] == [2, 3]
    assert trees[date(2)] > 600_000 > took[date(2)]


# Interruptions


def test_next_backup_removes_incomplete_one_of_killed_process(here: Site) -> None:
    assert here.backup(0) == 0
    with (here.folder / "big").open("wb") as file:
        file.truncate(BIG)
    command = [
        sys.executable,
        "-m",
        "aqueduct.cli",
        "files",
        "backup",
        f"--backups={here.backups}",
        "--name=etc",
    ]
    process = subprocess.Popen([*command, *here.source])
    wait_until("half of it", lambda: half_written(here))
    copying = children(process.pid, "rsync")
    for each in copying:
        os.kill(each, signal.SIGSTOP)
    process.kill()
    process.wait()
    assert here.dates() == [date(0)]
    assert here.run("list") == 0
    assert "1 backup that is not complete" in here.said()
    # rsync has the lock until it ends, too, so nobody removes what it writes.
    assert here.run("prune", "--keep-last=9") == 2
    assert_printed(here.said(), "lock-held", here.backups / "etc")
    for each in copying:
        os.kill(each, signal.SIGKILL)
    (here.folder / "big").unlink()
    wait_until("the lock", lambda: here.run("prune", "--keep-last=9") == 0)
    assert "1 that were never complete" in here.said()
    assert here.backup(1) == 0
    assert here.dates() == [date(0), date(1)]
    assert not [*here.backups.glob("etc/.unfinished-*")]
    assert here.inode(0, "keys/broker.key") == here.inode(1, "keys/broker.key")


def test_full_disk_is_reported_without_partial_backup(here: Site) -> None:
    here.backups.mkdir()
    with mounted(here.backups):
        assert here.backup(0) == 0
        before = truth(here.backups / "etc" / date(0))
        (here.folder / "a").write_bytes(os.urandom(1_000_000))
        (here.folder / "b").write_bytes(os.urandom(3_000_000))
        assert here.backup(1) == 1
        said = here.said()
        assert f"The disk of {here.backups} is full" in said
        assert "files prune" in said
        assert here.dates() == [date(0)]
        assert truth(here.backups / "etc" / date(0)) == before
        assert os.statvfs(here.backups).f_bavail * os.statvfs(here.backups).f_bsize > 1_500_000
        (here.folder / "b").unlink()
        assert here.backup(2) == 0


@pytest.mark.long
def test_file_renamed_during_backup_is_backed_up(site: Site) -> None:
    """A file that vanishes while rsync reads its folder makes the backup look again."""
    with (site.folder / "big").open("wb") as file:
        file.truncate(BIG)
    (site.folder / "z").write_text("z")

    def rename() -> None:
        wait_until("half of it", lambda: half_written(site))
        (site.folder / "z").rename(site.folder / "a")

    with meanwhile(rename):
        assert site.backup(0) == 0, site.said()
    assert (site.tree(0) / "a").read_text() == "z"
    assert not (site.tree(0) / "z").exists()


# Damage


def edit_in_place(path: Path) -> None:
    """Change a file as bits rot: neither its size nor its time tells."""
    was = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def test_verify_names_each_backup_with_edited_hard_link(here: Site) -> None:
    for day in range(3):
        if day == 1:
            (here.folder / "server.properties").write_text("broker.id=2\n")
        assert here.backup(day) == 0
    edit_in_place(here.tree(2) / "server.properties")
    here.said()
    report = here.backups.parent / "report.json"
    assert here.run("verify", f"--report={report}") == 1
    assert f"etc: server.properties: other content; in {date(1)}, {date(2)}." in here.said()
    [found] = json.loads(report.read_text())["names"]
    assert found["damage"] == [
        {"path": "server.properties", "what": "other content", "dates": [date(1), date(2)]}
    ]
    target = here.backups.parent / "restored"
    assert here.run("restore", "--name=etc", f"--to={target}") == 1
    assert_printed(here.said(), "file-backup-damaged", date(2), "etc", "server.properties")
    assert not target.exists()
    assert here.run("restore", "--name=etc", "--path=keys", f"--to={target}") == 0
    assert here.run("restore", "--name=etc", f"--at={date(0)}", f"--to={target}") == 0
    # Size and time are as at the source, so only by content is it seen that it is another.
    assert here.backup(3) == 0
    assert here.run("verify", f"--at={date(3)}") == 1
    assert here.backup(4, "--checksum") == 0
    assert here.run("verify", f"--at={date(4)}") == 0


@pytest.mark.parametrize("what", ["gone", "added", "mode", "list", "head"])
def test_other_damage_is_named(here: Site, what: str) -> None:
    assert here.backup(0) == 0
    tree = here.tree(0)
    here.said()
    if what == "gone":
        (tree / "empty").unlink()
        expected = "etc: empty: it is missing"
    elif what == "added":
        (tree / "other").touch()
        expected = "etc: other: it is not in the list"
    elif what == "mode":
        (tree / "keys/broker.key").chmod(0o666)
        expected = "etc: keys/broker.key: other mode"
    elif what == "list":
        (tree.parent / "files.jsonl").write_bytes((tree.parent / "files.jsonl").read_bytes()[:-2])
        expected = "files.jsonl"
    else:
        (tree.parent / "backup.json").write_text("{}")
        expected = "backup.json"
    assert here.run("verify") == 1
    said = here.said()
    assert expected in said
    assert "Traceback" not in said


ODD = [
    b"\xff\xfe",
    b"\x1b[31mred",
    b"a\netc: all files are as they were backed up.",
    "\u202ename".encode(),
    b"back\\slash",
]
SHOWN = [
    r"\xff\xfe",
    r"\x1b[31mred",
    r"a\netc: all files are as they were backed up.",
    r"\u202ename",
    r"back\\slash",
]


def test_file_names_of_any_bytes_are_printed_escaped(here: Site) -> None:
    """In a locale where bytes that are no letters can't be printed, as most are."""
    for name in ODD:
        Path(os.fsdecode(os.fsencode(here.folder) + b"/" + name)).touch()
    assert here.backup(0) == 0
    (here.backups.parent / "t").mkdir()
    tree, target = (os.fsencode(each) for each in (here.tree(0), here.backups.parent / "t"))
    for name in ODD:
        Path(os.fsdecode(target + b"/" + name)).write_text("mine")
    for verb, options in (
        ("restore", [f"--to={os.fsdecode(target)}"]),
        ("restore", [f"--to={os.fsdecode(target)}", "--path=" + os.fsdecode(b"\xff")]),
        ("verify", [f"--report={here.backups.parent}/report"]),
        ("restore", [f"--to={os.fsdecode(target)}", "--overwrite"]),
    ):
        if verb == "verify":
            for name in ODD:
                Path(os.fsdecode(tree + b"/" + name)).write_text("other")
        command = [sys.executable, "-X", "utf8=0", "-m", "aqueduct.cli", "files", verb]
        done = subprocess.run(
            [*command, f"--backups={here.backups}", "--name=etc", *options],
            capture_output=True, check=False, env=os.environ | {"PYTHONIOENCODING": "utf-8:strict"},
        )  # fmt: skip
        said = (done.stdout + done.stderr).decode()
        assert done.returncode in (1, 2)
        assert "Traceback" not in said
        assert all(each.isprintable() for each in said.splitlines())
        if "--path=" in options[-1]:
            assert r"[path-not-in-backup] " in said
        elif verb == "verify":
            assert {f"etc: {name}" for name in SHOWN} <= {
                line.split(": other")[0] for line in said.splitlines()
            }
        else:
            assert r"a\netc: all files are as they were backed up." in said
    found = json.loads((here.backups.parent / "report").read_text())["names"][0]["damage"]
    assert {os.fsencode(each["path"]) for each in found} >= {*ODD}


@pytest.mark.parametrize(
    ("other", "told_in"),
    [
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "utf-8"),
        ({"PYTHONIOENCODING": "ascii"}, "ascii"),
        ({"PYTHONIOENCODING": "latin-1"}, "latin-1"),
    ],
)
def test_names_are_the_same_in_every_locale(here: Site, other: dict[str, str], told_in: str) -> None:
    name = "ü ñ/Ω"
    (here.folder / name).parent.mkdir()
    (here.folder / name).write_text("x")
    target = here.backups.parent / "t"

    def run(*command: str) -> tuple[int, bytes]:
        to = [sys.executable, "-m", "aqueduct.cli", "files", *command, f"--backups={here.backups}"]
        done = subprocess.run([*to, "--name=etc"], capture_output=True, check=False, env=os.environ | other)
        assert b"Traceback" not in done.stderr
        return done.returncode, done.stdout

    assert run("backup", f"--source={here.folder}")[0] == 0
    assert run("verify")[0] == 0
    assert here.run("verify") == 0
    assert run("restore", f"--to={target}", f"--path={name}")[0] == 0
    assert [*target.rglob("*")] == [target / "ü ñ", target / name]
    [tree] = here.backups.glob("etc/2*/tree")
    (tree / name).write_text("y")
    code, said = run("verify")
    assert code == 1
    assert b"etc: " + name.encode(told_in, "backslashreplace") + b": other content" in said


def test_unreadable_backup_folder_hides_no_other_backups(here: Site) -> None:
    assert here.backup(0) == 0
    shutil.copytree(here.backups / "etc", here.backups / "a", symlinks=True)
    (here.backups / "a").chmod(0)
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files"]
    for verb in (["list"], ["list", "--json"], ["verify"], ["du"], ["prune", "--keep-last=1"]):
        done = subprocess.run(
            [*command, *verb, f"--backups={here.backups}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == (2 if verb[0] == "prune" else 1)
        assert re.search(f"{here.backups}/a.*: Permission denied", done.stdout + done.stderr)
        assert "Traceback" not in done.stderr
        assert "etc" in done.stdout or verb[0] in ("du", "prune")


# Restores


def test_restore_of_one_path_touches_nothing_else(here: Site) -> None:
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    target.mkdir()
    (target / "server.properties").write_text("mine")
    (target / "own").write_text("own")
    name = "with a blank, ä and \n a line"
    restore = ("restore", "--name=etc", f"--to={target}")
    assert here.run(*restore, "--path=keys/broker.key", f"--path={name}", "--path=hidden") == 0, here.said()
    assert names(target) == sorted(["keys", "own", "server.properties", "hidden", name])
    assert names(target / "keys") == ["broker.key"]
    source, there = (folder / "keys/broker.key" for folder in (here.folder, target))
    assert there.read_bytes() == source.read_bytes()
    for one, other in ((source, there), (source.parent, there.parent), (here.folder / name, target / name)):
        was, now = one.stat(), other.stat()
        assert (was.st_mode, was.st_uid, was.st_gid) == (now.st_mode, now.st_uid, now.st_gid)
        assert was.st_mtime_ns == now.st_mtime_ns
    # What is other there is left, and what is as it was in no way.
    here.said()
    assert here.run(*restore) == 2
    assert "[restore-folder-not-empty] " in here.said()
    assert (target / "server.properties").read_text() == "mine"
    assert here.run(*restore, "--overwrite", "--dry-run") == 0
    assert (target / "server.properties").read_text() == "mine"
    assert here.run(*restore, "--overwrite") == 0
    (target / "own").unlink()
    os.utime(target, ns=(0, here.folder.stat().st_mtime_ns))
    assert truth(target) == truth(here.folder)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--path=other"], "[path-not-in-backup] "),
        (["--path=../../x"], "[path-not-in-backup] "),
        (["--at=2020-01-01"], "[file-backup-missing] "),
        (["--to=BACKUPS/x"], "[restore-folder-unusable] "),
        (["--name=other"], "[file-backup-missing] "),
    ],
)
def test_restore_with_invalid_arguments_is_refused(here: Site, options: list[str], expected: str) -> None:
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    given = [each.replace("BACKUPS", str(here.backups)) for each in options]
    assert here.run("restore", "--name=etc", f"--to={target}", *given) == 2
    assert expected in here.said()
    assert not target.exists()


@pytest.mark.parametrize("path", [".", "/", "", "./", "./keys"])
def test_every_spelling_of_path_is_checked_alike(here: Site, path: str) -> None:
    """Written as `.`, all was restored over what was there, unverified, and called 0 files."""
    assert here.backup(0) == 0
    target, what = here.backups.parent / "target", "keys" if "keys" in path else ""
    (target / what).mkdir(parents=True)
    mine = target / what / ("broker.key" if what else "server.properties")
    mine.write_text("mine")
    restore = ("restore", "--name=etc", f"--to={target}", f"--path={path}")
    here.said()
    assert here.run(*restore) == 2
    assert "differs from the backup in 1 file: " in here.said()
    assert mine.read_text() == "mine"
    assert here.run(*restore, "--overwrite", "--dry-run") == 0
    assert f"{2 if what else 10} files" in here.said()
    assert here.run(*restore, "--overwrite") == 0
    assert f"as it was: {2 if what else 10} files" in here.said()
    if not what:  # the target's own folder stays as it is
        os.utime(target, ns=(0, here.folder.stat().st_mtime_ns))
    assert truth(target / what) == truth(here.folder / what)
    edit_in_place(here.tree(0) / "keys/broker.key")
    assert here.run(*restore, "--overwrite") == 1
    assert_printed(here.said(), "file-backup-damaged", date(0), "etc", "broker.key")


def rights(*folders: Path) -> list[tuple[int, int, int, int]]:
    return [
        (now.st_mode, now.st_uid, now.st_gid, now.st_mtime_ns) for now in (each.stat() for each in folders)
    ]


def at_home(here: Site, mode: int, *below: str) -> tuple[Path, list[Path]]:
    """Make a target with a folder of the same name as the backup's, all of them another user's."""
    target = here.backups.parent / "target"
    folders = [target, *(target / each for each in below)]
    for each in folders:
        each.mkdir()
        each.chmod(mode)
        os.chown(each, 7, 8)
    for each in reversed(folders):
        os.utime(each, ns=(0, 1_500_000_000_000_000_000))
    return target, folders


@pytest.mark.parametrize("mode", [0o700, 0o1777])
def test_folders_that_are_there_are_the_users(here: Site, mode: int) -> None:
    """A private one was opened by the backup's mode, and `--to /tmp` shut everybody out of it."""
    here.folder.chmod(0o755 if mode == 0o700 else 0o700)
    os.chown(here.folder, 1, 1)
    assert here.backup(0) == 0
    target, folders = at_home(here, mode, "keys", "hidden")
    restore = ("restore", "--name=etc", f"--to={target}")
    for options in (["--path=tool"], ["--path=keys/broker.key"], ["--path=hidden/deep", "--overwrite"]):
        before = rights(*folders)
        assert here.run(*restore, *options, "--dry-run") == 0
        assert rights(*folders) == before
        assert here.run(*restore, *options) == 0, here.said()
        assert [each[:3] for each in rights(*folders)] == [each[:3] for each in before]
    assert rights(target / "hidden/deep") == rights(here.folder / "hidden/deep")
    assert names(target / "keys") == ["broker.key"]


def test_restore_names_folders_with_other_rights_before_writing(here: Site) -> None:
    here.folder.chmod(0o755)
    assert here.backup(0) == 0
    target, _ = at_home(here, 0o700, "keys")
    before = truth(target)
    restore = ("restore", "--name=etc", f"--to={target}")
    for path in ([], ["--path=keys"], ["--path=."]):
        for dry in ([], ["--dry-run"]):
            here.said()
            assert here.run(*restore, *path, *dry) == 2
            assert (
                f"{target} differs from the backup in 1 folder: keys (other mode, owner). --overwrite gives "
                "folders the mode and owner of the backup. Nothing was restored."
            ) in here.said()
    assert truth(target) == before
    said = {}
    for dry in (["--dry-run"], []):
        here.said()
        assert here.run(*restore, "--overwrite", *dry) == 0
        first, *others = here.said().splitlines()
        assert "10 files" in first
        said[bool(dry)] = [first.split("files")[1], *others]
    assert said[True] == said[False]
    assert said[True][0].endswith("; 1 folder had another mode or owner.")
    assert said[True][1:] == [
        f"{target} itself existed, and was not changed: it has other mode, owner than in the backup."
    ]
    assert [each[:3] for each in rights(target)] == [(0o40700, 7, 8)]
    assert truth(target / "keys") == truth(here.folder / "keys")
    # Of times alone nothing is said, and they stay.
    os.utime(target / "keys", ns=(0, 1_500_000_000_000_000_000))
    assert here.run(*restore) == 0
    assert rights(target / "keys")[0][3] == 1_500_000_000_000_000_000
    assert here.run(*restore, "--overwrite") == 0
    assert rights(target / "keys") == rights(here.folder / "keys")


def test_created_target_and_parents_get_backed_up_rights(here: Site) -> None:
    here.folder.chmod(0o710)
    assert here.backup(0) == 0
    (here.folder / "empty").unlink()
    target = here.backups.parent / "a/target"
    assert here.run("restore", "--name=etc", "--path=keys/broker.key", f"--to={target}") == 0, here.said()
    assert rights(target)[0][:3] == rights(here.folder)[0][:3]
    assert rights(target / "keys") == rights(here.folder / "keys")
    bare = here.folder.parent / "bare"
    bare.mkdir(0o711)
    assert here.run("backup", "--name=bare", f"--source={bare}") == 0
    [tree] = here.backups.glob("bare/2*/tree")
    time_ = tree.stat().st_mtime_ns
    (tree / "planted").write_text("by somebody")
    os.utime(tree, ns=(0, time_))
    assert here.run("restore", "--name=bare", f"--to={target.parent}/bare") == 0, here.said()
    assert truth(target.parent / "bare") == truth(bare)


def test_inaccessible_folder_is_left_to_rsync(here: Site) -> None:
    """rsync opens a user's own one meanwhile, but none of a root that may not do more than users."""
    (here.folder / "shut").mkdir(0)
    (here.folder / "shut/x").write_text("x")
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    options = [f"--backups={here.backups}", "--name=etc", "--path=shut", f"--to={target}", "--overwrite"]
    assert main(["files", "restore", *options]) == 0
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files", "restore", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"Nothing of backup {date(0)} of etc was restored to {target}: rsync ended" in done.stderr


def test_restore_writes_and_names_files_it_cannot_compare(here: Site) -> None:
    """By a root that may not do more than other users."""
    here.folder.joinpath("secret").write_text("secret")
    here.folder.joinpath("secret").chmod(0)
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files", "restore", f"--backups={here.backups}"]

    def restore(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, "--name=etc", "--path=secret", f"--to={target}", *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    code, said = restore()
    assert code == 3
    assert "NOT compared, because only root can read them: secret. They are written." in said
    assert names(target) == ["secret"]
    assert rights(target / "secret") == rights(here.folder / "secret")
    assert (target / "secret").read_text() == "secret"
    # It can't be told that it is the same.
    code, said = restore()
    assert code == 2
    assert "[restore-folder-not-empty] " in said
    assert restore("--overwrite")[0] == 3
    os.chown(target, 7, 7)
    target.chmod(0o700)
    code, said = restore("--overwrite")
    assert code == 2
    assert_printed(said, "restore-folder-unusable", target)


def test_full_folder_in_place_of_file_is_refused(here: Site) -> None:
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    (target / "tool").mkdir(parents=True)
    (target / "tool/mine").touch()
    before = truth(target)
    restore = ("restore", "--name=etc", f"--to={target}")
    for options in ([], ["--overwrite"], ["--overwrite", "--dry-run"], ["--path=tool", "--overwrite"]):
        here.said()
        assert here.run(*restore, *options) == 2
        assert (
            f"{target} has folders with content at the paths of 1 file: tool. Move them away, or restore to "
            "another folder. Nothing was restored."
        ) in here.said()
    assert truth(target) == before
    (target / "tool/mine").unlink()
    assert here.run(*restore) == 2
    assert "[restore-folder-not-empty] " in here.said()
    assert here.run(*restore, "--overwrite") == 0


def test_restore_target_may_be_symlink_but_not_file(here: Site) -> None:
    assert here.backup(0) == 0
    real, target = here.backups.parent / "real", here.backups.parent / "target"
    real.mkdir()
    target.symlink_to(real)
    restore = ("restore", "--name=etc", f"--to={target}")
    assert here.run(*restore) == 0, here.said()
    assert target.is_symlink()
    os.utime(real, ns=(0, here.folder.stat().st_mtime_ns))
    assert truth(real) == truth(here.folder)
    assert here.run(*restore, "--overwrite") == 0
    target.unlink()
    target.symlink_to(target)
    file = here.backups.parent / "file"
    file.write_text("mine")
    for bad in (target, file):
        for options in ([], ["--overwrite"], ["--path=tool", "--dry-run"]):
            here.said()
            assert here.run("restore", "--name=etc", f"--to={bad}", *options) == 2
            assert_printed(here.said(), "restore-folder-unusable", bad)
    assert file.read_text() == "mine"
    assert here.run("restore", "--name=etc", f"--to={file}/x") == 2
    assert_printed(here.said(), "restore-folder-unusable", file)


def test_restore_to_read_only_disk_reports_nothing_written(here: Site) -> None:
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    target.mkdir()
    with mounted(target):
        (target / "hidden").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(target)], check=True)
        for options in (["--path=tool"], ["--path=keys"], ["--path=hidden/deep"], ["--path=empty"]):
            here.said()
            assert here.run("restore", "--name=etc", f"--to={target}", *options) == 1
            said = here.said()
            assert (
                f"[file-restore-failed] Nothing of backup {date(0)} of etc was restored to {target}: " in said
            )
            assert "Read-only file system" in said
            assert "Correct the cause, and run the command again." in said
        assert here.run("restore", "--name=etc", f"--to={target}/x") == 2
        assert_printed(here.said(), "restore-folder-unusable", target, "Read-only file system")


def test_restore_omits_files_missing_from_file_list(here: Site) -> None:
    for name in ("#not a comment", ";nor this", " blanks ", "-dash", "*"):
        (here.folder / name).write_text(name)
    assert here.backup(0) == 0
    was = truth(here.folder)
    before = (here.tree(0) / "keys").stat()
    (here.tree(0) / "keys/planted").write_text("by somebody")
    os.utime(here.tree(0) / "keys", ns=(before.st_atime_ns, before.st_mtime_ns))
    top = here.tree(0).stat()
    (here.tree(0) / "planted").write_text("by somebody")
    os.utime(here.tree(0), ns=(top.st_atime_ns, top.st_mtime_ns))
    target = here.backups.parent / "target"
    assert here.run("restore", "--name=etc", f"--to={target}") == 0, here.said()
    assert truth(target) == was
    one = here.backups.parent / "one"
    assert here.run("restore", "--name=etc", "--path=tool", f"--to={one}") == 0, here.said()
    assert names(one) == ["tool"]


def test_file_in_place_of_folder_is_not_replaced(here: Site) -> None:
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    target.mkdir()
    (target / "keys").write_text("mine")
    assert here.run("restore", "--name=etc", "--path=keys/broker.key", f"--to={target}") == 2
    assert "[restore-folder-not-empty] " in here.said()
    assert (target / "keys").read_text() == "mine"
    assert here.run("restore", "--name=etc", "--path=keys/broker.key", f"--to={target}", "--overwrite") == 0
    assert names(target / "keys") == ["broker.key"]


def test_restore_with_killed_rsync_leaves_no_partial_file(here: Site) -> None:
    with (here.folder / "big").open("wb") as file:
        file.truncate(BIG)
    (here.folder / ".big.before").write_text("a user's own")
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    target.mkdir()
    (target / ".big.abcdef").write_text("not rsync's")

    def is_at_half() -> bool:
        return len([*target.glob(".big.*")]) > 1 and (target / ".big.before").exists()

    restore = ("restore", "--name=etc", f"--to={target}")
    with meanwhile(lambda: kill_rsync(is_at_half)):
        assert here.run(*restore) == 1
    said = here.said()
    assert "[file-restore-failed] Only a part of backup" in said
    assert "rsync was killed by signal 9." in said
    wait_until("its end", lambda: not children(os.getpid(), "rsync"))
    assert {each.name for each in target.glob(".big.*")} == {".big.abcdef", ".big.before"}
    assert here.run(*restore, "--overwrite") == 0
    (target / ".big.abcdef").unlink()
    os.utime(target, ns=(0, here.folder.stat().st_mtime_ns))
    assert truth(target) == truth(here.folder)
    holes = [(folder / "big").stat().st_blocks * 512 for folder in (here.tree(0), target)]
    assert max(holes) < 1_000_000, "what takes no room at the source takes none here"


def test_restore_and_verify_name_files_missing_from_backup(here: Site) -> None:
    (here.folder / "keys/secret").touch(0)
    (here.folder / "hidden").chmod(0o700)
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files", "backup", f"--backups={here.backups}"]
    assert subprocess.run([*command, "--name=etc", *here.source], check=False).returncode == 3
    assert here.run("verify") == 0
    assert ": keys/secret: no permission to read it." in here.said()
    restore = ["restore", "--name=etc", f"--to={here.backups.parent / 'target'}"]
    for options in ([], ["--path=keys"], ["--path=."]):
        assert here.run(*restore, *options, "--overwrite") == 3
        said = here.said()
        assert "as it was, except for the items below" in said
        assert "NOT in the backup: keys/secret: no permission to read it." in said
    assert here.run(*restore, "--path=hidden", "--path=link") == 0
    assert here.run(*restore, "--path=keys/secret") == 2
    assert "[path-not-in-backup] " in here.said()


def test_a_link_in_the_way_is_not_followed(here: Site) -> None:
    (here.folder / "hidden/deep").chmod(0o700)
    assert here.backup(0) == 0
    target, other = here.backups.parent / "target", here.backups.parent / "other"
    target.mkdir()
    other.mkdir()
    (target / "keys").symlink_to(other)
    assert here.run("restore", "--name=etc", "--path=keys/broker.key", f"--to={target}") == 2
    assert "keys. --overwrite" in here.said()
    assert names(other) == []
    # What is behind it is none of the target's: the folder that is made there has the backup's mode.
    (other / "deep").mkdir()
    (target / "hidden").symlink_to(other)
    restore = ("restore", "--name=etc", f"--to={target}", "--path=hidden/deep/.x")
    here.said()
    assert here.run(*restore) == 2
    assert "[restore-folder-not-empty] " in here.said()
    assert here.run(*restore, "--overwrite") == 0
    assert rights(target / "hidden/deep") == rights(here.folder / "hidden/deep")
    assert names(other / "deep") == []


def test_backup_with_xattrs_restores_extended_attributes(here: Site) -> None:
    for name in ("user.origin", "trusted.origin"):
        os.setxattr(here.folder / "server.properties", name, b"by hand\0")
    assert here.backup(0, "--xattrs") == 0
    assert here.backup(1, "--xattrs") == 0
    assert here.inode(0, "server.properties") == here.inode(1, "server.properties")
    target = here.backups.parent / "target"
    assert here.run("restore", "--name=etc", f"--to={target}") == 0, here.said()
    assert truth(target) == truth(here.folder)
    for name in ("user.origin", "trusted.origin"):
        assert os.getxattr(target / "server.properties", name) == b"by hand\0"
    assert os.listxattr(target / "tool") == []


@pytest.mark.parametrize("locks", ["there", "gone"])
def test_backups_on_read_only_disk_can_be_read(here: Site, locks: str) -> None:
    """As a file system makes itself after an error, and a snapshot or an export is."""
    here.backups.mkdir()
    target = here.backups.parent / "target"
    with mounted(here.backups):
        assert here.backup(0) == 0
        if locks == "gone":
            for each in (".changing", ".reading"):
                (here.backups / "etc" / each).unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(here.backups)], check=True)
        here.said()
        for command in ("verify", "list", "du"):
            assert here.run(command) == 0, here.said()
        assert here.run("restore", "--name=etc", f"--to={target}") == 0, here.said()
        assert truth(target) == truth(here.folder)
        here.said()
        for code in (here.backup(1), here.run("prune", "--keep-last=1", "--execute")):
            assert code == 2
        assert here.said().count("the file system is read-only; mount it read-write.") == 2
        assert here.backup(1, "--name=new") == 2
        assert_printed(here.said(), "backup-folder-unwritable", here.backups / "new")


def test_who_only_reads_needs_no_right_to_write(here: Site) -> None:
    """As root of another host, to whom an export is another user's. Here: by a root without more rights."""
    assert here.backup(0) == 0
    own = here.backups / "etc"
    os.chown(own, 7, 7)
    own.chmod(0o755)
    for each in (".changing", ".reading"):
        os.chown(own / each, 7, 7)
        (own / each).chmod(0o644)
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files"]

    def run(verb: str, *options: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, verb, f"--backups={here.backups}", "--name=etc", *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    assert run("verify")[0] == 0
    assert run("restore", "--path=tool", f"--to={here.backups.parent}/target")[0] == 0
    code, said = run("prune", "--keep-last=1")
    assert code == 2
    assert "[lock-file-unusable] " in said
    from aqueduct.recovery.file_backup.folder import BackupsOf

    with BackupsOf(own).locked_for_reading(alone=True):
        code, said = run("verify")
    assert code == 2
    assert "[lock-held] " in said


# Sources and keys


def test_missing_or_empty_source_fails_without_loss(site: Site) -> None:
    site.by_ssh = False
    assert site.backup(0) == 0
    (site.folder / "hidden").chmod(0o700)
    shutil.rmtree(site.folder)
    assert site.backup(1) == 1
    assert "[rsync-failed] " in site.said()
    site.by_ssh = True
    assert site.backup(1, "--source-moved") == 1
    assert "[rsync-failed] " in site.said()
    site.by_ssh = False
    site.folder.mkdir()
    assert site.backup(2) == 2
    assert "[source-folder-empty] " in site.said()
    assert site.dates() == [date(0)]
    assert site.backup(3, "--allow-empty") == 0
    assert site.dates() == [date(0), date(3)]


@pytest.mark.parametrize(
    ("options", "may"),
    [
        ("", "run commands, write, read other folders, forward ports"),
        ("restrict", "run commands, write, read other folders"),
        ("""command="rrsync '{folder}'",restrict""", "write"),
        ('command="rrsync -ro /",restrict', "read other folders"),
        ("""command="rrsync -ro '{folder}'\"""", "forward ports"),
        pytest.param(
            """command="rrsync -ro '{folder}'",restrict,port-forwarding""",
            "forward ports",
            marks=pytest.mark.long,
        ),
        (PORT_22, "forward ports"),
        pytest.param(PORT_22.replace("permitopen", "permitlisten"), "forward ports", marks=pytest.mark.long),
    ],
)
def test_a_key_with_too_wide_rights_is_refused(site: Site, options: str, may: str) -> None:
    site.keys.append(site.server.key(f"{site.folder.parent.name}-wide", options.format(folder=site.folder)))
    before = truth(site.folder)
    assert site.backup(0) == 2
    said = site.said()
    assert "[backup-key-unrestricted] " in said
    assert f": {may}. " in said
    assert f"""Write command="rrsync -ro '{site.folder}'",restrict before the key""" in said
    assert not [*site.backups.glob("etc/2*")]
    assert truth(site.folder) == before


def test_port_forwarding_is_tried_if_key_options_unknown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that are not of OpenSSH, or before 7.7."""
    monkeypatch.setattr(rsync, "KEY_OPTIONS", re.compile("never: (.*)"))
    name, line = site.folder.parent.name, f"command=\"rrsync -ro '{site.folder}'\""
    site.keys.append(site.server.key(f"{name}-wide", line))
    assert site.backup(0) == 2
    assert ": forward ports. " in site.said()
    site.keys.append(site.server.key(f"{name}-right", f"{line},restrict"))
    assert site.backup(1) == 0, site.said()


def test_suggested_authorized_keys_line_is_accepted_by_server(site: Site) -> None:
    site.folder = site.folder.rename(site.folder.parent / "it's $HOME, `x` 'y'")
    name = site.folder.parent.name
    site.keys.append(site.server.key(f"{name}-wide", "restrict"))
    assert site.backup(0) == 2
    said = re.search("Write (.*) before the key in authorized_keys", site.said())
    assert said
    site.keys.append(site.server.key(f"{name}-said", said[1]))
    assert site.backup(1) == 0, site.said()
    target = site.backups.parent / "target"
    assert site.run("restore", "--name=etc", f"--to={target}") == 0
    assert truth(target) == truth(site.folder)


@pytest.mark.parametrize(
    ("of", "named", "expected"),
    [
        ("rrsync -ro '{folder}'", "{folder}/keys", "backup-key-other-folder"),
        ("rrsync -ro '{folder}/keys'", "{folder}", "backup-key-other-folder"),
        ("rrsync -ro '{folder}'", "/nope", "backup-key-other-folder"),
        ("'{folder}/tool'", "/", "backup-key-unrestricted"),
        ("'{folder}/tool'", "{folder}", "backup-key-unrestricted"),
    ],
)
def test_the_key_of_another_folder_is_refused(site: Site, of: str, named: str, expected: str) -> None:
    """What a key may read was backed up, whatever the source was called."""
    (site.folder / "tool").write_text(OWN_RSYNC.format(folder=site.folder))
    options = f'command="{of.format(folder=site.folder)}",restrict'
    site.keys.append(site.server.key(f"{site.folder.parent.name}-other", options))
    other = f"--source={site.server.login}:{named.format(folder=site.folder)}"
    assert site.backup(0, other) == 2
    assert f"[{expected}] " in site.said()
    assert not [*site.backups.glob("etc/2*")]


def test_wrong_host_or_client_key_is_reported(site: Site, tmp_path: Path) -> None:
    right = site.keys[-1]
    site.keys.append(ssh.new_key(tmp_path / "other"))
    assert site.backup(0) == 1
    assert_printed(site.said(), "rsync-failed", "rejects the key")
    site.keys.append(tmp_path / "nowhere")
    assert site.backup(0) == 2
    assert f"{tmp_path}/nowhere does not exist" in site.said()
    site.keys.append(right)
    right.chmod(0o644)
    assert site.backup(0) == 1
    assert_printed(site.said(), "rsync-failed", "private key", "600")
    right.chmod(0o600)
    other = ssh.new_key(tmp_path / "another host").with_suffix(".pub").read_text()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{site.server.port} {other}")
    assert site.backup(0, f"--known-hosts={tmp_path}/known") == 1
    assert_printed(site.said(), "rsync-failed", "known hosts")
    assert not [*site.backups.glob("etc/2*")]


def test_a_server_that_is_gone_is_a_sentence(site: Site) -> None:
    assert site.backup(0, "--ssh-port=1") == 1
    assert_printed(site.said(), "rsync-failed", "No SSH server")


def test_source_accepts_ipv6_address_of_host(site: Site) -> None:
    at = f"--source={site.server.login.replace('127.0.0.1', '[::1]')}:{site.folder}"
    assert site.backup(0, at) == 0, site.said()
    assert site.backup(1, at.replace("[::1]", "::1")) == 2
    assert "is not a folder; write [USER@HOST:]/FOLDER" in site.said()


def test_a_clock_that_went_back_is_refused(here: Site) -> None:
    assert here.backup(1) == 0
    assert here.backup(0) == 2
    assert_printed(here.said(), "clock-behind-backup", date(1), date(0))


def test_data_of_running_broker_is_refused(site: Site) -> None:
    """A copy of a log that is written to is none; a broker that was stopped has left a mark."""
    own = site.folder / "kafka"
    own.mkdir()
    with broker.running(own) as started:
        assert site.backup(0) == 2
        said = site.said()
        assert f"{own}/data has the data of a Kafka node that may run" in said
        assert "`aqueduct backup`" in said
        site.by_ssh = False
        assert site.backup(0, "--exclude=*.properties") == 2
        partition = f"{own}/data/__cluster_metadata-0"
        assert site.backup(0, f"--source={partition}") == 2
        assert f"{partition} has the data of a Kafka node that may run" in site.said()
        assert site.backup(0, "--exclude=/kafka/data") == 0
        os.kill(started.process.id, signal.SIGTERM)
        wait_until("its end", lambda: (own / "data/.kafka_cleanshutdown").exists())
        wait_until(
            "its process's end",
            lambda: Path(f"/proc/{started.process.id}/stat").read_text().split()[2] == "Z",
        )
        assert site.backup(1) == 0, site.said()
    assert (site.tree(1) / "kafka/data/meta.properties").exists()


@pytest.mark.parametrize(
    ("excludes", "code"),
    [
        (["data/*"], 0),
        (["data/**"], 0),
        (["data/*", "/server.properties"], 0),
        (["meta.properties"], 2),
        (["*.log"], 2),
        (["meta.properties", "t-0/*"], 2),
        (["data/t-0/*"], 2),
        (["dat/*"], 2),
    ],
)
def test_broker_data_is_accepted_only_if_wholly_excluded(here: Site, excludes: list[str], code: int) -> None:
    data = here.folder / "kafka/data"
    (data / "t-0").mkdir(parents=True)
    for each in ("meta.properties", "replication-offset-checkpoint", f"t-0/{0:020}.log"):
        (data / each).write_text("x")
    assert here.backup(0, *(f"--exclude={each}" for each in excludes)) == code, here.said()
    if code == 0:
        kept = here.tree(0) / "kafka/data"
        assert [each for each in kept.rglob("*") if not each.is_dir()] == []
        assert (here.tree(0) / "keys/broker.key").exists()


@pytest.mark.parametrize("way", ["ssh", "local"])
def test_unreadable_file_is_named_and_others_backed_up(site: Site, way: str) -> None:
    """By a root that may not do more than other users: this one owns all files here."""
    site.by_ssh = way == "ssh"
    (site.folder / "tool").chmod(0)
    (site.folder / "hidden").chmod(0o700)
    if site.by_ssh:
        line = f"{' '.join(LESS)} rrsync -ro '{site.folder}'"
        site.keys.append(site.server.key(f"{site.folder.parent.name}-less", f'command="{line}",restrict'))
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files"]
    to = [f"--backups={site.backups}", "--name=etc"]
    done = subprocess.run(
        [*command, "backup", *to, *site.source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "NOT in it: tool: no permission to read it." in done.stdout
    assert site.run("verify") == 0
    [tree] = site.backups.glob("etc/2*/tree")
    assert {*names(site.folder)} - {*names(tree)} == {"tool"}


@pytest.mark.parametrize(("way", "mode"), [("ssh", 0), ("ssh", 0o100), ("local", 0o100), ("local", 0o400)])
def test_unreadable_source_is_not_called_empty(site: Site, way: str, mode: int) -> None:
    site.by_ssh = way == "ssh"
    if site.by_ssh:
        line = f"{' '.join(LESS)} rrsync -ro '{site.folder}'"
        site.keys.append(site.server.key(f"{site.folder.parent.name}-less", f'command="{line}",restrict'))
    command = [*LESS, sys.executable, "-m", "aqueduct.cli", "files", "backup", *site.source]
    (site.folder / "hidden").chmod(0o700)
    for before in (False,) if site.by_ssh else (False, True):
        site.folder.chmod(mode)
        done = subprocess.run(
            [*command, f"--backups={site.backups}", "--name=etc"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stdout
        assert " was not backed up. The user has no permission to read the folder. " in done.stderr
        assert "empty" not in done.stderr
        site.folder.chmod(0o755)
        assert [*site.backups.glob("etc/2*")] == [site.backups / "etc" / date(0)] * before
        if not before and not site.by_ssh:
            assert site.backup(0) == 0


def test_a_folder_of_this_host_needs_no_ssh(here: Site) -> None:
    assert here.backup(0) == 0
    target = here.backups.parent / "target"
    assert here.run("restore", "--name=etc", f"--to={target}") == 0
    assert truth(target) == truth(here.folder)


@pytest.mark.parametrize("within", ["backups in source", "source in backups", "by a link", "the same"])
def test_backups_and_source_may_not_contain_each_other(here: Site, within: str) -> None:
    if within == "backups in source":
        here.backups = here.folder / "hidden/deep/backups"
    elif within == "source in backups":
        here.backups = here.folder.parent
    elif within == "by a link":
        (here.folder.parent / "elsewhere").symlink_to(here.folder)
        here.backups = here.folder.parent / "elsewhere/backups"
    else:
        here.backups = here.folder
    before = truth(here.folder)
    assert here.backup(0) == 2
    assert_printed(here.said(), "backup-folder-overlap", here.backups)
    assert truth(here.folder) == before
    assert not [*here.backups.glob("etc*/2*")]


def test_another_source_under_same_name_is_refused(here: Site) -> None:
    assert here.backup(0) == 0
    other = here.folder.parent / "other"
    other.mkdir()
    (other / "x").touch()
    for source in (str(other), f"root@127.0.0.1:{here.folder}"):
        assert here.backup(1, f"--source={source}", "--keep-last=1") == 2
        said = here.said()
        assert_printed(said, "source-folder-changed", "etc", here.folder)
        assert "--source-moved" in said
    assert here.dates() == [date(0)]
    assert here.backup(1, f"--source={other}", "--source-moved") == 0
    assert here.backup(2, f"--source={other}") == 0
    assert here.dates() == [date(0), date(1), date(2)]


def test_relative_backup_folders_share_files_and_stay_local(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here.folder.parent)
    absolute, here.backups = here.backups, Path("backups")
    assert here.backup(0) == 0
    assert here.backup(1) == 0
    assert "; 0 of them (0 bytes) are new" in here.said()
    here.backups = absolute
    assert here.inode(0, "keys/broker.key") == here.inode(1, "keys/broker.key")
    odd = "--backups=./127.0.0.1:x"
    assert here.backup(2, odd) == 0
    assert here.run("restore", "--name=etc", odd, "--to=./a:b") == 0
    assert truth(here.folder.parent / "a:b") == truth(here.folder)
    here.said()
    for options in (["--backups=127.0.0.1:x"], ["--to=127.0.0.1:x"]):
        assert here.run("restore", "--name=etc", "--to=target", *options) == 2
        assert "'127.0.0.1:x' is another host's; name a folder of this one" in here.said()


@pytest.mark.parametrize("name", ["a:b", "host:/etc", "it's", 'a "quoted"', "back\\slash"])
def test_local_folder_may_have_any_name(here: Site, name: str) -> None:
    here.folder = here.folder.rename(here.folder.parent / name.replace("/", "-"))
    if "/" in name:
        (here.folder.parent / "host:").mkdir()
        here.folder = here.folder.rename(here.folder.parent / name)
    assert here.backup(0) == 0, here.said()
    target = here.backups.parent / "target"
    assert here.run("restore", "--name=etc", f"--to={target}") == 0
    assert truth(target) == truth(here.folder)


# Prunes


def test_prune_keeps_by_policy_and_removes_incomplete_backups(here: Site) -> None:
    for day in (0, 1, 2, 2.5, 3):
        assert here.backup(day) == 0
    half = here.backups / "etc" / f".unfinished-{date(9)}"
    half.mkdir()
    (half / "x").touch()
    before = truth(here.tree(3))
    here.said()
    assert here.run("prune", "--keep-daily=2") == 0
    said = here.said()
    assert (
        "Would remove 3 backups and 1 that were never complete; 2 backups kept. Nothing was removed" in said
    )
    assert len(here.dates()) == 5
    assert half.exists()
    assert here.run("prune", "--keep-daily=2", "--execute") == 0
    assert here.dates() == [date(2.5), date(3)]
    assert not half.exists()
    assert truth(here.tree(3)) != before  # with fewer links to each file
    assert here.run("verify") == 0
    assert here.run("prune") == 2
    assert_printed(here.said(), "option-required", "--keep-daily")


@pytest.mark.parametrize("what", ["list", "head", "tree", "file", "cut"])
def test_nothing_is_removed_if_newest_backup_is_unusable(here: Site, what: str) -> None:
    """The newest stays by every policy; good ones went for one that had lost its tree."""
    for day in range(3):
        assert here.backup(day) == 0
    newest = here.tree(2).parent
    if what == "list":
        (newest / "files.jsonl").write_bytes(b"")
    elif what == "head":
        said = (newest / "backup.json").read_text()
        (newest / "backup.json").write_text(said.replace('"files": 10', '"files": "10"'))
    elif what == "tree":
        (newest / "tree").rename(newest / "moved")
    elif what == "file":
        (newest / "tree/keys/broker.key").unlink()
    else:
        key = newest / "tree/server.properties"
        key.unlink()
        key.touch(0o644)
    here.said()
    for options in ([], ["--execute"]):
        assert here.run("prune", "--keep-last=1", *options) == 1
    said = here.said()
    damaged = {
        "list": "files.jsonl",
        "head": "backup.json",
        "tree": "tree",
        "file": "broker.key",
        "cut": "size",
    }
    assert damaged[what] in said
    assert names(here.backups / "etc") == [".changing", ".reading", *map(date, range(3))]
    # What lacks a file is still a base: rsync takes that one anew.
    assert here.backup(3, "--keep-last=2") == (3 if what in ("file", "cut") else 1)
    assert {*map(date, range(3))} <= {*names(here.backups / "etc")}
    shutil.rmtree(newest)
    assert here.run("prune", "--keep-last=1", "--execute") == 0
    assert len(here.dates()) == 1
    assert here.run("verify") == 0


def test_backup_of_former_format_is_valid_base(here: Site) -> None:
    """Which had no digest of what it says of itself."""
    assert here.backup(0) == 0
    head = here.tree(0).parent / "backup.json"
    content = json.loads(head.read_text()) | {"format": 1}
    del content["sha256"]
    head.write_text(json.dumps(content, indent=2))
    assert here.run("verify") == 0
    assert here.backup(1) == 0
    assert here.inode(0, "server.properties") == here.inode(1, "server.properties")


def test_backups_in_use_are_not_removed_or_changed(here: Site) -> None:
    from aqueduct.recovery.file_backup.folder import BackupsOf

    assert here.backup(0) == 0
    own = BackupsOf(here.backups / "etc")
    with own.locked_for_reading():
        assert here.run("prune", "--keep-last=1", "--execute") == 2
        assert_printed(here.said(), "lock-held", here.backups / "etc")
        assert here.run("verify") == 0
    with own.locked_for_changes():
        assert here.backup(1) == 2
        assert_printed(here.said(), "lock-held", here.backups / "etc")


def test_complete_backup_removes_backups_that_no_rule_keeps(here: Site) -> None:
    for day in range(3):
        assert here.backup(day, "--keep-daily=2") == 0
    assert f"Removed: 1 older backup, {date(0)}." in here.said()
    assert here.dates() == [date(1), date(2)]


@pytest.mark.parametrize("why", ["key", "data"])
def test_a_first_backup_that_is_refused_leaves_nothing(site: Site, why: str) -> None:
    """A name that was mistyped once had each verify of all end with 3."""
    site.by_ssh = False
    assert site.backup(0) == 0
    if why == "key":
        site.by_ssh = True
        site.keys.append(site.server.key(f"{site.folder.parent.name}-wide", ""))
    else:
        (site.folder / "meta.properties").touch()
    assert site.backup(1, "--name=other") == 2
    assert names(site.backups) == ["etc"]
    assert site.run("verify") == 0
    # Of a name that has some, nothing goes.
    site.by_ssh = False
    assert site.backup(1) == (0 if why == "key" else 2)
    assert site.dates()[0] == date(0)
    assert names(site.backups / "etc")[:2] == [".changing", ".reading"]


def test_lock_on_removed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def remove_first(descriptor: int, how: int) -> None:
        (tmp_path / "lock").unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with raises(Refused, "lock-held"), lock.held(tmp_path / "lock", "another"):
        pass


def test_where_nothing_is_complete_nothing_is_called_so(site: Site) -> None:
    assert site.backup(0, "--ssh-port=1") == 1
    site.said()
    assert site.run("verify") == 3
    assert "etc: NO complete backup" in site.said()
    # Nor is it forgotten when the next one is refused.
    site.by_ssh = False
    (site.folder / "meta.properties").touch()
    assert site.backup(0) == 2
    assert site.run("verify") == 3


def test_rsync_changes_nothing_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some builds of rsync 3.2.7 lose the target of a local copy, and take the current directory."""
    source, current = tmp_path / "source", tmp_path / "current"
    source.mkdir()
    current.mkdir()
    (current / "mine").touch()
    monkeypatch.chdir(current)
    for target in ("lost", "."):
        assert rsync.run(["--archive", "--delete", f"{source}/", target]).returncode
    assert names(current) == ["mine"]
