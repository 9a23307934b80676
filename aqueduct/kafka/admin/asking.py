"""Questions and changes to a cluster, and how they are put."""

from collections.abc import Callable, Iterable
from typing import Any

from kafka.errors import NodeNotReadyError, NotControllerError, UnknownBrokerIdError, for_code

from aqueduct.kafka.client import Client, Patience

POLL_SECONDS = 0.5
SETTLE_SECONDS = 60  # for a change that the controller accepted to be seen by brokers
RESOURCES_PER_REQUEST = 1_000

# The broker that was to be asked for a change has not made it.
_NOT_DONE = NodeNotReadyError, NotControllerError, UnknownBrokerIdError

Said = tuple[str, int, str | None]  # of what, an error's code or 0, its message


def answer(client: Client, request: Any, broker: int | None = None) -> Any:
    """Return the response to a question, from any broker or a certain one, within Patience.

    An error that the response as a whole tells is raised.
    """

    def attempt() -> Any:
        response = client.send(request, broker)
        if code := getattr(response, "error_code", 0):
            raise for_code(code)(getattr(response, "error_message", None) or "")
        return response

    return Patience(client, "did not answer").until_done(attempt)


def change(client: Client, request: Any, read_results: Callable[[Any], Iterable[Said]]) -> list[str]:
    """Ask the controller for a change; return what it refused, each with the reason.

    `read_results` takes the response apart. Asked again only if the change surely was not made: most can't
    be made twice.
    """
    patience = Patience(client, "had no controller that accepts changes")
    while True:
        controller = patience.until_done(client.controller)
        try:
            results = list(read_results(client.send(request, controller)))
            if any(for_code(code) is NotControllerError for _, code, _ in results):
                raise NotControllerError()
        except _NOT_DONE as error:
            patience.pause(error)
        else:
            return [
                f"{subject} ({message or for_code(code).__name__})"
                for subject, code, message in results
                if code
            ]
