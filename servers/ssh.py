"""A real sshd on this machine, with keys of its own, for whom it is started by; it is AQUEDUCT_SSHD."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from shlex import quote

from servers.process import Process, binary, free_ports, listens

# A connection needs little processor time: algorithms are fast, and with SHLVL, bash does not read .bashrc.
SETTINGS = """
ListenAddress 127.0.0.1
ListenAddress ::1
Port {port}
HostKey {directory}/host
PidFile none
AuthorizedKeysFile {directory}/authorized_keys
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
KexAlgorithms curve25519-sha256
Ciphers aes128-gcm@openssh.com
SetEnv SHLVL=1
"""


@dataclass(frozen=True)
class SshServer:
    directory: Path
    port: int
    process: Process

    @property
    def login(self) -> str:
        return f"{getuser()}@127.0.0.1"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def key(self, name: str, options: str) -> Path:
        """Make a key that is taken with these options of authorized_keys."""
        path = new_key(self.directory / name)
        with (self.directory / "authorized_keys").open("a") as file:
            file.write(f"{options} {path.with_suffix('.pub').read_text()}")
        return path

    def reader(self, name: str, folder: Path) -> Path:
        """Make a key that may read a folder and nothing else."""
        return self.key(name, f'command="rrsync -ro {quote(str(folder))}",restrict')


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@contextmanager
def running(directory: Path) -> Iterator[SshServer]:
    host = new_key(directory / "host").with_suffix(".pub").read_text()
    [port] = free_ports(1)
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port},[::1]:{port} {host}")
    (directory / "authorized_keys").touch()
    Path("/run/sshd").mkdir(exist_ok=True)  # its folder of privilege separation
    (directory / "sshd_config").write_text(SETTINGS.format(port=port, directory=directory))
    process = Process(
        [binary("AQUEDUCT_SSHD"), "-D", "-e", "-f", f"{directory}/sshd_config"],
        directory / "log",
        lambda: listens(port),
    )
    with process.running():
        yield SshServer(directory, port, process)
