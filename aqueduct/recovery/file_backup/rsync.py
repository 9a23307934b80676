"""rsync, and the ssh that it is run by."""

import ast
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.file_backup import plan, reasons
from aqueduct.recovery.file_backup.plan import FileSource

RSYNC = "rsync"
SILENT_SECONDS = 600  # of a source that sends nothing
# Where rsync runs, its own folder of /proc: nobody can create or remove a file there. Some builds of rsync
# 3.2.7 lose the target of a local copy with --remote-option, and write to a name of any bytes, or, with
# --delete, empty this folder.
NOWHERE = "/proc/self"
# Files as they are at their source: kinds, modes, owners, times and hard links. Without the window, times of
# one second are taken for the same.
AS_IT_IS = ("--archive", "--hard-links", "--sparse", "--numeric-ids", "--modify-window=-1")
KEPT = "--fake-super"  # of the side that has the backup: owners and kinds are in attributes, without root
WITH_ATTRIBUTES = ("--xattrs", "--acls")
# Attributes by which a backup keeps what only root may set: any user may give such ones to files, and they
# would be believed when the backup is restored. With a filter, rsync's own one (of ACLs' attributes) is off.
NOT_FROM_SOURCE = ("--filter=-xs user.rsync.*", "--filter=-xs system.*")
PROBE_SECONDS = 120
EVERYWHERE = "/proc/version"  # a file that is there where the top is `/`
CLOSED_PORT = 1  # tcpmux: nothing listens there, and that is told to those who may ask
KEY_OPTIONS = re.compile(r"^debug1: Remote: .*: key options: (.*?)\r?$", re.MULTILINE)
CHATTER = re.compile(r"^(debug1|Authenticated to|Transferred|Bytes per second)\b.*\n?", re.MULTILINE)
KEYLESS = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}  # no agent, and no options of rsync's


@dataclass(frozen=True)
class SshOptions:
    key: Path | None = None
    known_hosts: Path | None = None
    port: int = 22

    def command(self) -> list[str]:
        """Return ssh as it is to be run: no questions, no agent, no host that is not known."""
        settings = {
            "BatchMode": "yes", "StrictHostKeyChecking": "yes", "LogLevel": "ERROR", "ForwardAgent": "no",
            "ConnectTimeout": "30", "ServerAliveInterval": "15", "ServerAliveCountMax": "4",
        }  # fmt: skip
        if self.known_hosts:
            settings |= {"UserKnownHostsFile": str(self.known_hosts), "GlobalKnownHostsFile": "/dev/null"}
        options = [f"-o{name}={value}" for name, value in settings.items()]
        key = ["-i", str(self.key), "-oIdentitiesOnly=yes", "-oIdentityAgent=none"] if self.key else []
        return ["ssh", "-F", "none", "-p", str(self.port), *options, *key]


@dataclass(frozen=True)
class Reached:
    """A source, as rsync reaches it."""

    source: FileSource
    ssh: SshOptions

    @property
    def argument(self) -> str:
        """What rsync is given: rrsync takes the folder that it shows for the top."""
        return f"{self.source.login}:/" if self.source.login else self.source.folder.rstrip("/") + "/"

    @property
    def receiving(self) -> list[str]:
        """Have the receiving side keep owners in attributes, and the source's believe none of its files'."""
        return [KEPT if self.source.login else f"--remote-option={KEPT}"]

    @property
    def options(self) -> list[str]:
        return [f"--rsh={shlex.join(self.ssh.command())}"] if self.source.login else []

    def marks(self, excludes: Sequence[str], backups: Path) -> list[str]:
        """List marks of Kafka's data folders at any depth; Failed if the source can't be read."""
        # Before what is excluded: a pattern that has a mark's name leaves its data where they are.
        marks = [f"--include={name}" for name in plan.MARKS]
        return self._listed([*marks, *excluded(excludes), "--include=*/", "--exclude=*"], backups)

    def files(self, excludes: Sequence[str], backups: Path) -> list[str]:
        """List what is to be backed up, without folders; Failed if the source can't be read."""
        return self._listed(excluded(excludes), backups)

    def _listed(self, rules: Sequence[str], backups: Path) -> list[str]:
        listing = run([*self.options, "--recursive", "--list-only", *rules, self.argument])
        if listing.returncode not in (0, reasons.VANISHED) and not reasons.only_unreadable(
            listing.returncode, listing.stderr
        ):
            raise Failed("rsync-failed", self.failed(listing, backups))
        return [
            reasons.plain(line.split(maxsplit=4)[4])
            for line in listing.stdout.splitlines()
            if line[:1] == "-"
        ]

    def failed(self, process: "subprocess.CompletedProcess[str]", backups: Path) -> str:
        cause = reasons.why(process.returncode, process.stderr, self.source, str(backups))
        return (
            f"{self.source} was not backed up: {cause}. Nothing of this backup was kept; earlier ones are as "
            "they were."
        )

    def refuse_other_key(self, backups: Path) -> None:
        """Refuse a key of another folder, for that one would be copied under this one's name.

        And one that may do more than read the folder: who captures this host would own the source's. Failed
        if the host can't be reached.
        """
        if not self.source.login:
            return
        word = f"wide-{secrets.token_hex(8)}"
        wide = []
        ssh, *options = self.ssh.command()
        shell = subprocess.run(  # noqa: S603
            [ssh, "-oLogLevel=DEBUG1", *options, self.source.ssh_login, f"echo {word}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS,
            check=False, env=KEYLESS,
        )  # fmt: skip
        if shell.returncode == 255:
            shell.stderr = CHATTER.sub("", shell.stderr)
            raise Failed("rsync-failed", self.failed(shell, backups))
        if word in shell.stdout:
            wide.append("run commands")
        # Nothing is written: --dry-run.
        write = run([*self.options, "--dry-run", "--dirs", "/dev/null", f"{self.source.login}:/{word}"])
        if write.returncode == 0:
            wide.append("write")
        elif "read-only" not in write.stderr:
            raise Failed("rsync-failed", self.failed(write, backups))
        top = self._top(backups)
        if top == "/" != self.source.folder:
            wide.append("read other folders")
        # sshd (OpenSSH since 7.7) says which options a key has: of ports that it may forward, not all can be
        # tried.
        key_options = " ".join(KEY_OPTIONS.findall(shell.stderr)).split()
        if "port-forwarding" in key_options or (not key_options and self._forwards(backups)):
            wide.append("forward ports")
        key = f"{self.source} was not backed up: the key {self.ssh.key or 'of ssh'}"
        right = plan.restriction(self.source.folder)
        line = f"Write {right} before it in authorized_keys of {self.source.login}, and no other options."
        if wide:
            raise Refused(
                "backup-key-unrestricted",
                f"{key} may {some(wide)} there, and so may whoever captures this host. {line}",
            )
        if top is None:
            raise Refused(
                "backup-key-unrestricted",
                f"{key} does not tell which folder it may read, and that one would be backed up under this "
                f"one's name. {line}",
            )
        if top != self.source.folder:
            raise Refused(
                "backup-key-other-folder",
                f"{key} may read {top}, and that would be backed up under this one's name. Name that folder "
                f"(as it is without links), or give this one a key of its own. {line}",
            )

    def _top(self, backups: Path) -> str | None:
        """Return the folder that the key may read, `/` if it may read all; None if it can't be told.

        rrsync refuses the path `/./`, which is its folder's own and not written as it writes it, and says
        which folder that is (rsync 3.2.4 to 3.5.0: `unsafe arg: /./ [as written, as it is]`).
        """
        asked = run([*self.options, "--list-only", "--dirs", f"{self.source.login}:/./"])
        if match := re.search(r"^\S*rrsync error: unsafe arg: /\./ (\[.*\])\r?$", asked.stderr, re.MULTILINE):
            try:
                return str(ast.literal_eval(match[1])[1])
            except (ValueError, SyntaxError, LookupError):
                return None
        if reasons.CLOSED in asked.stderr:
            raise Failed("rsync-failed", self.failed(asked, backups))
        every = run([*self.options, "--list-only", "--dirs", f"{self.source.login}:{EVERYWHERE}"])
        return "/" if every.returncode == 0 and every.stdout.endswith(f" {Path(EVERYWHERE).name}\n") else None

    def _forwards(self, backups: Path) -> bool:
        """Tell if the key lets its holder connect to a port of that host; `permitopen` hides it."""
        word = "-oLogLevel=INFO"  # else the server's answer is not told
        ssh, *options = self.ssh.command()
        try:
            forwarding = subprocess.run(  # noqa: S603
                [ssh, word, "-W", f"127.0.0.1:{CLOSED_PORT}", *options, self.source.ssh_login],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=PROBE_SECONDS, check=False, env=KEYLESS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:  # something does listen, and waits
            return True
        if "administratively prohibited" in forwarding.stderr:
            return False
        if forwarding.returncode == 0 or "open failed: connect failed" in forwarding.stderr:
            return True
        raise Failed("rsync-failed", self.failed(forwarding, backups))


def excluded(patterns: Sequence[str]) -> list[str]:
    return [f"--exclude={pattern}" for pattern in patterns]


def run(
    arguments: Sequence[str], keep: int | None = None, said: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run rsync; Failed if there is none here.

    `keep`: the descriptor of a lock that is not free before rsync has ended, whatever becomes of this
    process; `said`: what it reads.
    """
    try:
        return subprocess.run(  # noqa: S603
            [RSYNC, f"--timeout={SILENT_SECONDS}", *arguments],
            input=said, capture_output=True, text=True, errors="surrogateescape", check=False,
            env=KEYLESS, cwd=NOWHERE, pass_fds=() if keep is None else (keep,),
        )  # fmt: skip
    except FileNotFoundError:
        raise Failed("rsync-missing", "rsync is missing on this host. Install the package rsync.") from None


def sizes(folders: Sequence[Path]) -> list[int]:
    """Return the bytes that each folder takes on its disk beyond those before it, as du has them."""
    if not folders:
        return []
    command = ["du", "--summarize", "--block-size=1", "--", *map(str, folders)]
    usage = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace", check=False, env=KEYLESS
    )
    if usage.returncode:
        raise Failed("backup-folder-unreadable", f"{usage.stderr.strip().splitlines()[0]}.")
    return [int(line.split("\t")[0]) for line in usage.stdout.splitlines()]
