"""Find problems that stop clients, brokers or Connect workers without an error, and print a remedy for each.

cluster inspects a Kafka cluster. It reports:
  - partitions whose replicas are all on brokers that do not exist any more, as after a change of broker ids
  - consumer groups without a coordinator (--groups)
  - brokers that do not answer at their advertised address
  - hanging transactions, which stop read-committed consumers (see aqueduct transactions)
On a broker's host, it can also report the owner of the logs in a data directory and since when groups wait
(--data-folder), the clients that are connected to each listener (--properties), and clients that use
another protocol than the listener's (--log).

broker checks whether a broker with ZooKeeper (Kafka 3.9) can start with its properties. It reports a data
directory of another broker or cluster, and an ensemble that has lost the cluster: in such an ensemble, the
broker would create a new, empty cluster.

connect checks the configuration of a Kafka Connect worker. It reports clients of the worker that would send
plaintext to a TLS listener, or have no key store or trust store (KAFKA-4090). It also checks the content of
the stores, who may use the REST interface, and what connectors override. With --rest, it reports failed
connectors and tasks. With --bootstrap-server, it reports topics and patterns of sinks that match no topic.
It asks the brokers whether they use TLS. If none answers, it compares the settings of
the worker's clients with each other.

Exit codes of cluster and broker:
  0  no problem
  1  no broker answers
  2  a directory or file cannot be read, or no ZooKeeper server answers
  3  at least one problem

Exit codes of connect:
  0  no fault; there may be warnings
  1  at least one fault; with --strict, also for a warning
  2  a file cannot be read, or is not of the right kind
  3  no fault, but something could not be inspected (0 with --allow-unknown)
"""

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.optional_packages import connect_packages
from aqueduct.common import timestamps
from aqueduct.common.wording import count
from aqueduct.errors import (
    AqueductError,
    ExitCode,
    Failed,
    Refused,
    Skipped,
    identified,
    labelled,
    left_out_entries,
)
from aqueduct.kafka import client_config, data_folder, diagnosis, listeners, transactions
from aqueduct.kafka.admin import transactions as asking
from aqueduct.kafka.admin.cluster import describe_cluster, silence
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.cluster import Cluster, absent_brokers, unexpected_brokers

if TYPE_CHECKING:
    from aqueduct.connect.connectors import RunningConnector
    from aqueduct.connect.findings import WorkerFinding
    from aqueduct.connect.sink_topics import SinkTopics
    from aqueduct.connect.worker import ConnectorConfig

REST_SECONDS = 10
CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))  # the second only where the host has IPv6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    _add_cluster(commands.add_parser("cluster", help="inspect a Kafka cluster"))
    _add_broker(commands.add_parser("broker", help="check whether a broker with ZooKeeper can start"))
    _add_connect(commands.add_parser("connect", help="check the configuration of a Kafka Connect worker"))


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    common.add_cluster(parser)
    add = parser.add_argument
    add(
        "--groups",
        metavar="A,B",
        type=selection.names,
        default=(),
        help="consumer groups to check for a coordinator, as a cluster cannot list groups without one",
    )
    selection.add_expected_brokers(parser)
    add(
        "--data-folder",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="data directory of a broker on this host (log.dirs): report whose logs it has; may be repeated",
    )
    add(
        "--properties",
        metavar="FILE",
        type=Path,
        help="server.properties of a broker on this host: list the clients of each listener",
    )
    add(
        "--log",
        metavar="FILE",
        help="recent log of that broker (- for standard input): list clients with a wrong protocol; needs "
        "--properties",
    )
    report_file.add_arguments(parser)
    parser.set_defaults(run=_cluster)


def _cluster(args: argparse.Namespace) -> ExitCode:
    started = datetime.now(UTC)
    if args.log and not args.properties:
        raise Refused("option-required", "--log needs --properties, which has the listeners of the broker.")
    folders = [data_folder.read(path) for path in args.data_folder]
    configured, by_port = [], {}
    if args.properties:
        given = _properties(args.properties)
        if not ("process.roles" in given or "zookeeper.connect" in given):
            raise Refused(
                "broker-properties-invalid",
                f"{args.properties} is not server.properties of a broker: it has neither process.roles nor "
                "zookeeper.connect.",
            )
        configured = listeners.configured(given)
        by_port = listeners.connections(file.read_text() for file in CONNECTIONS if file.exists())
    with _log(args.log) as log:
        mismatches = [
            labelled("client-protocol-mismatch", sentence)
            for sentence in listeners.mismatches(configured, log)
        ]
    end = client_config.end("cluster", args.bootstrap_server, args.command_config)
    with connect(end, "aqueduct-doctor") as client:
        state = describe_cluster(client)
        silent = {node: sentences for node in sorted(state.brokers) if (sentences := silence(client, node))}
        hanging = _hanging(client, state, silent)
    waiting = diagnosis.without_leader(state, diagnosis.GROUPS)
    its_own = [folder.path for folder in folders if folder.cluster_id == state.cluster_id]
    written = {path: data_folder.written(path, waiting) for path in its_own}
    findings = diagnosis.findings(
        state,
        silent=[*chain.from_iterable(silent.values())],
        groups=args.groups,
        folders=folders,
        written=written,
    )
    findings += hanging + mismatches
    if args.expected_brokers is not None:  # those that do not run are among the findings already
        expected = {*args.expected_brokers, *absent_brokers(state, args.expected_brokers)}
        findings += [
            labelled("broker-unexpected", sentence) for sentence in unexpected_brokers(state, expected)
        ]
    connected = list(listeners.connected(configured, by_port))
    for sentence in connected + (findings or ["Nothing is wrong."]):
        print(sentence)
    code = ExitCode.INCOMPLETE if findings else ExitCode.DONE
    if report_file.is_requested(args):
        content = {"findings": identified(findings)} | ({"listeners": connected} if args.properties else {})
        report_file.deliver(args, "doctor cluster", code, started, content)
    return code


def _hanging(client: Client, state: Cluster, silent: Collection[int]) -> list[str]:
    """Return the findings about hanging transactions, or why there may be some all the same."""
    served = [
        partition
        for partition in state.partitions
        if partition.leader is not None and partition.leader not in silent
    ]
    try:
        return transactions.findings(asking.find(client, served, silent=silent), timestamps.now())
    except (Failed, KafkaError) as error:
        return transactions.unknown_findings([Skipped.because_of("this cluster", error)])


@contextmanager
def _log(name: str | None) -> Iterator[Iterable[str]]:
    """Yield the lines of a broker's log, of standard input where it is -; none without a name."""
    if name is None:
        yield ()
        return
    piped = name == "-"
    try:
        with open(0 if piped else name, encoding="utf-8", errors="replace", closefd=not piped) as lines:
            yield lines
    except OSError as error:
        raise Refused("file-unreadable", f"Cannot read {name}: {error.strerror}.") from None


def _properties(path: Path) -> dict[str, str]:
    try:
        return client_config.parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            "file-unreadable", f"Cannot read {path}: {getattr(error, 'strerror', None) or error}."
        ) from None


def _add_broker(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--properties", metavar="FILE", type=Path, required=True, help="server.properties of the broker")
    add("--command-config", metavar="FILE", help="Kafka client properties (TLS) for ZooKeeper")
    add(
        "--running",
        action="store_true",
        help="the broker may be running, with the listeners of an earlier configuration",
    )
    parser.set_defaults(run=_broker)


def _broker(args: argparse.Namespace) -> ExitCode:
    from aqueduct.recovery.zookeeper.brokers import start_obstacles
    from aqueduct.recovery.zookeeper.client import Ensemble

    given = _properties(args.properties)
    try:
        connect, node, folders = (given[key] for key in ("zookeeper.connect", "broker.id", "log.dirs"))
        node_id = int(node)
    except (KeyError, ValueError):
        raise Refused(
            "broker-properties-invalid",
            f"{args.properties} is not server.properties of a broker with ZooKeeper: it lacks "
            "zookeeper.connect, log.dirs, or a number as its broker.id.",
        ) from None
    ensemble = Ensemble(connect, client_config.load(args.command_config))
    own = "" if args.running else given.get("advertised.listeners") or given.get("listeners", "")
    _, findings = start_obstacles(
        ensemble, node_id, [Path(folder.strip()) for folder in folders.split(",")], own
    )
    labels = [labelled("broker-cannot-start", sentence) for sentence in findings]
    for line in labels or ["Nothing is wrong."]:
        print(line)
    return ExitCode.INCOMPLETE if findings else ExitCode.DONE


def _add_connect(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--worker-config", metavar="FILE", type=Path, required=True, help="properties of the worker")
    add(
        "--connector",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="configuration of a connector, .json or .properties; may be repeated",
    )
    add(
        "--rest",
        metavar="URL",
        action="append",
        default=[],
        help="REST URL of the worker: check its connectors, too; if repeated, tried in turn",
    )
    add(
        "--command-config",
        metavar="FILE",
        help="Kafka client properties with the client certificate for REST",
    )
    add(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        type=selection.servers,
        help="brokers of the worker: check whether the topics of sinks exist",
    )
    add(
        "--broker-command-config",
        metavar="FILE",
        help="Kafka client properties for --bootstrap-server; default: those of --command-config",
    )
    add("--no-probe", action="store_true", help="do not ask brokers whether they use TLS")
    add("--strict", action="store_true", help="treat warnings as faults")
    add(
        "--allow-unknown",
        action="store_true",
        help="exit with 0 instead of 3 if something could not be inspected",
    )
    report_file.add_arguments(parser)
    parser.set_defaults(run=_connect)


def _connect(args: argparse.Namespace) -> ExitCode:
    started = datetime.now(UTC)
    with connect_packages():
        findings, left_out, running, unmatched = _connect_findings(args)
    for finding in findings:
        print(finding)
    for skipped in left_out:
        print(f"not inspected: {labelled(skipped.id, skipped.what)}, because {skipped.why}.")
    faults = [finding for finding in findings if args.strict or finding.severity == "fault"]
    if not findings:
        print("Nothing is wrong with the rest." if left_out else "Nothing is wrong.")
    else:
        print(f"{count(len(faults), 'fault')}, {count(len(findings) - len(faults), 'warning')}.")
    code = _connect_code(args, findings, left_out)
    if report_file.is_requested(args):
        listed = None if running is None else [_connector(connector, unmatched) for connector in running]
        content = {**_connect_document(findings, left_out), "connectors": listed}
        report_file.deliver(args, "doctor connect", code, started, content)
    return code


def _connect_code(
    args: argparse.Namespace, findings: "Iterable[WorkerFinding]", left_out: Iterable[Skipped]
) -> ExitCode:
    if any(args.strict or finding.severity == "fault" for finding in findings):
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if any(left_out) and not args.allow_unknown else ExitCode.DONE


def _connect_document(findings: "Iterable[WorkerFinding]", left_out: Iterable[Skipped]) -> dict[str, Any]:
    return {
        "findings": [vars(finding) for finding in findings],
        "left_out": left_out_entries(left_out),
    }


def _connector(running: "RunningConnector", unmatched: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    from aqueduct.connect.connectors import first_line

    return {
        "name": running.name,
        "type": running.type,
        # Topics and patterns of a sink without a topic; null if they were not compared with the cluster's.
        "unmatched": list(unmatched[running.name]) if running.name in unmatched else None,
        "state": running.state,
        "tasks": [
            {
                "task": status.task,
                "state": status.state,
                "worker": status.worker,
                "reason": first_line(status.trace),
            }
            for status in running.statuses
            if status.task is not None
        ],
    }


def _connect_findings(
    args: argparse.Namespace,
) -> "tuple[list[WorkerFinding], list[Skipped], list[RunningConnector] | None, Mapping[str, Sequence[str]]]":
    """Find faults, what could not be looked at, with the reason, and the connectors, None if not known.

    Also the topics and patterns of each sink that match no topic.
    """
    from aqueduct.connect import inspection, preflight
    from aqueduct.connect.worker import ConnectorConfig, parse_connector

    worker = inspection.read_worker(args.worker_config)
    connectors = [parse_connector(inspection.read(path), str(path)) for path in args.connector]
    rest: list[WorkerFinding] = []
    running = None
    if args.rest:
        running, rest = _rest(args.rest, args.command_config)
        connectors += [
            ConnectorConfig(
                file=args.rest[0], name=connector.name, config=connector.config, type=connector.type
            )
            for connector in running or ()
        ]
    facts, left_out = inspection.look(worker, connectors, probe=not args.no_probe)
    topics = _sink_topics(args, connectors)
    findings = [*preflight.findings(worker, connectors, facts), *rest, *topics.findings]
    return findings, [*left_out, *topics.unknown], running, topics.unmatched


def _sink_topics(args: argparse.Namespace, connectors: "Sequence[ConnectorConfig]") -> "SinkTopics":
    """Compare the topics of sinks with those of the cluster, if it is to be asked."""
    from aqueduct.connect import sink_topics

    if not args.bootstrap_server or not sink_topics.sinks(connectors):
        return sink_topics.SinkTopics(unmatched={})
    end = client_config.end(
        "cluster", args.bootstrap_server, args.broker_command_config or args.command_config
    )
    try:
        with connect(end, "aqueduct-doctor", timeout_seconds=REST_SECONDS) as client:
            topics = client.topics().keys()
    except Failed as error:
        return sink_topics.not_compared(connectors, error)
    return sink_topics.compare(connectors, topics)


def _rest(urls: list[str], config: str | None) -> "tuple[list[RunningConnector] | None, list[WorkerFinding]]":
    """Return the connectors that run, and what is wrong with them; or why REST tells nothing."""
    from aqueduct.connect.connectors import first_line
    from aqueduct.connect.findings import WorkerFinding
    from aqueduct.connect.rest import Connect

    connect = Connect(urls, client_config.load(config))
    connect.within(REST_SECONDS)
    try:
        actual = connect.connectors()
    except Refused:
        raise
    except AqueductError as error:
        return None, [WorkerFinding("fault", error.id, error.sentence)]
    findings = []
    for running in actual.values():
        for part in running.failed:
            it = "it" if part.task is None else f"its task {part.task}"
            findings.append(
                WorkerFinding(
                    "fault",
                    "connector-task-failed",
                    f"Connector {running.name}: {it} failed on {part.worker}: {first_line(part.trace)}. "
                    "Fix the cause, and restart it.",
                )
            )
    return list(actual.values()), findings
