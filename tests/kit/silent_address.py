"""An address that drops packets, like a firewall: a connection to it gets no answer."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from servers.process import free_ports

QUEUE = 8  # connections that fill a listener's queue, at most


@contextmanager
def silent_address() -> Iterator[str]:
    """Yield the address of a listener with a full queue. The kernel drops further connection requests."""
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port), backlog=0), ExitStack() as stack:

        def connects() -> bool:
            client = stack.enter_context(socket.socket())
            client.settimeout(1)
            return client.connect_ex(("127.0.0.1", port)) == 0

        assert not all(connects() for _ in range(QUEUE)), "the listener takes all connections"
        yield f"127.0.0.1:{port}"
