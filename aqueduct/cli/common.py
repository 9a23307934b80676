"""Options that several verbs have."""

import argparse

from aqueduct.cli import report_file, selection


def add_cluster(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bootstrap-servers", metavar="HOST:PORT,...", type=selection.servers, required=True, help="brokers")
    add("--client-config", metavar="FILE", help="Kafka client properties")


def add_store(parser: argparse.ArgumentParser) -> None:
    help_ = "s3://bucket/prefix, gs://, az:// or file:///directory"
    parser.add_argument("--store", metavar="URL", required=True, help=help_)


def add_snapshot(parser: argparse.ArgumentParser) -> None:
    help_ = "default: the newest; see `aqueduct snapshots`"
    parser.add_argument("--snapshot", metavar="ID", type=selection.positive, help=help_)


def add_rate_limit(parser: argparse.ArgumentParser) -> None:
    help_ = "bytes per second, for the whole run"
    parser.add_argument("--rate-limit-bytes", metavar="N", type=selection.positive, help=help_)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the work is done, and where it is reported."""
    help_ = "Spark's master; default local[*], if there is much to do"
    parser.add_argument("--master", metavar="URL", help=help_)
    report_file.add_arguments(parser)
