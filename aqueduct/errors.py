"""Errors that end a command, with an exit code, an identifier and a sentence. Skipped items of a run."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self, overload


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    REFUSED = 2  # wrong usage, configuration or plan: nothing was changed
    INCOMPLETE = 3  # done, but items were skipped, or compared data differ; the report lists them


def labelled(id_: str, sentence: str) -> str:
    """Return `[identifier] sentence`; if the identifier is empty, only the sentence."""
    return f"[{id_}] {sentence}" if id_ else sentence


def with_identifier(id_: str, text: str) -> str:
    """Return the text of another program with the identifier in front, unless it already begins with one."""
    return text if re.match(r"\[[a-z0-9]+(-[a-z0-9]+)+\] ", text) else labelled(id_, text)


def identified(labels: Iterable[str]) -> list[dict[str, str]]:
    """Return labelled sentences as objects of JSON reports. `id` is empty for one without an identifier."""
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
    """An item that a run skipped, and the reason. `id` is declared in `aqueduct.messages`."""

    what: str
    why: str
    id: str

    def __str__(self) -> str:
        return labelled(self.id, f"{self.what}: {self.why}")

    @classmethod
    def because_of(cls, what: str, error: Exception) -> Self:
        """Return an item that a run skipped because of an error.

        Errors of Kafka clients have no identifiers of their own: the item gets `cluster-request-failed`.
        """
        id_ = error.id if isinstance(error, AqueductError) else "cluster-request-failed"
        return cls(what, str(error).rstrip("."), id_)


LeftOut = tuple[Skipped, ...]  # if it is not empty, the run is INCOMPLETE


def left_out_entries(skipped: Iterable[Skipped]) -> list[dict[str, str]]:
    """Return skipped items as the entries of `left_out` in JSON reports."""
    return [{"id": omission.id, "what": omission.what, "why": omission.why} for omission in skipped]


class AqueductError(Exception):
    """An error that `main` prints without a traceback: an identifier and a sentence.

    The sentence says what failed, on what, why, and what to do. The identifier is declared in
    `aqueduct.messages`. A subclass can set `id` for all of its errors. Its constructor then accepts only the
    sentence.
    """

    exit_code = ExitCode.FAILED
    id = ""  # empty: this error has no identifier yet

    @overload
    def __init__(self, sentence: str, /) -> None: ...
    @overload
    def __init__(self, id_: str, sentence: str, /) -> None: ...
    def __init__(self, *id_and_sentence: str) -> None:
        super().__init__(*id_and_sentence)  # pickle re-creates the error from these arguments
        *ids, self.sentence = id_and_sentence
        if ids:
            self.id = ids[0]

    def __str__(self) -> str:
        return self.sentence

    @property
    def labelled(self) -> str:
        return labelled(self.id, self.sentence)

    def concerning(self, subject: object) -> Self:
        """Return the same error, with the subject in front of its sentence."""
        return type(self)(self.id, f"{subject}: {self.sentence}")


class Failed(AqueductError):
    """The error of a command that began its work and failed."""


class Refused(AqueductError):
    """The error of a command that did nothing, because its options, configuration or input are invalid."""

    exit_code = ExitCode.REFUSED


class NoMatch(Refused):
    """The error for a name or pattern that matches nothing at present.

    A service that worked before reports the error and continues, because a topic may be re-created.
    """
