"""Status of a MirrorMaker 2 flow, judged from what it leaves in the target cluster.

A dedicated MirrorMaker 2 that mirrors from SOURCE (KIP-382) keeps its state as Connect does, in three
compacted topics of the target: `mm2-status.SOURCE.internal` (what each connector and task last said about
itself), `mm2-configs.SOURCE.internal` (which tasks there are, and the partitions of each) and
`mm2-offsets.SOURCE.internal` (by partition, the offset of the last record that was mirrored). Its workers are
the members of the group `SOURCE-mm2`.

A worker that was killed leaves RUNNING behind for ever: a state counts only while the worker that reported it
is a member of the group. That they can be matched needs workers with an address of their own, so
`dedicated.mode.enable.internal.rest=true` (KIP-710).
"""

import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import Failed, identified, labelled
from aqueduct.kafka import transactions
from aqueduct.kafka.transactions import Search
from aqueduct.mirror.binding import Binding, PositionFit, PositionVerdict

SOURCE_CONNECTOR = "MirrorSourceConnector"
CHECKPOINT_CONNECTOR = "MirrorCheckpointConnector"
MOST_TASKS = 100_000  # of a connector; a record with more was not written by a worker


@dataclass(frozen=True, kw_only=True)
class MirrorStatus:
    """The last status that a connector (`task` None) or a task gave of itself."""

    connector: str
    task: int | None
    state: str  # RUNNING, FAILED, PAUSED, STOPPED, UNASSIGNED, RESTARTING
    worker: str  # host:port
    trace: str  # first line of the exception that made it fail

    def __str__(self) -> str:
        return _name(self.connector, self.task)


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """The tasks that the workers agreed to run."""

    counts: Mapping[str, int]  # by connector
    partitions: frozenset[TopicPartition]  # of the source, that the tasks mirror
    patterns: tuple[str, ...] = ()  # of topics, as the flow declares them
    group_patterns: tuple[str, ...] = ()  # of synchronised groups, likewise


@dataclass(frozen=True, kw_only=True)
class FlowTask:
    """A task of a flow, whatever its engine is. `worker`: where it runs or ran last; empty: nowhere yet."""

    name: str
    is_running: bool
    worker: str


@dataclass(frozen=True)
class WorkersGroup:
    """The workers' group: its state (DescribeGroups) and, while that is Stable, its members' host:port."""

    state: str
    workers: frozenset[str]


@dataclass(frozen=True)
class Log:
    """Offsets of a source partition: of its first record and after its last committed one."""

    start: int
    end: int


LOST, DOUBLED, TARGET_ONLY, MISFIT = "lost", "doubled", "target_only", "misfit"
# Offsets of a deleted topic of that name. `stop` is where its log ended when it was last read.
LOST_EARLIER = "lost_earlier"


@dataclass(frozen=True, kw_only=True)
class AffectedRange:
    """Source offsets, `stop` not inside, that did not arrive once."""

    partition: TopicPartition
    kind: str
    start: int
    stop: int
    at_most: bool  # an upper bound

    def __str__(self) -> str:
        if self.kind == LOST_EARLIER:
            known = f", at least up to {self.stop - 1}" if self.stop > self.start else ""
            return f"{self.partition} (from offset {self.start}{known})"
        most = "at most " if self.at_most else ""
        return f"{self.partition} ({most}offsets {self.start} to {self.stop - 1})"


@dataclass(frozen=True, kw_only=True)
class MirrorProgress:
    """The progress of a source partition. Offsets; `gone`: deleted there before they were mirrored."""

    partition: TopicPartition
    next: int
    log: Log
    drained: bool  # it was read on from `next` and holds no more records: only transaction markers

    @property
    def behind(self) -> int:
        """Offsets yet to be mirrored: records, and the markers of transactions among them."""
        return 0 if self.drained else max(0, self.log.end - self.first)

    @property
    def first(self) -> int:
        """Return the first offset yet to be mirrored."""
        return self.log.start if self.recreated else max(self.next, self.log.start)

    @property
    def gone(self) -> int:
        return max(0, self.log.start - self.next)

    @property
    def recreated(self) -> bool:
        """The log ends before what was mirrored of it: it is another log now, and has records."""
        return self.log.start < self.log.end < self.next


def parse_statuses(records: Mapping[bytes, bytes]) -> list[MirrorStatus]:
    """Parse the last value of each key of the status topic (Connect's KafkaStatusBackingStore)."""
    statuses = []
    for key, value in records.items():
        kind, _, rest = key.decode(errors="replace").removeprefix("status-").partition("-")
        if kind not in ("connector", "task"):
            continue
        connector, _, task = rest.rpartition("-") if kind == "task" else (rest, "", "")
        if kind == "task" and not task.isdecimal():  # no worker writes it
            continue
        content = _content(value)
        if not content:  # whatever has no status is a finding
            continue
        statuses.append(
            MirrorStatus(
                connector=connector,
                task=int(task) if task else None,
                state=str(content.get("state")),
                worker=str(content.get("worker_id")).partition("/")[0],
                trace=str(content.get("trace") or "").partition("\n")[0],
            )
        )
    return sorted(statuses, key=lambda status: (status.connector, -1 if status.task is None else status.task))


def parse_tasks(records: Mapping[bytes, bytes]) -> Tasks:
    """Parse the last value of each key of the configuration topic (KafkaConfigBackingStore).

    Failed if a record is unreadable: nobody knows then which tasks there should be.
    """
    commit, task = "commit-", f"task-{SOURCE_CONNECTOR}-"
    texts = {key.decode(errors="replace"): value for key, value in records.items()}
    counts = {
        key.removeprefix(commit): _number_of_tasks(key, value)
        for key, value in texts.items()
        if key.startswith(commit)
    }
    assigned = [  # tasks beyond the count are left over from when there were more
        _property(key, texts[key], "task.assigned.partitions")
        for key in (f"{task}{number}" for number in range(counts.get(SOURCE_CONNECTOR, 0)))
        if key in texts
    ]
    names = [name.rpartition("-") for names in assigned for name in names.split(",") if name]
    source, checkpoints = f"connector-{SOURCE_CONNECTOR}", f"connector-{CHECKPOINT_CONNECTOR}"
    topics = _property(source, texts[source], "topics") if source in texts else ""
    is_synchronised = (
        checkpoints in texts
        and _property(checkpoints, texts[checkpoints], "sync.group.offsets.enabled") == "true"
    )
    groups = _property(checkpoints, texts[checkpoints], "groups") if is_synchronised else ""
    return Tasks(
        counts=counts,
        partitions=frozenset(
            TopicPartition(topic, int(number)) for topic, _, number in names if number.isdecimal()
        ),
        patterns=_listed(topics),
        group_patterns=_listed(groups),
    )


def _listed(property_value: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, property_value.split(","))))


def _number_of_tasks(key: str, value: bytes) -> int:
    number = _content(value).get("tasks")
    if not isinstance(number, int) or not 0 <= number <= MOST_TASKS:
        raise _unreadable(key)
    return number


def _property(key: str, value: bytes, name: str) -> str:
    properties = _content(value).get("properties")
    if not isinstance(properties, dict):
        raise _unreadable(key)
    return str(properties.get(name, ""))


def _content(value: bytes) -> Mapping[str, Any]:
    """Parse the JSON object of a record; empty if the record has another form."""
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _unreadable(key: str) -> Failed:
    return Failed(
        "mirror-state-unreadable",
        f"MirrorMaker's record {key} in the config topic at the target cannot be read, so the tasks of the "
        "mirror are unknown. Restart the units of the mirror. The leader of the workers writes the record "
        "again.",
    )


def parse_worker(metadata: bytes) -> str:
    """Parse a worker's host:port from its member metadata: version (int16), URL (int16 length) (KIP-415).

    Empty: the member is no worker.
    """
    if len(metadata) < 4:
        return ""
    (length,) = struct.unpack_from(">h", metadata, 2)
    url = metadata[4 : 4 + max(0, length)].decode(errors="replace")
    return url.partition("://")[2].partition("/")[0]


def task_findings(
    source: str, group: WorkersGroup, statuses: Iterable[MirrorStatus], tasks: Tasks
) -> list[str]:
    """Return what doesn't run, a sentence each."""
    unit = f"mirror_maker@{source}"
    if not tasks.counts:
        return [no_state_finding(source)]
    if group.state in ("Empty", "Dead"):
        sentence = f"No worker of the mirror from {source} runs. Start {unit}, and read its journal."
        return [labelled("mirror-workers-missing", sentence)]
    if group.state != "Stable":
        sentence = (
            f"The workers of the mirror from {source} are rebalancing ({group.state}). No task runs "
            "until the rebalance has ended. Run the command again after one minute."
        )
        return [labelled("mirror-tasks-unassigned", sentence)]
    status_by_task = {(status.connector, status.task): status for status in statuses}
    findings = []
    for connector, number in sorted(tasks.counts.items()):
        for task in (None, *range(number)):
            name = _name(connector, task)
            status = status_by_task.get((connector, task))
            if status is None:
                findings.append(
                    labelled(
                        "mirror-task-missing",
                        f"{name} has not started. If it does not start within some minutes, restart {unit}.",
                    )
                )
            elif status.worker not in group.workers:
                findings.append(
                    labelled(
                        "mirror-worker-gone",
                        f"{name} does not run, because its worker {status.worker} does not run (running "
                        f"workers: {some(sorted(group.workers))}). If no other worker starts it within some "
                        f"minutes, start {unit} on the host of {status.worker}.",
                    )
                )
            elif status.state != "RUNNING":
                note = f" ({status.trace})" if status.trace else ""
                findings.append(
                    labelled(
                        "mirror-task-not-running",
                        f"{name} is in state {status.state} on {status.worker}{note}. If the state does not "
                        f"change within some minutes, restart {unit} on this host.",
                    )
                )
    if not tasks.counts.get(SOURCE_CONNECTOR):
        findings.append(
            labelled(
                "pattern-matches-nothing",
                f"{SOURCE_CONNECTOR} has no task, because no topic of {source} matches the patterns of the "
                "flow. Correct the patterns, or create the topics.",
            )
        )
    return findings


def flow_tasks(group: WorkersGroup, statuses: Iterable[MirrorStatus], tasks: Tasks) -> list[FlowTask]:
    """Return the tasks that the workers agreed to run. One runs only while its worker is in the group."""
    status_by_task = {(status.connector, status.task): status for status in statuses}
    planned = [(connector, task) for connector, number in tasks.counts.items() for task in range(number)]
    return [
        FlowTask(
            name=_name(connector, task),
            is_running=(
                status is not None
                and status.state == "RUNNING"
                and group.state == "Stable"
                and status.worker in group.workers
            ),
            worker=status.worker if status else "",
        )
        for connector, task in sorted(planned)
        for status in [status_by_task.get((connector, task))]
    ]


def tasks_report(tasks: Iterable[FlowTask] | None) -> list[dict[str, Any]] | None:
    """Return what JSON reports of a flow contain of its tasks; None: its engine has none that are known."""
    if tasks is None:
        return None
    return [{"task": task.name, "running": task.is_running, "worker": task.worker} for task in tasks]


def no_state_finding(source: str) -> str:
    return labelled(
        "mirror-state-missing",
        f"The target has no state of a mirror from {source}. Start mirror_maker@{source}, and read its "
        "journal.",
    )


def unmatched_finding(source: str, pattern: str) -> str:
    return labelled(
        "pattern-matches-nothing",
        f"{pattern} in the topics of the flow matches no whole topic name of {source}, so no topic is "
        "mirrored for this pattern. Correct the pattern, or create the topic.",
    )


def unmatched_group_finding(source: str, pattern: str) -> str:
    return labelled(
        "pattern-matches-nothing",
        f"{pattern} in the groups of the flow matches no whole name of a consumer group of {source}, so no "
        "group is synchronised for this pattern. Correct the pattern, or start the group so that it commits "
        "offsets.",
    )


def waiting_findings(source: str, findings: Sequence[str], search: Search) -> list[str]:
    """Return the findings about a mirror that does not run, with the open transactions that it waits for.

    A worker reads its internal topics to their ends before it joins its group. It cannot pass an open
    transaction, so starting or restarting it does not help while one hangs.
    """
    unknown = transactions.unknown_findings(search.unknown)
    if search.hanging:
        return [
            labelled(
                "mirror-waits-for-transaction",
                f"The mirror from {source} does not run, because a worker waits for open transactions in "
                "its internal topics before it starts. A restart of the worker does not help. End the "
                "hanging transactions as the next findings describe.",
            ),
            *(
                labelled("transaction-hanging", transactions.hanging_sentence(transaction))
                for transaction in search.hanging
            ),
            *unknown,
        ]
    waiting = [
        labelled(
            "mirror-waits-for-transaction",
            f"A worker of the mirror from {source} waits for the transaction of {owner.name} on "
            f"{txn.partition}, which broker {owner.coordinator} ends by {timestamps.text(owner.end_time)}. "
            "Wait until this time.",
        )
        for txn, owner in search.tracked
    ]
    return [*waiting, *findings, *unknown]


def hidden_partitions(
    partitions: Iterable[TopicPartition], progress: Iterable[MirrorProgress]
) -> list[TopicPartition]:
    """Return which of the mirrored `partitions` the source does not show. Their lag is not known."""
    return sorted(set(partitions) - {p.partition for p in progress})


def hidden_findings(source: str, hidden: Sequence[TopicPartition]) -> list[str]:
    """Return the finding about partitions that the source does not show, one sentence."""
    if not hidden:
        return []
    sentence = (
        f"{source} does not list {some(hidden)}. These partitions were deleted, have no leader, or the "
        "client may not describe their topics."
    )
    return [labelled("mirror-partition-hidden", sentence)]


def affected(
    partition: TopicPartition, bound: Binding | None, verdict: PositionVerdict, topic_id: str
) -> Iterator[AffectedRange]:
    """Yield the ranges of a partition that are lost, doubled, or in the target alone."""
    upper = verdict.at_most
    accepted = bound.doubled if bound and bound.topic_id == topic_id else ()
    spans = [(DOUBLED, span, False) for span in accepted]
    spans += [
        (kind, span, upper)
        for kind, span in ((LOST, verdict.lost), (TARGET_ONLY, verdict.target_only))
        if span
    ]
    # What would be doubled only by continuing elsewhere is not doubled yet.
    if verdict.doubled and verdict.resume is None:
        spans.append((DOUBLED, verdict.doubled, upper))
    for kind, (start, stop), at_most in spans:
        yield AffectedRange(partition=partition, kind=kind, start=start, stop=stop, at_most=at_most)
    if verdict.resume is not None and not (verdict.lost or verdict.target_only):
        start, stop = min(verdict.resume, verdict.next), max(verdict.resume, verdict.next)
        yield AffectedRange(partition=partition, kind=MISFIT, start=start, stop=stop, at_most=True)


def position_findings(source: str, ranges: Collection[AffectedRange]) -> list[str]:
    """Return what is wrong with the mirror's positions, a sentence for each kind."""
    unit = f"mirror_maker@{source}"
    again = f"Stop {unit} on every host, then start the unit. Before the unit mirrors records, it"
    sentences = {
        LOST: (
            f"The mirror skips records, because these topics were re-created or truncated at {source}: "
            f"{{}}. {again} corrects its position, so that the skipped records arrive."
        ),
        TARGET_ONLY: (
            f"Logs at {source} were truncated after their records had been mirrored, so only the target has "
            f"these records: {{}}. {again} sets its position to the new end of the log."
        ),
        MISFIT: (
            f"The positions of the mirror belong to deleted topics or truncated logs at {source}, and are "
            f"beyond the present ends: {{}}. {again} corrects its position, so that every new record "
            "arrives."
        ),
        DOUBLED: (
            "The target has or will have these source records twice: {}. Remove the duplicates at the "
            "target. Then run this command with --accept-ranges."
        ),
    }
    return [
        labelled("mirror-ranges-listed", sentence.format(some(mine)))
        for kind, sentence in sentences.items()
        if (mine := [affected_range for affected_range in ranges if affected_range.kind == kind])
    ]


def unknown_groups(source: str, topics: Collection[str]) -> list[str]:
    """Return that the offsets of synchronised groups in re-created or truncated topics are not known to fit.

    MirrorMaker commits them at the target by the offset syncs of a topic name, which may be of the earlier
    topic. The groups' offsets in that topic are gone, so nothing shows which records they had read.
    """
    if not topics:
        return []
    return [
        labelled(
            "synchronised-groups-unchecked",
            f"The offsets that the mirror from {source} has committed at the target for consumer groups of "
            f"{some(sorted(topics))} were not checked, and may belong to a deleted topic. Before a group "
            "continues at the target, compare its offsets at both ends. Then run this command with "
            "--accept-ranges.",
        )
    ]


def workers_in_the_way(source: str, group: WorkersGroup, partitions: Iterable[TopicPartition]) -> str:
    alive = f"on {some(sorted(group.workers))}" if group.workers else f"({group.state})"
    return (
        f"The positions of {some(sorted(partitions))} do not fit the present topics, but workers of the "
        f"mirror from {source} run {alive}. Nothing was changed. Stop mirror_maker@{source} on every host, "
        "then start it again."
    )


def moves_made(verdicts: Mapping[TopicPartition, PositionVerdict]) -> list[str]:
    """Return where stopped workers will continue, a sentence for each partition."""
    causes = {
        PositionFit.UNBOUND: "is beyond the end of the log, and its topic is unknown",
        PositionFit.RECREATED: "belongs to a topic that was deleted and re-created",
        PositionFit.CUT: "belongs to a log that was truncated",
    }
    sentences = []
    for partition, verdict in sorted(verdicts.items()):
        twice = ""
        if verdict.doubled:
            first, stop = verdict.doubled
            most = "at most " if verdict.at_most else ""
            twice = f" Offsets {first} to {stop - 1} arrive twice ({most}{count(stop - first, 'offset')})."
        sentences.append(
            f"{partition}: the position {verdict.next} {causes.get(verdict.fit, 'does not fit')}. The "
            f"mirror continues at offset {verdict.resume}.{twice}"
        )
    return sentences


def recreated_findings(source: str, progress: Iterable[MirrorProgress]) -> list[str]:
    """Return which logs end before what a classic mirror has read of them, one sentence."""
    recreated = sorted((p for p in progress if p.recreated), key=_by_partition)
    if not recreated:
        return []
    ends = (f"{p.partition} (position {p.next}, end of the log {p.log.end})" for p in recreated)
    return [
        labelled(
            "mirror-topic-recreated",
            f"Deleted and re-created at {source}: {some(ends)}. Restart mirror_maker@{source} before the "
            "new log reaches the position. Otherwise, the mirror skips records of the new log.",
        )
    ]


def loss_findings(source: str, progress: Iterable[MirrorProgress]) -> list[str]:
    """Return what the source's retention deleted before it was mirrored, one sentence."""
    gone = [p for p in sorted(progress, key=_by_partition) if p.gone]
    named = (f"{p.partition} ({count(p.gone, 'offset')} from {p.next})" for p in gone)
    if not gone:
        return []
    return [
        labelled(
            "mirror-records-lost",
            f"{source} deleted records before they were mirrored: {some(named)}. Increase the retention at "
            "the source.",
        )
    ]


def lag_findings(progress: Iterable[MirrorProgress]) -> list[str]:
    """Return what isn't mirrored yet, one sentence."""
    behind = [p for p in sorted(progress, key=_by_partition) if p.behind]
    named = (f"{p.partition} ({count(p.behind, 'record')})" for p in behind)
    return [labelled("mirror-behind", f"Not caught up: {some(named)}.")] if behind else []


def unfinished_finding(behind: int) -> str:
    """Return the finding about a run that was ended before all was mirrored that there was at its start."""
    return labelled(
        "mirror-behind",
        "The run was ended before it had mirrored all records that the source had at the start of the run. "
        f"{count(behind, 'offset')} were not mirrored. Run the command again.",
    )


def report(
    findings: list[str],
    progress: Iterable[MirrorProgress],
    lost: Iterable[MirrorProgress],
    ranges: Iterable[AffectedRange],
    ages: Mapping[TopicPartition, float] | None = None,
    *,
    hidden: Iterable[TopicPartition] = (),
) -> dict[str, Any]:
    """Return what JSON reports of a flow contain, whatever its engine is.

    `findings` are sentences after their identifiers; `problems` has the same ones as objects.
    `ages`: seconds since the first record was written that a partition is behind by; the report has null for
    the others. `hidden`: mirrored partitions that the source does not show; all their figures are null.
    """
    entries = {
        p.partition: {
            "from": p.log.start,
            "to": p.log.end,
            "next": p.next,
            "behind": p.behind,
            "seconds": (ages or {}).get(p.partition) if p.behind else 0.0,
        }
        for p in progress
    } | {partition: dict.fromkeys(("from", "to", "next", "behind", "seconds")) for partition in hidden}
    return {
        "findings": findings,
        "problems": identified(findings),
        "ranges": [
            {
                "topic": affected.partition.topic,
                "partition": affected.partition.partition,
                "kind": affected.kind,
                "from": affected.start,
                "to": affected.stop,
                "at_most": affected.at_most,
            }
            for affected in ranges
        ],
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition, **figures}
            for partition, figures in sorted(entries.items())
        ],
        "gaps": [
            {
                "topic": p.partition.topic,
                "partition": p.partition.partition,
                "from": p.next,
                "to": p.log.start,
            }
            for p in sorted(lost, key=lambda p: p.partition)
        ],
    }


def _by_partition(progress: MirrorProgress) -> TopicPartition:
    return progress.partition


def _name(connector: str, task: int | None) -> str:
    return connector if task is None else f"Task {task} of {connector}"
