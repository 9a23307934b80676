"""Find hanging transactions, and abort or commit them, as kafka-transactions.sh does.

A transaction hangs on a partition if its coordinator will not end it there. Read-committed consumers
cannot read beyond it; neither can MirrorMaker, when it reads its positions. No timeout applies.

find-hanging compares the open transactions of the partition leaders with the state of the coordinators. It
reports when a transaction began, which groups wait for it, and whether the coordinator had committed it.

abort ends a transaction on one partition: its records there are never delivered. commit delivers them; it
is refused unless the coordinator had committed the transaction, and abort is refused if it had. Both refuse
a transaction that its coordinator will end.

finish ends each hanging transaction as its coordinator had decided, if no producer uses its epoch any more.
It reports all others and does not end them. In an estate, the host of each broker runs it every two minutes
for the partitions that the broker leads.

Without --execute, finish, abort and commit print what they would do and write nothing.

Required ACLs: Read on the topics and on __transaction_state; Describe on TransactionalId, Group and Cluster;
for finish, abort and commit, also Alter on Cluster.

Exit codes of find-hanging and finish:
  0  no transaction hangs (any more)
  1  no broker answers
  2  an argument cannot be used
  3  a transaction hangs, or it is unknown whether one does

Exit codes of abort and commit:
  0  done; without --execute: possible
  1  failed
  2  refused; nothing was written
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kafka.errors import KafkaError

from aqueduct.cli import common, report_file, selection
from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import ExitCode, Failed, Refused, Skipped, identified, left_out_entries
from aqueduct.kafka import client_config, transactions
from aqueduct.kafka.admin import transactions as asking
from aqueduct.kafka.admin.cluster import describe_cluster, silence
from aqueduct.kafka.admin.features import features
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.cluster import Cluster, Partition
from aqueduct.kafka.transactions import HangingTransaction, Outcome, Search

CLIENT = "aqueduct-transactions"
FEATURE = "transaction.version"
EXECUTE = "write the transaction markers; default: only print what would be done"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    hanging = commands.add_parser("find-hanging", help="list hanging transactions")
    common.add_cluster(hanging)
    hanging.add_argument(
        "--topic",
        metavar="NAME",
        action="append",
        help="search only this topic; may be repeated; default: all topics",
    )
    hanging.add_argument(
        "--partition",
        metavar="N",
        type=selection.whole(0),
        action="append",
        help="search only this partition of the topics; may be repeated; default: all partitions",
    )
    report_file.add_arguments(hanging)
    hanging.set_defaults(run=_find_hanging)
    finishing = commands.add_parser("finish", help="end hanging transactions as their coordinators decided")
    common.add_cluster(finishing)
    finishing.add_argument(
        "--leader",
        metavar="ID",
        type=selection.whole(0),
        help="search only the partitions that this broker leads; default: all partitions",
    )
    finishing.add_argument("--execute", action="store_true", help=EXECUTE)
    finishing.set_defaults(run=_finish)
    for outcome, help_ in (
        (Outcome.ABORT, "end a hanging transaction; its records are never delivered"),
        (Outcome.COMMIT, "end a hanging transaction that its coordinator had committed"),
    ):
        ending = commands.add_parser(outcome.value, help=help_)
        common.add_cluster(ending)
        add = ending.add_argument
        add("--topic", metavar="NAME", required=True, help="topic on which the transaction hangs")
        add(
            "--partition",
            metavar="N",
            type=selection.whole(0),
            required=True,
            help="partition on which the transaction hangs",
        )
        add(
            "--start-offset",
            metavar="N",
            type=selection.whole(0),
            required=True,
            help="first offset of the transaction, as find-hanging reports it",
        )
        add("--execute", action="store_true", help=EXECUTE)
        ending.set_defaults(run=_end, outcome=outcome)


def _find_hanging(args: argparse.Namespace) -> ExitCode:
    started = datetime.now(UTC)
    with connect(_cluster(args), CLIENT) as client:
        search = _search(client, args.topic, args.partition)
    lines = transactions.findings(search, timestamps.now())
    for sentence in lines or ["No transaction hangs."]:
        print(sentence)
    code = ExitCode.INCOMPLETE if lines else ExitCode.DONE
    if report_file.is_requested(args):
        content = {
            "findings": identified(lines),
            "hanging": [_entry(transaction) for transaction in search.hanging],
            "left_out": left_out_entries(search.unknown),
        }
        report_file.deliver(args, "transactions find-hanging", code, started, content)
    return code


def _finish(args: argparse.Namespace) -> ExitCode:
    with connect(_cluster(args), CLIENT) as client:
        state = describe_cluster(client)
        led = [partition for partition in state.partitions if args.leader in (None, partition.leader)]
        search = _find(client, state, led)
        decided = [transaction for transaction in search.hanging if transaction.can_be_finished]
        finished = set(_finished(client, decided)) if args.execute else set()
    left = tuple(transaction for transaction in search.hanging if transaction not in finished)
    lines = transactions.findings(replace(search, hanging=left), timestamps.now())
    for sentence in lines or ([] if finished else ["No transaction hangs."]):
        print(sentence)
    if decided and not args.execute:
        print(f"Nothing was written. Add --execute to end {count(len(decided), 'transaction')} as decided.")
    return ExitCode.INCOMPLETE if lines else ExitCode.DONE


def _finished(client: Client, decided: Iterable[HangingTransaction]) -> Iterator[HangingTransaction]:
    """End transactions as their coordinators decided; yield those that are ended, and say which are not."""
    level = _transaction_version(client)
    for transaction in decided:
        try:
            asking.end(client, transaction, transaction.outcome, level)
        except Failed as error:
            print(error.labelled)
        except KafkaError as error:
            print(f"{transaction.found.partition}: its leader refused the marker: {error}")
        else:
            print(transactions.finished_sentence(transaction))
            yield transaction


def _transaction_version(client: Client) -> int:
    feature = features(client).get(FEATURE)
    return feature.level if feature else 0


def _silent(client: Client, state: Cluster) -> list[int]:
    return [node for node in sorted(state.brokers) if silence(client, node)]


def _search(
    client: Client, topics: Iterable[str] | None = None, partitions: Iterable[int] | None = None
) -> Search:
    """Search a cluster; Refused if one of the named topics or partitions does not exist."""
    state = describe_cluster(client)
    topic_names = set(topics) if topics else {partition.topic for partition in state.partitions}
    numbers = set(partitions or ())
    existing = {partition.topic for partition in state.partitions}
    if missing := sorted(topic_names - existing):
        raise Refused(
            "topic-unknown",
            f"The cluster has no topic {', '.join(missing)}, or the client may not describe it.",
        )
    for number in sorted(numbers):
        if not any(
            partition.topic in topic_names and partition.number == number for partition in state.partitions
        ):
            raise Refused(
                "partition-unknown", f"No partition {number} exists in {', '.join(sorted(topic_names))}."
            )
    chosen = [
        partition
        for partition in state.partitions
        if partition.topic in topic_names and (not numbers or partition.number in numbers)
    ]
    return _find(client, state, chosen)


def _find(client: Client, state: Cluster, partitions: Iterable[Partition]) -> Search:
    """Search these partitions of a cluster. Whether topics that it hides have any is unknown."""
    search = asking.find(client, partitions, silent=_silent(client, state))
    if not state.hides_topics:
        return search
    reason = "it shows this client no topic (ACL Describe on Topic)"
    hidden = Skipped("the topics of this cluster", reason, "transaction-search-incomplete")
    return replace(search, unknown=(*search.unknown, hidden))


def _entry(hung: HangingTransaction) -> dict[str, Any]:
    return {
        "topic": hung.found.partition.topic,
        "partition": hung.found.partition.partition,
        "start_offset": hung.found.start_offset,
        "end_offset": hung.end,
        "since": timestamps.text(hung.start_time),
        "producer_id": hung.found.producer_id,
        "producer_epoch": hung.found.producer_epoch,
        "coordinator_epoch": hung.found.coordinator_epoch,
        "transactional_id": hung.transactional_id.name if hung.transactional_id else None,
        "decided": hung.decision.outcome.value if hung.decision else None,
        "waiting": list(hung.readers),
    }


def _end(args: argparse.Namespace) -> ExitCode:
    outcome: Outcome = args.outcome
    partition = TopicPartition(args.topic, args.partition)
    with connect(_cluster(args), CLIENT) as client:
        transaction = _chosen(_search(client, [args.topic], [args.partition]), partition, args.start_offset)
        _refuse(transaction, outcome)
        print(transactions.hanging_sentence(transaction))
        if not args.execute:
            print(f"Nothing was written. Add --execute to {outcome.value} it.")
            return ExitCode.DONE
        asking.end(client, transaction, outcome, _transaction_version(client))
    print(f"The transaction on {partition} is {outcome.done}.")
    if outcome is Outcome.ABORT:
        print(
            f"Its records among {count(transaction.end - args.start_offset, 'offset')} are never delivered."
        )
    return ExitCode.DONE


def _chosen(search: Search, partition: TopicPartition, start: int) -> HangingTransaction:
    """Return the hanging transaction that was asked for, else Refused with the reason."""
    for transaction in search.hanging:
        if transaction.found.start_offset == start:
            return transaction
    for open_, owner in search.tracked:
        if open_.start_offset == start:
            raise Refused(
                "transaction-not-hanging",
                f"The transaction on {partition} does not hang: {owner.name} is in state {owner.state}, and "
                f"its coordinator, broker {owner.coordinator}, ends it by {timestamps.text(owner.end_time)}. "
                "Wait for that, or stop its producer. Nothing was written.",
            )
    if search.unknown:
        unknown = " ".join(transactions.unknown_sentences(search.unknown))
        raise Refused("transaction-search-incomplete", f"{unknown} Nothing was written.")
    others = ", ".join(str(transaction.found.start_offset) for transaction in search.hanging) or "none"
    raise Refused(
        "transaction-unknown",
        f"No transaction that begins at offset {start} is open on {partition}; start offsets of hanging ones "
        f"there: {others}. Run `aqueduct transactions find-hanging`. Nothing was written.",
    )


def _refuse(hung: HangingTransaction, outcome: Outcome) -> None:
    if not hung.decisions_read:
        raise Refused(
            "transaction-decision-unknown",
            f"The coordinator may have committed the transaction on {hung.found.partition}, and the client "
            f"may not read {transactions.STATE_TOPIC}. Use a client with the ACL Read on that topic. Nothing "
            "was written.",
        )
    if outcome is not hung.outcome:
        decided = "had committed" if hung.outcome is Outcome.COMMIT else "is not known to have committed"
        remedy = "loses acknowledged records" if outcome is Outcome.ABORT else "delivers records of no commit"
        raise Refused(
            "transaction-decided-otherwise",
            f"The coordinator {decided} the transaction on {hung.found.partition}: to {outcome.value} it "
            f"{remedy}. Run `{hung.command}`. Nothing was written.",
        )


def _cluster(args: argparse.Namespace) -> client_config.End:
    return client_config.end("cluster", args.bootstrap_server, args.command_config)
