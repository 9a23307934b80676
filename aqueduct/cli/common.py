"""Options that several verbs have."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct.cli import duration, report_file, selection, timestamp_argument
from aqueduct.errors import Refused
from aqueduct.work.options import EXECUTOR_SECONDS, SparkOptions, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from aqueduct.common.keys import ReceiverKey, ReceiverPublicKey
    from aqueduct.kafka.batches.cutting import Window
    from aqueduct.snapshots.prune.policy import KeepPolicy
    from aqueduct.store.signing import SigningKey, Trust
    from aqueduct.work.workers import Workers

MOST_KEPT = 1_000_000  # backups or periods


def add_cluster(parser: argparse.ArgumentParser, brokers: str = "Kafka brokers") -> None:
    add = parser.add_argument
    add(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        type=selection.servers,
        required=True,
        help=brokers,
    )
    add("--command-config", metavar="FILE", help="file of Kafka client properties; default: PLAINTEXT")


def add_store(parser: argparse.ArgumentParser) -> None:
    help_ = "backup store: s3://bucket/prefix, gs://, az://, hdfs://host:port/directory or file:///directory"
    parser.add_argument("--store", metavar="URL", required=True, help=help_)


def add_snapshot(parser: argparse.ArgumentParser, listed_by: str = "snapshots") -> None:
    help_ = f"number of the snapshot; default: the newest (`aqueduct {listed_by}` lists them)"
    parser.add_argument("--snapshot", metavar="ID", type=selection.positive, help=help_)


def add_keep_newest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        metavar="N",
        type=selection.positive,
        help="keep only the newest N snapshots, which requires the right to delete; default: keep all",
    )


def add_keep(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the options that say what a prune keeps."""
    for rule, help_ in (
        ("last", f"keep the newest N {of}s"),
        ("daily", f"keep the newest {of} of each of the last N days that have one"),
        ("weekly", f"keep the newest {of} of each of the last N weeks that have one"),
        ("monthly", f"keep the newest {of} of each of the last N months that have one"),
        ("days", f"keep each {of} that is at most N days older than the newest"),
    ):
        parser.add_argument(f"--keep-{rule}", metavar="N", type=selection.whole(most=MOST_KEPT), help=help_)


def kept(args: argparse.Namespace) -> "KeepPolicy | None":
    """Return what was given of add_keep's options; None if nothing was."""
    from aqueduct.snapshots.prune.policy import KeepPolicy

    policy = KeepPolicy(
        **{field.name: getattr(args, f"keep_{field.name}") or 0 for field in fields(KeepPolicy)}
    )
    return None if policy == KeepPolicy() else policy


def keep(args: argparse.Namespace, verb: str) -> "KeepPolicy":
    """Return what was given of add_keep's options; Refused if nothing was."""
    policy = kept(args)
    if policy is None:
        raise Refused(
            "option-required",
            f"No rule keeps anything. Pass one or more, such as --keep-daily 7 --keep-weekly 8; see aqueduct "
            f"{verb} --help.",
        )
    return policy


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the options that say whose snapshots are believed."""
    add = parser.add_argument
    add(
        "--trusted-key",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="public key (PEM, Ed25519) that signs accepted snapshots; others are refused; may be repeated",
    )
    add(
        "--unsigned-before",
        metavar="ID",
        type=selection.positive,
        help="number of the first signed snapshot; older ones need no signature",
    )


def add_signing_key(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument(
        "--signing-key",
        metavar="FILE",
        type=Path,
        help=f"private key (PEM, Ed25519, mode 0600) that signs the snapshot{more}",
    )


def signing_key(args: argparse.Namespace) -> "SigningKey | None":
    """Return the key that signs; Refused if it can't be used."""
    from aqueduct.store import signing

    return signing.signing_key(args.signing_key) if args.signing_key else None


def add_private_key(parser: argparse.ArgumentParser) -> None:
    """Add the option that opens what is encrypted."""
    parser.add_argument(
        "--private-key",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="private key of a recipient of an encrypted backup (mode 0600); may be repeated",
    )


def private_keys(args: argparse.Namespace) -> "tuple[ReceiverKey, ...]":
    """Return the private keys; Refused if one can't be used, or others may read its file."""
    if not args.private_key:
        return ()
    from aqueduct.common import keys

    return tuple(keys.load(keys.ReceiverKey, path) for path in args.private_key)


def public_keys(paths: "Iterable[Path]") -> "tuple[ReceiverPublicKey, ...]":
    """Return the public keys of recipients, of which a file may have several, a line each."""
    from aqueduct.common import keys

    return tuple(key for path in paths for key in keys.load_public(path))


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose records of a snapshot by their time, and instances of topics."""
    add = parser.add_argument
    add(
        "--from-time",
        metavar="TIME",
        type=timestamp_argument.parse,
        help="only records with this timestamp or a later one, such as 2026-01-31T18:00:00Z (RFC 3339) or "
        "1769882400000 (milliseconds since 1970)",
    )
    add(
        "--to-time",
        metavar="TIME",
        type=timestamp_argument.parse,
        help="only records with this timestamp or an earlier one",
    )
    add(
        "--instance",
        metavar="NAME",
        default="activate",
        help="instance of each topic: activate (current, default), passivate (previous) or g<number>, as "
        "`aqueduct snapshots` lists them",
    )


def window(args: argparse.Namespace) -> "Window":
    """Return the window of times; Refused if nothing can be in it."""
    from aqueduct.kafka.batches.cutting import Window

    asked = {"first_time": args.from_time, "last_time": args.to_time}
    given = {name: time for name, time in asked.items() if time is not None}
    if len(given) == 2 and args.from_time > args.to_time:
        raise Refused("time-window-empty", "--from-time is later than --to-time, so no record matches.")
    return Window(**given)


def add_at_least(parser: argparse.ArgumentParser) -> None:
    help_ = "fail if the snapshot is older than ID: detects that newer ones were removed from the store"
    parser.add_argument("--at-least", metavar="ID", type=selection.positive, help=help_)


def trust(args: argparse.Namespace) -> "Trust":
    """Return whose snapshots are believed; Refused if a key can't be used."""
    from aqueduct.store import signing

    keyed = args.trusted_key or getattr(args, "signing_key", None)
    if args.unsigned_before is not None and not keyed:
        raise Refused(
            "option-required",
            "--unsigned-before needs --trusted-key. Without it, no signature is checked.",
        )
    return signing.trust(args.trusted_key, args.unsigned_before or 1)


def add_rate_limit(parser: argparse.ArgumentParser) -> None:
    help_ = "limit of the whole run, in bytes per second; default: no limit"
    parser.add_argument("--rate-limit-bytes", metavar="N", type=selection.positive, help=help_)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the work is done, and where it is reported."""
    add_spark(parser)
    report_file.add_arguments(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add the options of Spark, which spark-submit has, too."""
    add = parser.add_argument
    add(
        "--master",
        metavar="URL",
        help="Spark master, such as spark://HOST:7077; default: this host, with Spark only if that is faster",
    )
    add(
        "--conf",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="Spark property, such as spark.executor.memory=2g; may be repeated",
    )
    add(
        "--wait",
        metavar="DURATION",
        type=duration.parse,
        default=EXECUTOR_SECONDS,
        help=f"maximum wait for the first executor of a Spark cluster; default {EXECUTOR_SECONDS:g}s",
    )


def add_metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=selection.whole(1, selection.PORTS[-1]),
        help="serve Prometheus metrics on this port of localhost; default: no metrics",
    )


def serve_metrics(
    args: argparse.Namespace, own: "Callable[[], Iterable[Metric]]", workers: "Workers"
) -> None:
    """Serve a verb's own metrics and Spark's, if they are wanted; Failed if the port is taken."""
    if args.metrics_port:
        from aqueduct.common import prometheus
        from aqueduct.work import metrics

        prometheus.serve(args.metrics_port, lambda: [*own(), *metrics.spark(workers.figures)])


def spark(args: argparse.Namespace) -> SparkOptions:
    """Return what was given of add_spark's options."""
    return SparkOptions(args.master, dict(args.conf), args.wait)


def _setting(text: str) -> tuple[str, str]:
    """Parse a setting of Spark, for argparse's `type`."""
    try:
        return setting(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
