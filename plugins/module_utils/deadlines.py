"""Questions to servers that may answer as slowly as they like.

As aqueduct/common/deadlines.py, which hosts do not have before their first deployment.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any


def within(seconds: float, ask: Callable[[], Any]) -> Any:
    """Return an answer, or raise TimeoutError if it is not complete in time.

    The timeout of a socket is the longest wait for one read. A server that sends a byte each second never
    reaches it. A question that is over ends with its own thread, or with the process.
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
