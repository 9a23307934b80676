"""How a command that runs until it is stopped learns that it should end."""

import signal
from threading import Event


def until_signal() -> Event:
    """Return an event that SIGINT or SIGTERM sets."""
    stopping = Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stopping.set())
    return stopping
