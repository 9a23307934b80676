"""Errors that end a command, with an exit code, an identifier and a sentence; and skipped items."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self, overload


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    REFUSED = 2  # usage, configuration or plan: nothing was done yet
    INCOMPLETE = 3  # done, but something was skipped or is unequal; the report lists it


def labelled(id_: str, sentence: str) -> str:
    """Return the sentence after its identifier in brackets; without an identifier, the sentence alone."""
    return f"[{id_}] {sentence}" if id_ else sentence


def with_identifier(id_: str, text: str) -> str:
    """Return a text that another program wrote after an identifier, unless it begins with one."""
    return text if re.match(r"\[[a-z0-9]+(-[a-z0-9]+)+\] ", text) else labelled(id_, text)


def identified(labels: Iterable[str]) -> list[dict[str, str]]:
    """Return labelled sentences as JSON reports have them; `id` is empty where one has no identifier."""
    matches = [re.match(r"(?:\[([a-z0-9-]+)\] )?(.*)", label, re.DOTALL) for label in labels]
    return [{"id": match[1] or "", "sentence": match[2]} for match in matches if match]


@dataclass(frozen=True)
class Labelled:
    """A sentence with its identifier, which is declared in `aqueduct.messages`."""

    id: str
    sentence: str

    def __str__(self) -> str:
        return labelled(self.id, self.sentence)


@dataclass(frozen=True, order=True)
class Skipped:
    """An item that a run skipped, and why. `id` is declared in `aqueduct.messages`."""

    what: str
    why: str
    id: str

    def __str__(self) -> str:
        return labelled(self.id, f"{self.what}: {self.why}")

    @classmethod
    def because_of(cls, what: str, error: Exception) -> Self:
        """Return an item that an error made a run skip; that of a Kafka client has a common identifier."""
        id_ = error.id if isinstance(error, AqueductError) else "cluster-request-failed"
        return cls(what, str(error).rstrip("."), id_)


LeftOut = tuple[Skipped, ...]  # a run that skipped something is INCOMPLETE


def left_out_entries(skipped: Iterable[Skipped]) -> list[dict[str, str]]:
    """Return skipped items as JSON reports have them, in `left_out`."""
    return [{"id": omission.id, "what": omission.what, "why": omission.why} for omission in skipped]


class AqueductError(Exception):
    """An error that `main` prints without a traceback: an identifier and a sentence.

    The sentence says what failed, on what, why, and what to do. The identifier is declared in
    `aqueduct.messages`. A subclass can set `id` for all of its errors; they are made from the sentence alone.
    """

    exit_code = ExitCode.FAILED
    id = ""  # empty: this error has no identifier yet

    @overload
    def __init__(self, sentence: str, /) -> None: ...
    @overload
    def __init__(self, id_: str, sentence: str, /) -> None: ...
    def __init__(self, *id_and_sentence: str) -> None:
        super().__init__(*id_and_sentence)  # from these, pickle makes the error again
        *ids, self.sentence = id_and_sentence
        if ids:
            self.id = ids[0]

    def __str__(self) -> str:
        return self.sentence

    @property
    def labelled(self) -> str:
        return labelled(self.id, self.sentence)

    def concerning(self, subject: object) -> Self:
        """Return the same error with the object that it concerns in front."""
        return type(self)(self.id, f"{subject}: {self.sentence}")


class Failed(AqueductError):
    """The error of a command that tried and did not succeed."""


class Refused(AqueductError):
    """The error of a command that did nothing, because what was asked for can't be right."""

    exit_code = ExitCode.REFUSED


class NoMatch(Refused):
    """A name or pattern that matches nothing at the moment.

    A service that has worked before reports it and continues: a topic may be re-created.
    """
