"""The blocks of a worker's settings whose clients the brokers would refuse: KAFKA-4090 and its kin."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from aqueduct.connect.findings import Facts, WorkerFinding, store_findings
from aqueduct.connect.worker import Block
from aqueduct.kafka.client_config import PROTOCOLS

ISSUE = "KAFKA-4090"

# What a client of each block is for, and what comes of it if it can't speak to the brokers.
PURPOSE = {
    "worker": "this client joins the worker group and maintains the internal topics",
    "producer": (
        "this client writes dead-letter records and the records of source connectors. It would hang or fail "
        "at the first record, while tasks still report RUNNING"
    ),
    "consumer": (
        "this client reads records for sink connectors. Sinks would receive no record and still report "
        "RUNNING"
    ),
    "admin": "this client creates the topics of source connectors and the dead-letter topics",
}


class BrokerDemands:
    """The brokers' demands of a client: as they answered, else as other blocks of the worker have it."""

    def __init__(self, facts: Facts, blocks: Sequence[Block]) -> None:
        self.facts = facts
        self._blocks = blocks

    def tls(self, block: Block) -> str | None:
        """Say why the brokers are taken to speak TLS; None: they are not."""
        listener = self.facts.listeners.get(block.servers)
        if listener:
            return f"{block.servers} uses TLS" if listener.tls else None
        other = self._other(block, lambda peer: peer.tls)
        return f"{other} uses TLS for {block.servers}" if other else None

    def plaintext(self, block: Block) -> bool:
        listener = self.facts.listeners.get(block.servers)
        return listener is not None and not listener.tls

    def key_store(self, block: Block) -> str | None:
        """Say why a client needs a key store."""
        listener = self.facts.listeners.get(block.servers)
        if listener:
            demands = f"{block.servers} requires a client certificate"
            return demands if listener.client_certificate else None
        other = self._other(block, lambda peer: peer.tls and peer.key_store is not None)
        return f"{other} has such a store for {block.servers}" if other else None

    def trust_store(self, block: Block) -> str | None:
        other = self._other(block, lambda peer: peer.tls and peer.trust_store is not None)
        return f"{other} has such a store for {block.servers}" if other else None

    def _other(self, block: Block, has: Callable[[Block], bool]) -> Block | None:
        same = (
            peer for peer in self._blocks if peer.servers == block.servers and peer.prefix != block.prefix
        )
        return next(filter(has, same), None)


def client_findings(blocks: Iterable[Block], demands: BrokerDemands) -> Iterator[WorkerFinding]:
    for block in blocks:
        if block.protocol not in PROTOCOLS:
            yield WorkerFinding(
                "fault",
                "security-protocol-unknown",
                f"{block.file}: {block} has {block.prefix}security.protocol={block.protocol}, which does "
                f"not exist in Kafka; use one of {', '.join(PROTOCOLS)}.",
            )
            continue
        if not block.tls:
            yield from _plaintext(block, demands)
            continue
        if demands.plaintext(block):
            yield WorkerFinding(
                "fault",
                "client-listener-plaintext",
                f"{block.file}: {block} uses {block.protocol}, but {block.servers} does not use "
                "TLS; set bootstrap.servers to the TLS listener.",
            )
        yield from _key_store(block, demands)
        yield from _trust_store(block, demands)
        if block.settings.get("ssl.endpoint.identification.algorithm", "https") == "":
            yield WorkerFinding(
                "warning",
                "client-names-unchecked",
                f"{block.file}: {block} does not compare the host names of the brokers with their "
                f"certificates; remove {block.prefix}ssl.endpoint.identification.algorithm, and add the "
                "host names to the certificates.",
            )


def _plaintext(block: Block, demands: BrokerDemands) -> Iterator[WorkerFinding]:
    if reason := demands.tls(block):
        yield WorkerFinding(
            "fault",
            "client-plaintext-to-tls",
            f"{block.file}: {block} would use {block.protocol}, but {reason}: "
            f"{PURPOSE[block.name]} ({ISSUE}); set {block.prefix}security.protocol=SSL and its key "
            "and trust store.",
        )


def _key_store(block: Block, demands: BrokerDemands) -> Iterator[WorkerFinding]:
    store = block.key_store
    if store:
        if store.type != "PEM" and store.password is None:
            yield WorkerFinding(
                "fault",
                "key-store-password-missing",
                f"{block.file}: {block} has a {store.type} key store without a password; set "
                f"{block.prefix}ssl.keystore.password.",
            )
        yield from store_findings(block.file, str(block), store, demands.facts)
    elif block.protocol == "SSL" and (reason := demands.key_store(block)):
        yield WorkerFinding(
            "fault",
            "key-store-missing",
            f"{block.file}: {block} has no key store, but {reason}: {PURPOSE[block.name]} ({ISSUE}); set "
            f"{block.prefix}ssl.keystore.location and {block.prefix}ssl.keystore.type.",
        )


def _trust_store(block: Block, demands: BrokerDemands) -> Iterator[WorkerFinding]:
    store = block.trust_store
    if store:
        yield from store_findings(block.file, str(block), store, demands.facts)
        return
    reason = demands.trust_store(block)
    yield WorkerFinding(
        "fault" if reason else "warning",
        "trust-store-missing",
        f"{block.file}: {block} has no trust store, "
        + (
            f"but {reason}: {PURPOSE[block.name]} ({ISSUE})"
            if reason
            else "so the client trusts the default certificate authorities of Java"
        )
        + f"; set {block.prefix}ssl.truststore.location and {block.prefix}ssl.truststore.type.",
    )


def inherited(blocks: Iterable[Block], demands: BrokerDemands) -> Iterator[WorkerFinding]:
    """Yield findings on admin blocks that get by only by what Connect lends them of the worker's own."""
    for block in blocks:
        if block.name != "admin" or not block.tls or not demands.tls(block):
            continue
        lent = [
            setting
            for setting in ("security.protocol", "ssl.keystore.location", "ssl.truststore.location")
            if setting in block.settings and setting not in block.own
        ]
        if lent:
            yield WorkerFinding(
                "warning",
                "admin-settings-inherited",
                f"{block.file}: {block} depends on the worker's own {', '.join(lent)}; set "
                f"{', '.join(f'{block.prefix}{setting}' for setting in lent)}, so that each block "
                f"is complete ({ISSUE}).",
            )
