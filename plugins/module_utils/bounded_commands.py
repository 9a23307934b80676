"""Commands whose output and time are limited while they run."""

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from typing import Any

MOST = 8 << 20  # bytes of one answer
MOST_ERRORS = 2000  # bytes of what a command says of its failure
READ_BYTES = 1 << 16
LATE_SECONDS = 1  # for systemd to end a question whose time is over


def answer(argv: Sequence[str], seconds: int) -> dict[str, Any]:
    """Run a command; the last line of its errors is kept."""
    deadline = time.monotonic() + seconds + LATE_SECONDS
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 (of our roles)
    except OSError as error:
        return {"code": None, "output": "", "error": f"{argv[0]}: {error.strerror}"}
    try:
        output, errors = outputs(process, deadline)
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        return {"code": None, "output": "", "error": f"no answer within {seconds} s"}
    except ValueError as error:
        return {"code": None, "output": "", "error": str(error)}
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
    return {
        "code": code,
        "output": output.decode(errors="replace"),
        "error": errors.decode(errors="replace"),
    }


def outputs(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Read what a command writes, and the end of its errors.

    TimeoutError if that has no end in time; ValueError if it is too large, as soon as it is.
    """
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as streams:
        streams.register(process.stdout, selectors.EVENT_READ, output)  # type: ignore[arg-type]
        streams.register(process.stderr, selectors.EVENT_READ, errors)  # type: ignore[arg-type]
        while streams.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            for stream, _ in streams.select(remaining):
                block = os.read(stream.fd, READ_BYTES)
                if not block:
                    streams.unregister(stream.fileobj)
                stream.data.extend(block)
            if len(output) > MOST:
                raise ValueError(f"more than {MOST} bytes")
            del errors[:-MOST_ERRORS]
    return bytes(output), bytes(errors)
