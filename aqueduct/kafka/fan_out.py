"""Asks the brokers that are responsible for many things, all at once."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafka.errors import KafkaError

from aqueduct.common.wording import some
from aqueduct.errors import Failed
from aqueduct.kafka.client import Client, Patience, passing
from aqueduct.kafka.requests import in_lists

K = TypeVar("K")
T = TypeVar("T")


class OmittedError(KafkaError):  # type: ignore[misc]
    """The error of a thing that a response does not mention. It is not known, which is not "has nothing"."""


def check_mentioned(asked: Iterable[K], mentioned: Collection[K]) -> None:
    """Check that a response mentions all that it was asked about; else OmittedError."""
    if omitted := [key for key in asked if key not in mentioned]:
        raise OmittedError(f"the response of the broker does not contain {some(omitted)}")


@dataclass(frozen=True, kw_only=True)
class _Answers(Generic[K, T]):
    """What the brokers answered to a question that they were asked once."""

    answers: Mapping[K, T]
    errors: Mapping[K, KafkaError]
    of_all: bool = False  # the error concerns all things


@dataclass(frozen=True, kw_only=True)
class _Question(Generic[K, T]):
    """A question to the brokers that are responsible for many things; the fields are those of `ask_all`."""

    responsible: Callable[[list[K]], Mapping[K, int | KafkaError]]
    request: Callable[[list[K]], Any]
    read: Callable[[Any], Iterable[tuple[K, T | KafkaError]]]
    limit: int

    def ask(self, client: Client, missing: list[K]) -> _Answers[K, T]:
        """Send all requests, and then wait for the responses."""
        answer_by_key: dict[K, T] = {}
        errors: dict[K, KafkaError] = {}
        by_broker: dict[int, list[K]] = {}
        try:
            brokers = self.responsible(missing)
        except KafkaError as error:
            return _Answers(answers={}, errors=dict.fromkeys(missing, error), of_all=True)
        for key, broker in brokers.items():
            if isinstance(broker, KafkaError):
                errors[key] = broker
            else:
                by_broker.setdefault(broker, []).append(key)
        sent = [
            (keys, client.submit(self.request(keys), broker))
            for broker, all_keys in by_broker.items()
            for keys in in_lists(all_keys, self.limit)
        ]
        for keys, response in sent:
            try:
                for key, answer in self.read(client.wait(response)):
                    if isinstance(answer, KafkaError):
                        errors[key] = answer
                    else:
                        answer_by_key[key] = answer
            except KafkaError as error:
                errors |= dict.fromkeys(keys, error)
        for key in missing:
            if key not in answer_by_key and key not in errors:
                errors[key] = OmittedError(f"no response of a broker contains {key}")
        return _Answers(answers=answer_by_key, errors=errors)


def ask_all(
    client: Client,
    requested: Iterable[K],
    *,
    responsible: Callable[[list[K]], Mapping[K, int | KafkaError]],
    request: Callable[[list[K]], Any],
    answers: Callable[[Any], Iterable[tuple[K, T | KafkaError]]],
    forget: Callable[[K], None] = lambda _: None,
    limit: int,
    fault: str,
    unanswered: dict[K, KafkaError] | None = None,
) -> dict[K, T]:
    """Ask each wanted thing's broker, again where the trouble passes, within Patience.

    `responsible` tells the broker of each, `request` asks one broker about up to `limit` of them, `answers`
    takes the response apart; a thing that is in neither has an OmittedError. `forget` is called for what has
    to be asked again. `fault` as in Patience.
    `unanswered` receives each thing that gets no answer, with its error, instead of the error being raised;
    an error that concerns all of them is raised.
    """
    question = _Question(responsible=responsible, request=request, read=answers, limit=limit)
    answer_by_key: dict[K, T] = {}
    missing = list(dict.fromkeys(requested))
    patience = Patience(client, fault)
    while missing:
        asked = question.ask(client, missing)
        answer_by_key |= asked.answers
        errors = asked.errors
        if len(errors) < len(missing):
            patience.progress()
        if unanswered is not None and not asked.of_all:
            unanswered |= {key: error for key, error in errors.items() if not passing(error)}
            errors = {key: error for key, error in errors.items() if passing(error)}
        missing = list(errors)
        for key in missing:
            forget(key)
        if errors:
            try:
                patience.pause(min(errors.values(), key=passing))  # one that won't pass, if there is one
            except Failed:
                if unanswered is None or asked.of_all:
                    raise
                unanswered |= errors
                break
    return answer_by_key
