"""Identifiers of messages: of errors that are raised, and in what a command prints."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aqueduct.errors import AqueductError


@contextmanager
def raises(error_class: type[AqueductError], id_: str) -> Iterator[pytest.ExceptionInfo[AqueductError]]:
    """Expect an error of this class with this identifier."""
    with pytest.raises(error_class) as caught:
        yield caught
    assert caught.value.id == id_


def printed(text: str) -> list[str]:
    """Return the identifiers that a command printed, in order."""
    return re.findall(r"^\s*\w+: \[([a-z0-9-]+)\] ", text, re.MULTILINE)
