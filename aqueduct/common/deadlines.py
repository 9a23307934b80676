"""Time limits for requests to servers that may send their answers slowly."""

import queue
import threading
from collections.abc import Callable
from typing import Any


def within(seconds: float, ask: Callable[[], Any]) -> Any:
    """Return the answer of `ask`; TimeoutError if it is not complete after so many seconds.

    A socket's timeout limits each read, so a server that sends one byte a second never exceeds it. After the
    timeout, the thread of the request continues until the request or the process ends.
    """
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((ask(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no complete answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer
