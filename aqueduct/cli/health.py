"""Say what is wrong with a Kafka cluster, or with one of its brokers, a line each.

Ends within 10 seconds: with 0 if nothing is wrong, with 1 if something is or no broker answers.
"""

import argparse
import signal
from collections.abc import Sequence
from types import FrameType

from aqueduct.cli import common, selection
from aqueduct.errors import ExitCode, Failed
from aqueduct.kafka import addresses, client_config, cluster
from aqueduct.kafka.admin.cluster import describe_cluster, silence
from aqueduct.kafka.client import Client, connect

LIMIT_SECONDS = 10
NODE_ID = selection.whole(0, (1 << 31) - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_cluster(parser)
    parser.add_argument("--node-id", metavar="N", type=NODE_ID, help="only what concerns this broker")
    selection.add_expected_brokers(parser)


def run(args: argparse.Namespace) -> int:
    end = client_config.end("cluster", args.bootstrap_servers, args.client_config)
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(LIMIT_SECONDS)
    try:
        with connect(end, "aqueduct-health", timeout_seconds=LIMIT_SECONDS / 2) as client:
            problems = _problems(client, args.node_id, args.expected_brokers)
    finally:
        signal.alarm(0)
    for problem in problems:
        print(problem)
    return ExitCode.FAILED if problems else ExitCode.DONE


def _problems(client: Client, node_id: int | None, expected: Sequence[int] | None) -> list[str]:
    state = describe_cluster(client)
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
        f"The cluster did not say how it is within {LIMIT_SECONDS} s; look at its brokers' journals."
    )
