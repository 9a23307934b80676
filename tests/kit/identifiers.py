"""Assertions about identifiers of messages, in raised errors and in the output of commands."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aqueduct.errors import AqueductError


@contextmanager
def raises(
    error_class: type[AqueductError], id_: str, *facts: object
) -> Iterator[pytest.ExceptionInfo[AqueductError]]:
    """Expect an error of this class, with this identifier, and these names and numbers in its sentence."""
    with pytest.raises(error_class) as caught:
        yield caught
    assert caught.value.id == id_
    for fact in facts:
        assert has_fact(str(caught.value), fact), f"{fact!r} is not in: {caught.value}"


def has_fact(sentence: str, fact: object) -> bool:
    """Return whether a sentence contains a name or a number, and not only as a part of another one."""
    return re.search(rf"(?<!\w){re.escape(str(fact))}(?!\w)", sentence) is not None


def assert_printed(text: str, id_: str, *facts: object) -> None:
    """Expect a printed line with this identifier, and with these names and numbers."""
    lines = [line for line in text.splitlines() if f"[{id_}] " in line]
    assert any(all(has_fact(line, fact) for fact in facts) for line in lines), f"{id_}, {facts}: {text}"


def printed(text: str) -> list[str]:
    """Return the identifiers that a command printed, in order."""
    return re.findall(r"^\s*\w+: \[([a-z0-9-]+)\] ", text, re.MULTILINE)
