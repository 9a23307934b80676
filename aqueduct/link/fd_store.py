"""Open files that systemd keeps for a service while it restarts: the service's file descriptor store.

A unit with FileDescriptorStoreMax= has one. Its files outlive the process, also one that was killed, and are
given to the next; they are closed when the service is stopped. Elsewhere nothing is kept, and nothing fails.
The protocol: sd_listen_fds(3), sd_notify(3).
"""

import os
import select
import socket
from collections.abc import Sequence

_FIRST = 3  # SD_LISTEN_FDS_START
_BARRIER_MILLISECONDS = 5000


def take() -> dict[str, int]:
    """Return what was kept for this process, by name. They are the caller's to close, and stay kept."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return {}
    fd_by_name: dict[str, int] = {}
    for fd, name in enumerate(os.environ.get("LISTEN_FDNAMES", "").split(":"), _FIRST):
        os.set_inheritable(fd, False)
        if name in fd_by_name:  # the later one was kept later
            os.close(fd_by_name[name])
        fd_by_name[name] = fd
    return fd_by_name


def keep(name: str, fd: int) -> None:
    """Have a file kept, beside others of that name; return when it is."""
    # Without FDPOLL=0 a file with an error would be dropped.
    _notify(f"FDSTORE=1\nFDNAME={name}\nFDPOLL=0", [fd])
    _wait()


def forget(name: str) -> None:
    """Have files of a name kept no longer; return when they are not."""
    _notify(f"FDSTOREREMOVE=1\nFDNAME={name}")
    _wait()


def _notify(message: str, fds: Sequence[int] = ()) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.connect(address.replace("@", "\0", 1) if address[0] == "@" else address)
        socket.send_fds(manager, [message.encode()], list(fds))


def _wait() -> None:
    """Wait until systemd has read what it was told: it takes nothing from a process that is gone."""
    reading, writing = os.pipe()
    try:
        _notify("BARRIER=1", [writing])
    finally:
        os.close(writing)
    poll = select.poll()
    poll.register(reading, 0)  # its other end is closed
    poll.poll(_BARRIER_MILLISECONDS)
    os.close(reading)
