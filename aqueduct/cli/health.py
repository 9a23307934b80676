"""List the problems of a Kafka cluster, or of one of its brokers, one line each.

The command ends within 10 seconds. With --json, it prints the state of the whole cluster: brokers,
controllers, and the problems with their identifiers.

Exit codes:
  0  no problem
  1  at least one problem, or no broker answers
  2  an argument cannot be used
  3  the cluster shows this client no topic, so the state of partitions is unknown
"""

import argparse
import json
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

from aqueduct.cli import common, selection
from aqueduct.errors import ExitCode, Failed, Refused, labelled
from aqueduct.kafka import addresses, client_config, cluster
from aqueduct.kafka.admin.cluster import describe_cluster, silence
from aqueduct.kafka.client import Client, connect

LIMIT_SECONDS = 10
NODE_ID = selection.whole(0, (1 << 31) - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_cluster(parser)
    parser.add_argument("--node-id", metavar="N", type=NODE_ID, help="only problems of this broker")
    selection.add_expected_brokers(parser)
    parser.add_argument("--json", action="store_true", help="print the state of the cluster as JSON")


def run(args: argparse.Namespace) -> int:
    if args.json and args.node_id is not None:
        raise Refused("option-conflict", "--json shows the whole cluster. Remove --node-id.")
    end = client_config.end("cluster", args.bootstrap_server, args.command_config)
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(LIMIT_SECONDS)
    try:
        with connect(end, "aqueduct-health", timeout_seconds=LIMIT_SECONDS / 2) as client:
            state = describe_cluster(client)
            problems = _problems(client, state, args.node_id, args.expected_brokers)
    finally:
        signal.alarm(0)
    unknown = [labelled(hidden.id, hidden.sentence) for hidden in cluster.hidden_topics(state)]
    if args.json:
        print(json.dumps(_document(state, args.expected_brokers), indent=2))
    else:
        for sentence in problems + unknown:
            print(sentence)
    if problems:
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if unknown else ExitCode.DONE


def _document(state: cluster.Cluster, expected: Sequence[int] | None) -> dict[str, Any]:
    unexpected = [] if expected is None else cluster.unexpected_brokers(state, expected)
    problems = [vars(problem) for problem in cluster.identified_problems(state)]
    problems += [vars(hidden) for hidden in cluster.hidden_topics(state)]
    problems += [{"id": "cluster-node-unhealthy", "sentence": sentence} for sentence in unexpected]
    return {
        "cluster_id": state.cluster_id,
        "brokers": sorted(state.brokers),
        "fenced": sorted(state.fenced),
        "controllers": {"leader": state.quorum.leader, "behind": dict(state.quorum.voters)},
        "partitions": None if state.hides_topics else len(state.partitions),
        "offline": None if state.hides_topics else len(state.offline()),
        "under_replicated": None if state.hides_topics else len(state.under_replicated()),
        "problems": problems,
    }


def _problems(
    client: Client, state: cluster.Cluster, node_id: int | None, expected: Sequence[int] | None
) -> list[str]:
    unexpected = [] if expected is None else cluster.unexpected_brokers(state, expected)
    if node_id is None:
        return cluster.cluster_problems(state) + unexpected
    missing = cluster.registration_problems(state, node_id)
    here = missing or silence(client, node_id) + cluster.replication_problems(state, node_id)
    return here + unexpected


def _end(_signal: int, _frame: FrameType | None) -> None:
    if reason := addresses.unreached():
        raise Failed("broker-address-unreachable", reason)
    raise Failed(
        "cluster-not-responding",
        f"The cluster did not answer within {LIMIT_SECONDS} s. Read the journals of its brokers.",
    )
