"""Runs rsync, and ssh for it."""

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
SILENT_SECONDS = 600  # without data from a source
# Where rsync runs, its own folder of /proc: nobody can create or remove a file there. Some builds of rsync
# 3.2.7 lose the target of a local copy with --remote-option, and write to a name of any bytes, or, with
# --delete, empty this folder.
NOWHERE = "/proc/self"
# Copy types, modes, owners, times and hard links, too. Without the window, times within one second count as
# equal.
AS_IT_IS = ("--archive", "--hard-links", "--sparse", "--numeric-ids", "--modify-window=-1")
KEPT = "--fake-super"  # for the side of the backup: owners and types are stored in attributes, without root
WITH_ATTRIBUTES = ("--xattrs", "--acls")
# The attributes in which a backup stores what only root can set. Any user can set such attributes at the
# source, and a restore would use them. A filter disables rsync's default filter, of ACLs' attributes.
NOT_FROM_SOURCE = ("--filter=-xs user.rsync.*", "--filter=-xs system.*")
PROBE_SECONDS = 120
EVERYWHERE = "/proc/version"  # a file that exists if the top is `/`
CLOSED_PORT = 1  # tcpmux: no service listens there, and a client that may forward gets this error
KEY_OPTIONS = re.compile(r"^debug1: Remote: .*: key options: (.*?)\r?$", re.MULTILINE)
CHATTER = re.compile(r"^(debug1|Authenticated to|Transferred|Bytes per second)\b.*\n?", re.MULTILINE)
KEYLESS = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}  # no agent, and no options for rsync


@dataclass(frozen=True)
class SshOptions:
    key: Path | None = None
    known_hosts: Path | None = None
    port: int = 22

    def command(self) -> list[str]:
        """Return the command of ssh: without questions, without agent, with known hosts only."""
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
    """A source and its access by rsync."""

    source: FileSource
    ssh: SshOptions

    @property
    def argument(self) -> str:
        """The source as argument of rsync. With rrsync, the restricted folder is `/`."""
        return f"{self.source.login}:/" if self.source.login else self.source.folder.rstrip("/") + "/"

    @property
    def receiving(self) -> list[str]:
        """The option with which only the receiving side stores owners in attributes."""
        return [KEPT if self.source.login else f"--remote-option={KEPT}"]

    @property
    def options(self) -> list[str]:
        return [f"--rsh={shlex.join(self.ssh.command())}"] if self.source.login else []

    def marks(self, excludes: Sequence[str], backups: Path) -> list[str]:
        """List files that mark Kafka's data folders, at any depth. Failed if the source cannot be read."""
        # Before the excludes: a pattern that excludes such a file does not exclude the data beside it.
        marks = [f"--include={name}" for name in plan.MARKS]
        return self._listed([*marks, *excluded(excludes), "--include=*/", "--exclude=*"], backups)

    def files(self, excludes: Sequence[str], backups: Path) -> list[str]:
        """List the files to back up. Failed if the source cannot be read."""
        return self._listed(excluded(excludes), backups)

    def _listed(self, rules: Sequence[str], backups: Path) -> list[str]:
        listing = run([*self.options, "--recursive", "--list-only", *rules, self.argument])
        if listing.returncode not in (0, reasons.VANISHED) and not reasons.only_unreadable(
            listing.returncode, listing.stderr
        ):
            raise Failed("rsync-failed", self.failed(listing, backups))
        return [
            reasons.unescaped(line.split(maxsplit=4)[4])
            for line in listing.stdout.splitlines()
            if line[:1] == "-"
        ]

    def failed(self, process: "subprocess.CompletedProcess[str]", backups: Path) -> str:
        return self._not_backed_up(
            reasons.failure_cause(process.returncode, process.stderr, self.source, str(backups))
        )

    def _not_backed_up(self, cause: str) -> str:
        return (
            f"{self.source} was not backed up. {cause} Nothing of this backup was kept. Earlier backups are "
            "unchanged."
        )

    def refuse_other_key(self, backups: Path) -> None:
        """Refuse a key that can read another folder, or that has more rights than to read this folder.

        With such a key, an attacker on this host would get access to the source's host. Failed if the host
        cannot be reached.
        """
        if not self.source.login:
            return
        word = f"wide-{secrets.token_hex(8)}"
        wide = []
        ssh, *options = self.ssh.command()
        try:
            shell = subprocess.run(  # noqa: S603
                [ssh, "-oLogLevel=DEBUG1", *options, self.source.ssh_login, f"echo {word}"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=PROBE_SECONDS, check=False, env=KEYLESS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(
                "rsync-failed",
                self._not_backed_up(
                    f"The command of the key did not end within {PROBE_SECONDS} s on the host. Correct the "
                    "key's line in authorized_keys, or wait until the host is less busy."
                ),
            ) from None
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
        # sshd (OpenSSH since 7.7) reports the options of a key. Not all ports that it can forward can be
        # tried.
        key_options = " ".join(KEY_OPTIONS.findall(shell.stderr)).split()
        if "port-forwarding" in key_options or (not key_options and self._forwards(backups)):
            wide.append("forward ports")
        key = f"the key {self.ssh.key or 'of ssh'}"
        right = plan.restriction(self.source.folder)
        line = (
            f"Write {right} before the key in authorized_keys of {self.source.login}, and no other options. "
            "Nothing was kept."
        )
        if wide:
            raise Refused(
                "backup-key-unrestricted",
                f"{self.source} was not backed up, because {key} has too many rights there: {some(wide)}. An "
                f"attacker on this host would have these rights, too. {line}",
            )
        if top is None:
            raise Refused(
                "backup-key-unrestricted",
                f"{self.source} was not backed up, because it is unknown which folder {key} can read. "
                f"Another folder could be backed up under the name of this folder. {line}",
            )
        if top != self.source.folder:
            raise Refused(
                "backup-key-other-folder",
                f"{self.source} was not backed up, because {key} can read the folder {top} instead. Pass "
                f"{top}, "
                f"without symbolic links in the path, or use another key for this folder. {line}",
            )

    def _top(self, backups: Path) -> str | None:
        """Return the folder that the key can read, `/` if it can read all folders; None if it is unknown.

        rrsync rejects the path `/./` and prints the folder that it stands for (rsync 3.2.4 to 3.5.0:
        `unsafe arg: /./ [as written, as it is]`).
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
        """Return whether the key allows connections to ports. A key with `permitopen` is not noticed."""
        word = "-oLogLevel=INFO"  # else ssh does not print the answer of the server
        ssh, *options = self.ssh.command()
        try:
            forwarding = subprocess.run(  # noqa: S603
                [ssh, word, "-W", f"127.0.0.1:{CLOSED_PORT}", *options, self.source.ssh_login],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=PROBE_SECONDS, check=False, env=KEYLESS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:  # a service listens there, and waits
            return True
        if "administratively prohibited" in forwarding.stderr:
            return False
        if forwarding.returncode == 0 or "open failed: connect failed" in forwarding.stderr:
            return True
        raise Failed("rsync-failed", self.failed(forwarding, backups))


def excluded(patterns: Sequence[str]) -> list[str]:
    return [f"--exclude={pattern}" for pattern in patterns]


def run(
    arguments: Sequence[str], keep: int | None = None, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run rsync. Failed if it is not installed on this host.

    `keep`: the descriptor of a lock, which rsync holds until it ends, even if this process is
    killed. `stdin`: the input of rsync.
    """
    try:
        return subprocess.run(  # noqa: S603
            [RSYNC, f"--timeout={SILENT_SECONDS}", *arguments],
            input=stdin, capture_output=True, text=True, errors="surrogateescape", check=False,
            env=KEYLESS, cwd=NOWHERE, pass_fds=() if keep is None else (keep,),
        )  # fmt: skip
    except FileNotFoundError:
        raise Failed("rsync-missing", "rsync is missing on this host. Install the package rsync.") from None


def sizes(folders: Sequence[Path]) -> list[int]:
    """Return the disk usage of each folder without files that earlier ones in the list have, as du counts."""
    if not folders:
        return []
    command = ["du", "--summarize", "--block-size=1", "--", *map(str, folders)]
    usage = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace", check=False, env=KEYLESS
    )
    if usage.returncode:
        raise Failed(
            "backup-folder-unreadable",
            f"Cannot measure the backups ({usage.stderr.strip().splitlines()[0]}). Run the command as root, "
            "or as the user that created the backups.",
        )
    return [int(line.split("\t")[0]) for line in usage.stdout.splitlines()]
