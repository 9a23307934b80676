"""The judgement of a worker's configuration: each finding a sentence with file, block and remedy."""

from collections.abc import Iterable, Iterator, Sequence

from aqueduct.connect import worker as of_worker
from aqueduct.connect.client_blocks import BrokerDemands, client_findings, inherited
from aqueduct.connect.findings import Facts, WorkerFinding
from aqueduct.connect.rest_listener import https, rest_findings
from aqueduct.connect.worker import Block, ConnectorConfig, Store, Worker

# Settings that a policy lets connectors override (KIP-458); None: all. The default is All since 3.0.
POLICIES: dict[str, frozenset[str] | None] = {
    "All": None,
    "None": frozenset(),
    "Principal": frozenset(("sasl.jaas.config", "sasl.mechanism", "security.protocol")),
}
INTERNAL = ("config", "offset", "status")


def blocks(worker: Worker, connectors: Iterable[ConnectorConfig]) -> list[Block]:
    """Return the client blocks of the worker, and those that connectors override."""
    return [*worker.blocks(), *(block for connector in connectors for block in worker.overridden(connector))]


def stores(worker: Worker, connectors: Iterable[ConnectorConfig]) -> set[Store]:
    """Return all key stores and trust stores that are to be looked at."""
    speaking = (block for block in blocks(worker, connectors) if block.tls)
    named_stores = {store for block in speaking for store in (block.key_store, block.trust_store)}
    rest = worker.rest_tls()
    named_stores |= {of_worker.key_store(rest), of_worker.trust_store(rest)} if https(worker) else set()
    return {store for store in named_stores if store}


def findings(worker: Worker, connectors: Sequence[ConnectorConfig], facts: Facts) -> list[WorkerFinding]:
    """Return every finding, the worker's before its connectors'. The same sentence comes once."""
    own = worker.blocks()
    demands = BrokerDemands(facts, own)
    gathered = [*_group_findings(worker), *client_findings(own, demands), *inherited(own, demands)]
    gathered += rest_findings(worker, facts)
    gathered += _topic_findings(worker)
    gathered += _plugin_findings(worker, facts)
    for connector in connectors:
        gathered += client_findings(worker.overridden(connector), demands)
        gathered += _connector_findings(worker, connector)
    return list(dict.fromkeys(gathered))


def _group_findings(worker: Worker) -> Iterator[WorkerFinding]:
    missing = {
        of_worker.BOOTSTRAP: "so the worker connects to localhost:9092; set the TLS listener of the brokers",
        "group.id": "so the worker does not start; set the group of the workers",
    }
    for setting, comes_of_it in missing.items():
        if not worker.properties.get(setting):
            yield WorkerFinding(
                "fault", "worker-setting-missing", f"{worker.file}: {setting} is not set, {comes_of_it}."
            )


def _topic_findings(worker: Worker) -> Iterator[WorkerFinding]:
    names: dict[str, str] = {}
    brokers = len(
        [server for server in worker.properties.get(of_worker.BOOTSTRAP, "").split(",") if server.strip()]
    )
    for kind in INTERNAL:
        setting = f"{kind}.storage.topic"
        name = worker.properties.get(setting, "")
        if not name:
            yield WorkerFinding(
                "fault",
                "worker-topic-missing",
                f"{worker.file}: {setting} is not set; set the name of a compacted topic that only the "
                "workers of this group use.",
            )
        elif name in names:
            yield WorkerFinding(
                "fault",
                "worker-topic-shared",
                f"{worker.file}: {setting} and {names[name]} use the same topic {name}; set a separate "
                "topic for each setting.",
            )
        names[name] = setting
        factor = worker.properties.get(f"{kind}.storage.replication.factor", "3")
        if factor == "1" and brokers > 1:
            yield WorkerFinding(
                "warning",
                "worker-topic-unreplicated",
                f"{worker.file}: {kind}.storage.replication.factor=1, so the loss of one broker "
                "stops every connector; set 3, or the number of brokers if it is lower.",
            )


def _plugin_findings(worker: Worker, facts: Facts) -> Iterator[WorkerFinding]:
    if not worker.plugin_path():
        yield WorkerFinding(
            "warning",
            "plugin-path-missing",
            f"{worker.file}: plugin.path is not set, so only plugins on the class path are found, and their "
            "libraries are not isolated; list the folders that contain one folder for each plugin.",
        )
    for folder in worker.plugin_path():
        if folder in facts.folders:
            yield WorkerFinding(
                "fault",
                "plugin-folder-unusable",
                f"{worker.file}: {folder} of plugin.path {facts.folders[folder]}; install the "
                "plugins there, or remove the folder.",
            )


def _connector_findings(worker: Worker, connector: ConnectorConfig) -> Iterator[WorkerFinding]:
    yield from _refused_overrides(worker, connector)
    where = f"{connector.file}: connector {connector.name}"
    tolerant = connector.config.get("errors.tolerance", "none") == "all"
    sink = "topics" in connector.config or "topics.regex" in connector.config
    if connector.dead_letters and not tolerant:
        yield WorkerFinding(
            "warning",
            "dead-letters-unreachable",
            f"{where} stops at the first record that it cannot process, so no record reaches its "
            f"dead-letter topic {connector.dead_letters}; set errors.tolerance=all.",
        )
    if sink and tolerant and not connector.dead_letters:
        yield WorkerFinding(
            "warning",
            "bad-records-dropped",
            f"{where} silently drops records that it cannot process; set errors.deadletterqueue.topic.name.",
        )
    headers = connector.config.get("errors.deadletterqueue.context.headers.enable", "false")
    if connector.dead_letters and headers.lower() != "true":
        yield WorkerFinding(
            "warning",
            "dead-letters-without-headers",
            f"{where} writes dead-letter records without headers of their origin, so these records cannot "
            "be sent back; set errors.deadletterqueue.context.headers.enable=true.",
        )


def _refused_overrides(worker: Worker, connector: ConnectorConfig) -> Iterator[WorkerFinding]:
    policy = worker.properties.get("connector.client.config.override.policy", "All")
    name = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    allowed = POLICIES.get(name)
    if name == "Allowlist":
        listed = worker.properties.get("connector.client.config.override.allowlist", "").split(",")
        allowed = frozenset(key.strip() for key in listed if key.strip())
    if allowed is None:
        return
    for client, settings in connector.overrides.items():
        if refused := sorted(settings.keys() - allowed):
            yield WorkerFinding(
                "fault",
                "connector-override-refused",
                f"{connector.file}: connector {connector.name} overrides "
                f"{', '.join(f'{client}.override.{key}' for key in refused)}, which the policy {name} of "
                f"{worker.file} rejects; remove the override, or set "
                "connector.client.config.override.policy=All.",
            )
