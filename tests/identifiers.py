"""Identifiers of messages: of errors that are raised, and in what a command prints."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aqueduct.errors import AqueductError


@contextmanager
def raises(
    error_class: type[AqueductError], id_: str, *facts: object
) -> Iterator[pytest.ExceptionInfo[AqueductError]]:
    """Expect an error of this class with this identifier, whose sentence has these names and numbers."""
    with pytest.raises(error_class) as caught:
        yield caught
    assert caught.value.id == id_
    sentence = str(caught.value)
    for fact in facts:
        assert re.search(rf"(?<!\w){re.escape(str(fact))}(?!\w)", sentence), f"{fact!r} is not in: {sentence}"


def printed(text: str) -> list[str]:
    """Return the identifiers that a command printed, in order."""
    return re.findall(r"^\s*\w+: \[([a-z0-9-]+)\] ", text, re.MULTILINE)
