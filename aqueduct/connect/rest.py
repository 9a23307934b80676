"""Connect's REST API: https://kafka.apache.org/documentation/#connect_rest"""

import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

from aqueduct.common.deadlines import within
from aqueduct.connect.connectors import ConnectorStatus, RunningConnector, Validation
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.tls import tls_context

CONNECT_SECONDS = 10  # a host that is gone answers nothing, and another one is to be asked
REQUEST_SECONDS = 100  # Connect itself gives up after 90
POLL_SECONDS = 0.5
MOST_BYTES = 64 << 20  # of an answer


class NotYet(Exception):
    """An answer that passes: a worker that starts, a rebalance, a leader that is away."""


class Connect:
    """A cluster of Connect's workers, any of which may be asked. Failed if it refuses."""

    def __init__(self, urls: Sequence[str], config: ClientConfig) -> None:
        """`config` is that of Kafka's clients: its CA, certificate and key are used for https."""
        self._urls = [_checked(url) for url in urls]
        self._tls = tls_context(config) if any(url.startswith("https:") for url in urls) else None
        self._deadline = 0.0

    def within(self, seconds: float) -> None:
        """Limit the seconds for which questions, all together, are repeated at trouble that passes."""
        self._deadline = time.monotonic() + seconds

    def extend(self, seconds: float) -> None:
        """Allow so many seconds more."""
        self._deadline += seconds

    @property
    def late(self) -> bool:
        return time.monotonic() >= self._deadline

    # Questions

    def plugins(self) -> list[str]:
        """Return the classes of all connectors that can be made."""
        return [str(plugin["class"]) for plugin in self._ask("GET", "/connector-plugins")]

    def connectors(self) -> dict[str, RunningConnector]:
        """Return every connector there is, by name."""
        entries = self._ask("GET", "/connectors?expand=info&expand=status")
        return {name: _connector(name, entry) for name, entry in entries.items()}

    def validate(self, config: Mapping[str, str]) -> Validation:
        """Ask the plugin and Connect to judge a configuration; nothing is changed."""
        plugin = quote(config["connector.class"], safe="")
        answer = self._ask("PUT", f"/connector-plugins/{plugin}/config/validate", config)
        return Validation.parse(answer["configs"])

    # Changes

    def create(self, name: str, config: Mapping[str, str], state: str) -> None:
        """Create a connector. `state`: RUNNING, PAUSED or STOPPED (KIP-980)."""
        body = {"name": name, "config": config, "initial_state": state}
        try:
            self._ask("POST", "/connectors", body)
        except _Exists:  # the first answer was lost, or someone else was faster
            self.configure(name, config)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        self._ask("PUT", f"{_path(name)}/config", config)

    def delete(self, name: str) -> None:
        self._ask("DELETE", _path(name), gone_is_fine=True)

    def move(self, name: str, action: str) -> None:
        """Change a connector's state. `action`: pause, resume or stop."""
        self._ask("PUT", f"{_path(name)}/{action}")

    def restart_failed(self, name: str) -> None:
        """Restart the connector if it failed, and those of its tasks that did (KIP-745)."""
        self._ask("POST", f"{_path(name)}/restart?includeTasks=true&onlyFailed=true")

    # HTTP

    def _ask(self, method: str, path: str, body: Any = None, *, gone_is_fine: bool = False) -> Any:
        """Return the first answer that a worker gives; ask again while the trouble is one that passes."""
        while True:
            troubles, closed = [], []
            for url in self._urls:
                try:
                    answer = self._answer(url, method, path, body, gone_is_fine)
                    self._urls.sort(key=url.__ne__)  # who answered is asked first from now on
                    return answer
                except NotYet as trouble:
                    troubles.append(f"{url} {trouble}")
                except _Closed as trouble:
                    closed.append(trouble)
            if closed and (not troubles or self.late):
                raise closed[0]
            if self.late:
                raise Failed(
                    "connect-unreachable",
                    f"Connect's REST API cannot be used: {'; '.join(troubles)}. Check that a worker runs at "
                    "this address.",
                )
            time.sleep(POLL_SECONDS)

    def _answer(self, url: str, method: str, path: str, body: Any, gone_is_fine: bool) -> Any:
        status, text = self._exchange(url, method, path, None if body is None else json.dumps(body))
        try:
            answer = json.loads(text) if text else None
        except ValueError:
            answer = None
        if 200 <= status < 300 and (answer is not None or not text):
            return answer
        message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
        if status == 404 and gone_is_fine and message:
            return None
        if status == 409 and "already exists" in message:
            raise _Exists(message)
        passing = status in (409, 503) or (status >= 500 and _PASSING.search(message))
        if passing or not message:  # without a message: a worker that is not ready answers 404
            raise NotYet(f"answers {status} {message or 'and is not ready'}".rstrip(". "))
        if status == 404:
            raise RequestRejected(f"{url} does not have {path}: {message}.")
        raise RequestRejected(f"{url} rejected {method} {path}: {message.rstrip('.')}.")

    def _exchange(self, url: str, method: str, path: str, body: str | None) -> tuple[int, str]:
        try:
            answer: tuple[int, str] = within(
                CONNECT_SECONDS + REQUEST_SECONDS, lambda: self._exchange_slowly(url, method, path, body)
            )
        except TimeoutError as error:
            raise NotYet(f"cannot be reached ({error})") from None
        return answer

    def _exchange_slowly(self, url: str, method: str, path: str, body: str | None) -> tuple[int, str]:
        parts = urlsplit(url)
        if self._tls and parts.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(
                parts.netloc, timeout=CONNECT_SECONDS, context=self._tls
            )
        else:
            connection = HTTPConnection(parts.netloc, timeout=CONNECT_SECONDS)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            connection.connect()
            connection.sock.settimeout(REQUEST_SECONDS)
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            content = response.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:  # a captured worker may answer what it likes
                raise NotYet(f"returns more than {MOST_BYTES >> 20} MiB")
            return response.status, content.decode(errors="replace")
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # as of a worker that stops, or starts
            raise NotYet("cannot be reached (it closed the connection instead of using TLS)") from None
        except ssl.SSLError as error:
            raise _Closed(_tls_sentence(url, error)) from None
        except (OSError, HTTPException) as error:
            raise NotYet(f"cannot be reached ({error})") from None
        finally:
            connection.close()


class RequestRejected(Failed):
    """The refusal of a request by a worker, which the same request would meet again."""

    id = "connect-request-rejected"


class _Exists(RequestRejected):
    """A connector that exists already."""


class _Closed(Failed):
    """A worker that TLS keeps us from: waiting won't help, another worker may."""

    id = "connect-tls-failed"


_PASSING = re.compile("timed out|forward|rebalanc|leader")  # of a 500's message


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _connector(name: str, entry: Mapping[str, Any]) -> RunningConnector:
    config = entry["info"]["config"]
    status = entry.get("status") or {}
    rows = [(None, status.get("connector") or {}), *((task["id"], task) for task in status.get("tasks", ()))]
    return RunningConnector(
        name=name,
        config={key: str(value) for key, value in config.items()},
        statuses=tuple(
            ConnectorStatus(
                task=task,
                state=str(row.get("state", "UNASSIGNED")),
                worker=str(row.get("worker_id", "")),
                trace=row.get("trace") or "",
            )
            for task, row in rows
        ),
        type=str(entry["info"].get("type", "")).lower(),
    )


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(
            "connect-url-invalid",
            f"{url!r} is not a URL of Connect's REST API. Write a URL such as "
            "https://connect.example.com:8083.",
        )
    return url.rstrip("/")


def _tls_sentence(url: str, error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{url} uses a certificate that is not trusted ({error.verify_message}). Renew the certificate, "
            "or correct the trust store of the client configuration."
        )
    if "certificate" in reason or "alert" in reason or "handshake" in reason:
        return (
            f"{url} rejected the client certificate ({reason}). Pass a client configuration with a valid "
            "certificate of an authority that the worker trusts."
        )
    return f"{url} does not use TLS ({reason}). Check that the REST listener of the worker is https."
