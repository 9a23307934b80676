"""Show the lag of consumer groups, in records and in seconds, and whether they keep up.

The command reads the offsets of the groups several times within --window, and evaluates them as Burrow does:

  ok              the group has read everything at some time of the window, or its lag does not grow
  falling behind  the group reads, and its lag grows
  stuck           the group has members and unread records, and its offset does not move
  stopped         the group has no members and unread records, and its offset does not move

If no group lags, the command reads the offsets once. The lag in seconds is the age of the oldest unread
record. Use a window that is longer than the commit interval of the consumers: 5 seconds by default, 60 for
sinks of Kafka Connect.

A group, a partition or a coordinator that does not answer is unknown, and never ok.

Permissions: ACL Describe on the groups and on __consumer_offsets, and Read on the groups' topics. A broker
does not return offsets of topics for which the client lacks Describe: the command cannot report them.

Exit code: 0 all groups are ok; 3 a group is not ok, or a state is unknown; 1 the cluster does not answer; 2
the arguments are not valid.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from aqueduct.cli import common, duration, selection
from aqueduct.common.wording import count, shortened
from aqueduct.errors import ExitCode, labelled, left_out_entries
from aqueduct.kafka import client_config
from aqueduct.kafka.client import connect
from aqueduct.kafka.group_lag import RANKS, GroupLag, LagState
from aqueduct.kafka.group_reading import GroupLags, LagSelection, group_lags

CLIENT = "aqueduct-groups"
WINDOW_SECONDS = 30
PATIENCE_SECONDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    common.add_cluster(parser)
    add(
        "--group",
        metavar="NAME",
        action="append",
        default=[],
        help="only this group; may be repeated; default: all groups that the client can describe",
    )
    add(
        "--exclude",
        metavar="REGEX",
        type=selection.pattern,
        help="exclude groups whose whole names match, such as aqueduct-backup-.*",
    )
    add(
        "--window",
        metavar="DURATION",
        type=duration.parse,
        default=WINDOW_SECONDS,
        help="time for which lagging groups are observed, such as 2m; default 30s",
    )
    add(
        "--patience",
        metavar="SECONDS",
        type=selection.positive,
        default=PATIENCE_SECONDS,
        help="time limit for retries if a broker does not answer; default 10",
    )
    add("--json", action="store_true", help="print JSON for programs, with each partition")


def run(args: argparse.Namespace) -> int:
    end = client_config.end("cluster", args.bootstrap_server, args.command_config)
    chosen = LagSelection(names=frozenset(args.group), excluded=args.exclude)
    with connect(end, CLIENT, timeout_seconds=args.patience, patience_seconds=args.patience) as client:
        lags = group_lags(client, chosen, args.window)
    worst_first = sorted(lags.groups, key=lambda group: (-RANKS[group.state], group.name))
    if args.json:
        print(json.dumps(_document(lags, worst_first), indent=2))
    else:
        print(_table(worst_first, lags))
    for sentence in _sentences(worst_first, lags):
        print(f"aqueduct: {sentence}", file=sys.stderr)
    is_well = not lags.unknown and all(group.state == LagState.OK for group in lags.groups)
    return ExitCode.DONE if is_well else ExitCode.INCOMPLETE


def _table(groups: Iterable[GroupLag], lags: GroupLags) -> str:
    rows = [("group", "state", "lag", "seconds", "members")]
    rows += [
        (
            shortened(group.name),
            group.state.value,
            "unknown" if group.lag is None else f"{group.lag:,}",
            "unknown" if group.seconds is None else f"{group.seconds:,.1f}",
            "yes" if group.has_members else "no",
        )
        for group in groups
    ]
    name, state, lag, seconds = (max(len(row[column]) for row in rows) for column in range(4))
    lines = [
        f"{row[0]:<{name}}  {row[1]:<{state}}  {row[2]:>{lag}}  {row[3]:>{seconds}}  {row[4]}" for row in rows
    ]
    return "\n".join([*lines, f"{count(len(rows) - 1, 'group')}, observed for {lags.seconds:.0f} s."])


def _sentences(groups: Iterable[GroupLag], lags: GroupLags) -> list[str]:
    """Return a sentence about each group that is not ok, and about what is unknown."""
    sentences = []
    for group in groups:
        for reason in group.unknown:
            sentences.append(labelled("group-lag-unknown", f"Group {group.name}: {reason}."))
        if group.state not in (LagState.OK, LagState.UNKNOWN) or (
            group.state == LagState.UNKNOWN and not group.unknown
        ):
            partitions = sum(partition.state == group.state for partition in group.partitions)
            sentence = f"Group {group.name} is {group.state.value} in {count(partitions, 'partition')}."
            sentences.append(_labelled(group.state, sentence))
        if expired := sum(partition.expired for partition in group.partitions):
            sentence = f"The topics of group {group.name} have deleted {count(expired, 'unread record')}."
            sentences.append(labelled("group-records-expired", sentence))
    return [*sentences, *(f"{skipped}." for skipped in lags.unknown)]


def _labelled(state: LagState, sentence: str) -> str:
    return labelled(
        "group-stopped"
        if state == LagState.STOPPED
        else "group-stuck"
        if state == LagState.STUCK
        else "group-falling-behind"
        if state == LagState.FALLING_BEHIND
        else "group-lag-unknown",
        sentence,
    )


def _document(lags: GroupLags, groups: Iterable[GroupLag]) -> dict[str, Any]:
    return {
        "window_seconds": round(lags.seconds, 1),
        "groups": [
            {
                "name": group.name,
                "state": group.state.value,
                "has_members": group.has_members,
                "lag": group.lag,
                "seconds": group.seconds,
                "unknown": list(group.unknown),
                "partitions": [
                    {
                        "topic": partition.partition.topic,
                        "partition": partition.partition.partition,
                        "state": partition.state.value,
                        "offset": partition.offset,
                        "lag": partition.lag,
                        "seconds": partition.seconds,
                        "expired": partition.expired,
                    }
                    for partition in group.partitions
                ],
            }
            for group in groups
        ],
        "unknown": left_out_entries(lags.unknown),
    }
