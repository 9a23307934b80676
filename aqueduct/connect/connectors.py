"""Connectors: what is declared against what a Connect cluster has."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from aqueduct.common.wording import some
from aqueduct.connect.worker import CLIENTS, has_reference, is_reference
from aqueduct.errors import Refused, labelled

MASK = "********"
STATES = {"running": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED"}
ACTIONS = {"running": "resume", "paused": "pause", "stopped": "stop"}
# Settings whose names a plugin does not list, though it, a converter or a client takes them.
FREE = (
    *(f"{client}.override." for client in CLIENTS),
    *("key.converter.", "value.converter.", "header.converter."),
    *("transforms.", "predicates.", "topic.creation."),
)
SECRET = re.compile(r"passw|secret|token|api[._-]?key|private[._-]?key|credential|jaas", re.IGNORECASE)
# Of these a value in plain is refused; the others that SECRET finds are only hidden.
SECRET_KEY = re.compile(
    r"(^|[._-])(password|passphrase|secret|token|credentials?|jaas\.config|keystore\.key)$", re.IGNORECASE
)
MOST_SECRETS = 100  # of a URL that is shown without them
# //user:HERE@host, and ?password=HERE or ;password=HERE of a database's URL.
SECRET_OF_URL = re.compile(
    r"//[^/?#\s:@]*:([^/?#\s@]+)(?=@)|[?&;][\w.]*(?:passw(?:or)?d|pwd|secret|token)=([^&;\s]+)", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class ConnectorStatus:
    """The status of a connector (task None) or of one of its tasks."""

    task: int | None
    state: str  # RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, RESTARTING
    worker: str  # host:port of its REST
    trace: str  # a Java stack trace, if it failed


@dataclass(frozen=True, kw_only=True)
class RunningConnector:
    """A connector as the cluster has it."""

    name: str
    config: Mapping[str, str]
    statuses: tuple[ConnectorStatus, ...]  # the connector's, then its tasks'
    type: str = ""  # "sink" or "source"

    @property
    def failed(self) -> list[ConnectorStatus]:
        return [status for status in self.statuses if status.state == "FAILED"]

    @property
    def state(self) -> str:
        return self.statuses[0].state


@dataclass(frozen=True)
class WantedConnector:
    """A connector as the inventory wants it. `config` None: leave it as it is."""

    name: str
    state: str  # of STATES, or "absent"
    config: Mapping[str, str] | None


@dataclass(frozen=True)
class Validation:
    """The answer to validating a configuration."""

    known: frozenset[str]
    passwords: frozenset[str]  # keys whose values Connect itself hides
    errors: Mapping[str, Sequence[str]]

    @classmethod
    def parse(cls, configs: Iterable[Mapping[str, Any]]) -> "Validation":
        entries = [(config.get("definition") or {}, config["value"]) for config in configs]
        return cls(
            frozenset(str(definition["name"]) for definition, _ in entries if definition),
            frozenset(str(d["name"]) for d, _ in entries if d.get("type") == "PASSWORD"),
            {str(value["name"]): value["errors"] for _, value in entries if value.get("errors")},
        )


def parse(entries: Sequence[Mapping[str, Any]]) -> tuple[WantedConnector, ...]:
    """Return the inventory's `connect_connectors`; Refused with every mistake in it."""
    connectors: dict[str, WantedConnector] = {}
    problems = []
    for entry in entries:
        name, state, config = str(entry["name"]), entry.get("state") or "running", entry.get("config")
        if name in connectors:
            problems.append(f"{name} is declared twice")
        if config is not None and not config.get("connector.class"):
            problems.append(f"{name} has no connector.class")
        if config is not None and str(config.get("name", name)) != name:
            problems.append(
                f"the configuration of {name} contains another name, {config['name']}; remove this name"
            )
        texts = config and {key: text(value) for key, value in config.items() if value is not None}
        connectors[name] = WantedConnector(name, state, texts and {**texts, "name": name})
    if problems:
        raise Refused("connector-config-invalid", f"Correct connect_connectors: {'; '.join(problems)}.")
    return tuple(connectors.values())


def text(value: Any) -> str:
    """Write a value as Connect wants it: YAML's true as `true`, a list as `a,b`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(text, value))
    return str(value)


def class_error(declared: WantedConnector, plugins: Sequence[str]) -> str:
    """Return a sentence if no plugin has `connector.class` as its class, or as the end of that (an alias)."""
    class_name = (declared.config or {})["connector.class"]
    names = {name for plugin in plugins for name in _names(plugin)}
    if class_name in names:
        return ""
    near = get_close_matches(class_name, sorted(names), 1, 0.6)
    meant = f"did you mean {near[0]}?" if near else f"the workers have {some(sorted(plugins), 10)}."
    return labelled(
        "connector-plugin-missing",
        f"Connector {declared.name}: no worker has the plugin {class_name}; install the plugin in "
        f"plugin.path, or correct connector.class: {meant}",
    )


def _names(plugin: str) -> tuple[str, ...]:
    simple = plugin.rpartition(".")[2]
    return plugin, simple, simple.removesuffix("Connector")


def errors(declared: WantedConnector, validation: Validation) -> list[str]:
    """Return sentences on what can't be right in a configuration. No secret is in them."""
    config = declared.config or {}
    sentences = [
        labelled(
            "connector-config-invalid",
            f"Connector {declared.name}: {key}: {_without_secrets(error, key, config).rstrip('.')}.",
        )
        for key, messages in sorted(validation.errors.items())
        for error in messages
    ]
    sentences += [
        labelled(
            "connector-secret-plain",
            f"Connector {declared.name}: {key} contains a secret, which every client of Connect's REST API "
            "can read; move the secret to a file of a config provider, and write ${file:...:...}.",
        )
        for key in sorted(plain_secrets(config, validation.passwords))
    ]
    return sentences


def unknown(declared: WantedConnector, validation: Validation) -> list[str]:
    """Return sentences on keys that neither the plugin nor Connect lists.

    Connect ignores them without a word.
    """
    sentences = []
    for key in sorted((declared.config or {}).keys() - validation.known):
        if not key.startswith(FREE):
            near = get_close_matches(key, sorted(validation.known), 1, 0.8)
            remedy = f"did you mean {near[0]}?" if near else "check that the plugin uses it, or remove it."
            sentences.append(
                labelled(
                    "connector-setting-unknown",
                    f"Connector {declared.name}: {key} is not a setting of Connect or of the plugin; "
                    f"{remedy}",
                )
            )
    return sentences


def _without_secrets(error: str, key: str, config: Mapping[str, str]) -> str:
    declared = config.get(key, "")
    if has_reference(declared):  # the sentence has what it stands for
        return f"the value of {declared} is not accepted"
    return error.replace(declared, MASK) if declared and SECRET.search(key) else _masked_urls(error)


def _is_literal(value: str) -> bool:
    return bool(value) and not is_reference(value)


def plain_secrets(config: Mapping[str, str], passwords: frozenset[str] = frozenset()) -> list[str]:
    """Return the keys of secrets that REST would show in plain text.

    `passwords`: the keys that a plugin declares as such.
    """
    return [
        key
        for key, value in config.items()
        if ((key in passwords or SECRET_KEY.search(key)) and value and not has_reference(value))
        or secrets_of_url(value)
    ]


def secrets_of_url(value: str) -> list[str]:
    """Find the secrets that stand in a URL in plain."""
    matches = SECRET_OF_URL.finditer(value if "://" in value else "")
    return [secret for match in matches if _is_literal(secret := match[1] or match[2])]


def masked(config: Mapping[str, str], passwords: frozenset[str] = frozenset()) -> dict[str, str]:
    """Mask secrets for a diff. References to a config provider stay."""
    return {
        key: MASK if (key in passwords or SECRET.search(key)) and _is_literal(value) else _masked_urls(value)
        for key, value in sorted(config.items())
    }


def _masked_urls(value: str) -> str:
    plain = set(secrets_of_url(value))
    if len(plain) > MOST_SECRETS:  # each is looked for in the whole value
        return MASK
    for secret in sorted(plain, key=len, reverse=True):
        value = re.sub(rf"(?<=[:=]){re.escape(secret)}", MASK, value)
    return value


def secrets(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return values that no log may have."""
    every = [
        (str(key), text(value))
        for entry in entries
        for key, value in (entry.get("config") or {}).items()
        if value is not None and not isinstance(value, bool)
    ]
    whole = {value for key, value in every if SECRET.search(key) and _is_literal(value)}
    return whole.union(*(secrets_of_url(value) for _, value in every))


@dataclass(frozen=True, kw_only=True)
class ConnectorChanges:
    """The changes to make, in this order."""

    create: tuple[WantedConnector, ...] = ()
    update: tuple[WantedConnector, ...] = ()
    move: tuple[WantedConnector, ...] = ()  # to another state
    restart: tuple[str, ...] = ()  # what failed
    delete: tuple[str, ...] = ()

    @property
    def touched(self) -> set[str]:
        """Names of those that are there afterwards."""
        return {connector.name for connector in (*self.create, *self.update, *self.move)} | set(self.restart)

    @property
    def changed(self) -> bool:
        return bool(self.touched or self.delete)


def plan(declared: Iterable[WantedConnector], actual: Mapping[str, RunningConnector]) -> ConnectorChanges:
    """Plan the changes; Refused where a connector is to be kept as it is that is not there."""
    changes: dict[str, list[Any]] = {name: [] for name in ("create", "update", "move", "restart", "delete")}
    for connector in declared:
        now = actual.get(connector.name)
        if connector.state == "absent":
            if now:
                changes["delete"].append(connector.name)
        elif now is None:
            if connector.config is None:
                raise Refused(
                    "connector-missing",
                    f"Connector {connector.name} does not exist, and is declared without config. Declare "
                    "the config of the connector.",
                )
            changes["create"].append(connector)
        else:
            changed = connector.config is not None and dict(now.config) != dict(connector.config)
            if changed:
                changes["update"].append(connector)
            if not in_state(now.state, connector.state):
                changes["move"].append(connector)
            if now.failed and connector.state == "running":
                changes["restart"].append(connector.name)
    return ConnectorChanges(**{name: tuple(connectors) for name, connectors in changes.items()})


def in_state(state: str, declared_state: str) -> bool:
    """Tell whether a connector's state is the wanted one, as far as asking goes: it may have failed since."""
    if declared_state == "running":
        return state not in ("PAUSED", "STOPPED")
    return state == STATES[declared_state]


def waiting_for(declared: WantedConnector, actual: RunningConnector | None) -> str:
    """Say what is missing until a connector is as declared; "" if nothing is."""
    if actual is None:
        return "does not exist yet"
    expected_state = STATES[declared.state]
    if declared.state == "stopped":
        return "" if actual.state == expected_state else f"is {actual.state}"
    # What failed does nothing, which is all that pausing asks for; Connect never says PAUSED of it.
    fine = {expected_state} if declared.state == "running" else {expected_state, "FAILED"}
    other = [status for status in actual.statuses if status.state not in fine]
    if other:
        return "; ".join(f"{_part(status)} is {status.state}" for status in other)
    if len(actual.statuses) == 1 and declared.state == "running":
        return "has no task"
    return ""


# What brokers answer where playbooks/kafka.yml has not run since a connector was declared.
MISSING_AT_CLUSTER = (
    *("TopicAuthorizationException", "GroupAuthorizationException", "TransactionalIdAuthorizationException"),
    "UnknownTopicOrPartitionException",
)


def failures(connector: RunningConnector) -> str:
    """Return sentences with the whole trace of each part that failed; of parts that failed alike, of one."""
    traces: dict[str, list[ConnectorStatus]] = {}
    for status in connector.failed:
        traces.setdefault(status.trace.strip(), []).append(status)
    return "\n".join(
        f"Connector {connector.name}: {', '.join(map(_part, parts))} FAILED on {parts[0].worker}: "
        + _told(trace)
        for trace, parts in traces.items()
    )


def _told(trace: str) -> str:
    """Return the trace.

    If a topic or a right is missing, which are the cluster's, a sentence precedes it.
    """
    if any(name in trace for name in MISSING_AT_CLUSTER):
        return (
            "a topic or an ACL is missing; run playbooks/kafka.yml, which creates both. Error of "
            f"Connect: {trace}"
        )
    return trace


def first_line(trace: str) -> str:
    return trace.strip().partition("\n")[0]


def _part(status: ConnectorStatus) -> str:
    return "it" if status.task is None else f"task {status.task}"


def diff(
    changes: ConnectorChanges, actual: Mapping[str, RunningConnector], passwords: Mapping[str, frozenset[str]]
) -> list[dict[str, Any]]:
    """Return Ansible's diff, one entry per connector that changes."""
    diffs = []
    configs: dict[str, WantedConnector] = {
        connector.name: connector for connector in (*changes.create, *changes.update)
    }
    moves = {connector.name: connector for connector in changes.move}
    for name in sorted({*configs, *moves, *changes.restart, *changes.delete}):
        hidden = passwords.get(name, frozenset())
        now = actual.get(name)
        before = {**masked(now.config, hidden), "state": now.state} if now else {}
        after: dict[str, str] = {}
        if name not in changes.delete:
            new = configs.get(name)
            config = new.config if new else now.config if now else {}
            after = masked(config or {}, hidden)
            after["state"] = _state_after(name, changes, now)
        diffs.append(
            {"before_header": name, "after_header": name, "before": _lines(before), "after": _lines(after)}
        )
    return diffs


def _state_after(name: str, changes: ConnectorChanges, now: RunningConnector | None) -> str:
    for connector in (*changes.create, *changes.move):
        if connector.name == name:
            return STATES[connector.state]
    if name in changes.restart:
        return "RUNNING"
    return now.state if now else ""


def _lines(config: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in config.items())
