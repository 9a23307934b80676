"""Make a Connect cluster have the declared connectors, and wait until they are as declared."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aqueduct.connect import confinement, connectors, inspection, preflight, worker
from aqueduct.connect.connectors import ConnectorChanges, RunningConnector, WantedConnector
from aqueduct.connect.rest import POLL_SECONDS, Connect, RequestRejected
from aqueduct.errors import Failed, Refused

FAILED_SECONDS = 10  # for so long a task that ran may be FAILED, and start again by itself
FAILED_PATIENCE = 3  # times as long FAILED may be the state before the change


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Changes that were checked, with what they were decided from."""

    changes: ConnectorChanges
    actual: Mapping[str, RunningConnector]
    warnings: tuple[str, ...]
    passwords: Mapping[str, frozenset[str]]  # keys whose values Connect hides, by connector
    sound: tuple[WantedConnector, ...]  # those that are not refused
    refused: tuple[str, ...]  # sentences on those that are; nothing of them is changed


def check_clients(worker_config: Path, declared: Sequence[WantedConnector]) -> None:
    """Check a worker's clients, connectors' own settings included; Refused with all that is wrong."""
    kept = [
        worker.ConnectorConfig(
            file=f"connect_connectors, {connector.name}", name=connector.name, config=connector.config
        )
        for connector in declared
        if connector.config is not None and connector.state != "absent"
    ]
    read = inspection.read_worker(worker_config)
    facts, _ = inspection.look(read, kept)
    if findings := preflight.findings(read, kept, facts):
        raise Refused("connect-clients-unsafe", "\n".join(finding.sentence for finding in findings))


def check_files(declared: Sequence[WantedConnector], folders: Sequence[str], secrets_file: str) -> None:
    """Check which files connectors name; Refused with all that they may not."""
    faults = [
        f"Connector {connector.name}: {key}: {sentence}"
        for connector in declared
        if connector.config is not None and connector.state != "absent"
        for key, sentence in confinement.faults(connector.config, folders, secrets_file)
    ]
    if faults:
        raise Refused("connector-file-forbidden", "\n".join(faults))


def check(connect: Connect, declared: Sequence[WantedConnector]) -> Checked:
    """Check connectors, changing nothing. One in which a plugin finds a mistake stops none of the others."""
    actual = connect.connectors()
    connectors.plan(declared, actual)  # Refused if one cannot be planned
    plugins = connect.plugins()
    sound, refused, warnings, passwords = [], [], [], {}
    for connector in declared:
        mistakes: list[str] = []
        if connector.config is not None and connector.state != "absent":
            if wrong := connectors.class_error(connector, plugins):
                mistakes = [wrong]
            else:
                try:
                    validation = connect.validate(connector.config)
                except RequestRejected as error:
                    mistakes = [error.concerning(f"Connector {connector.name}").labelled]
                else:
                    mistakes = connectors.errors(connector, validation)
                    warnings += connectors.unknown(connector, validation)
                    passwords[connector.name] = validation.passwords
        refused += mistakes
        if not mistakes:
            sound.append(connector)
    changes = connectors.plan(sound, actual)
    return Checked(
        changes=changes,
        actual=actual,
        warnings=tuple(warnings),
        passwords=passwords,
        sound=tuple(sound),
        refused=tuple(refused),
    )


def apply(connect: Connect, changes: ConnectorChanges) -> None:
    """Change only what is asked for: a connector that is not declared stays."""
    for connector in changes.create:
        connect.create(connector.name, connector.config or {}, connectors.STATES[connector.state])
    for connector in changes.update:
        connect.configure(connector.name, connector.config or {})
    for connector in changes.move:
        connect.move(connector.name, connectors.ACTIONS[connector.state])
    for name in changes.restart:
        connect.restart_failed(name)
    for name in changes.delete:
        connect.delete(name)


def await_declared(
    connect: Connect, declared: Sequence[WantedConnector], touched: set[str], settle: float
) -> None:
    """Return when every connector and its tasks are as declared; Failed, with traces, if they are not.

    What was `touched` must be so for `settle` seconds on end: a task that fails does so after its start, and
    what is told of it first may be its state before the change.
    """
    connect.extend(settle if touched else 0)
    since: dict[str, tuple[str, float]] = {}  # what was missing, and since when
    ran: set[str] = set()
    while True:
        actual = connect.connectors()
        now = time.monotonic()
        pending = {}
        for connector in declared:
            missing = _missing(connector, actual)
            text, first = since.get(connector.name, ("", now))
            if connector.name not in since or text != missing:
                since[connector.name] = missing, (first := now)
            if missing or (connector.name in touched and now - first < settle):
                pending[connector.name] = missing
            ran |= set() if missing else {connector.name}
            patience = min(FAILED_SECONDS, settle) * (1 if connector.name in ran else FAILED_PATIENCE)
            if (failed := _failures(connector, actual)) and now - first >= patience:
                raise Failed("connector-not-running", failed)
        if not pending:
            return
        if connect.late:
            text = "; ".join(
                f"connector {name} {lack or 'has only just started'}" for name, lack in pending.items()
            )
            traces = filter(None, (_failures(connector, actual) for connector in declared))
            raise Failed(
                "connector-not-running",
                "\n".join(
                    [
                        f"Some connectors did not reach the declared state within the time limit: {text}.",
                        *traces,
                    ]
                ),
            )
        time.sleep(POLL_SECONDS)


def _missing(declared: WantedConnector, actual: Mapping[str, RunningConnector]) -> str:
    now = actual.get(declared.name)
    if declared.state == "absent":
        return "still exists" if now else ""
    return connectors.waiting_for(declared, now)


def _failures(declared: WantedConnector, actual: Mapping[str, RunningConnector]) -> str:
    now = actual.get(declared.name)
    return connectors.failures(now) if now and declared.state == "running" else ""
