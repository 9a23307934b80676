"""Read how far a classic MirrorMaker is: its group, and the logs, of a source that may be as old as 0.10.

By kafka-python's own consumer, which speaks such brokers' versions; `kafka.client` wants newer ones.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import GroupAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from aqueduct.common.topic_names import TopicPartition, unmatched_parts
from aqueduct.errors import Refused
from aqueduct.kafka import addresses, groups
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.client_errors import RECONNECT, answering, reaching
from aqueduct.mirror import classic, classic_binding, status
from aqueduct.mirror.binding import UNKNOWN_TOPIC, Binding, SourceLog
from aqueduct.mirror.classic_binding import BoundPosition, PositionState
from aqueduct.mirror.positions import source_logs
from aqueduct.mirror.reading import CONNECT_SECONDS, TAIL_OFFSETS, TAIL_SECONDS
from aqueduct.mirror.status import AffectedRange, Log, MirrorProgress

TRANSACTIONS_SINCE = (0, 11)  # KIP-98
TOPIC_IDS_SINCE = (2, 8)  # KIP-516
READING: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}


@dataclass(frozen=True, kw_only=True)
class CheckedPosition:
    """The position of a source partition, None if its group has committed none, and what a check found."""

    position: int | None
    log: SourceLog
    state: PositionState

    @property
    def next(self) -> int:
        return self.log.start if self.position is None else self.position


class ClassicReader:
    """The flow from `source`: of topics like `pattern` there, whose names get `prefix` at the target."""

    def __init__(
        self, source: str, pattern: re.Pattern[str], prefix: str, clients: "Clients", target: Client
    ) -> None:
        self.source = source
        self._pattern, self._prefix = pattern, prefix
        self._clients, self._target = clients, target
        self._progress: list[MirrorProgress] = []
        self._mirrored: frozenset[str] = frozenset()  # topics of the last look
        self._checked: dict[TopicPartition, CheckedPosition] = {}
        self._unchecked: list[TopicPartition] = []
        self._at_target: Mapping[str, int] = {}  # partitions of topics
        self.hidden: list[TopicPartition] = []  # that the source did not show at the last look

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        """Return what does not run or cannot be read, and how far each partition is."""
        clients, group = self._clients, self._clients.group
        with answering(clients.end.bootstrap_servers):
            partitions = self._partitions()
            committed = self._committed(partitions)
            progress = classic.progress(committed, self._logs(partitions))
            progress = self._without_markers(progress)
            # Where no group ever was, the consumer has waited for the coordinator; this doesn't.
            state = clients.admin.describe_groups([group])[group]["group_state"] if partitions else "Stable"
        with answering(self._target.end.bootstrap_servers):
            at_source = Counter(topic for topic, _ in partitions)
            self._mirrored = frozenset(at_source)
            topics = self._target.topics(self._prefix + topic for topic in at_source)
            bindings = self._bindings()
        self._at_target = at_target = {name: len(topic.partitions) for name, topic in topics.items()}
        self._check(committed, bindings, is_running=state not in ("Empty", "Dead"))
        findings = classic.group_findings(self.source, group, state)
        findings += classic.topic_findings(self.source, self._prefix, at_source, at_target)
        self._progress = progress
        self.hidden = status.hidden_partitions(partitions, progress)
        return findings + status.hidden_findings(self.source, self.hidden), progress

    def position_findings(self) -> list[str]:
        """Return which positions do not fit their topics, as the last look found them."""
        outdated = self._outdated()
        findings = classic.outdated_findings(self.source, outdated)
        others = [progress for progress in self._progress if progress.partition not in outdated]
        return findings + status.recreated_findings(self.source, others)

    def unbound(self) -> list[str]:
        """Return which positions the last look could not check."""
        return classic.unbound(self.source, self._unchecked)

    def ranges(self) -> list[AffectedRange]:
        """Return the ranges of re-created or truncated logs that the mirror may have skipped."""
        spans = {
            partition: (checked.log.start, min(checked.next, checked.log.end))
            for partition, checked in self._outdated().items()
        }
        return [
            AffectedRange(partition=partition, kind=status.LOST, start=start, stop=stop, at_most=True)
            for partition, (start, stop) in sorted(spans.items())
            if start < stop
        ]

    def renew(self, *, accept: bool = False) -> None:
        """Bind the positions of the last look to their topics; `accept`: those that are outdated, too."""
        bindings = {
            TopicPartition(self._prefix + partition.topic, partition.partition): (
                checked.next,
                BoundPosition(
                    topic_id=checked.log.topic_id, next=checked.next, epoch=checked.log.epoch
                ).dumps(),
            )
            for partition, checked in self._checked.items()
            if checked.log.topic_id != UNKNOWN_TOPIC
            and (accept or checked.state is not PositionState.OUTDATED)
            and partition.partition < self._at_target.get(self._prefix + partition.topic, 0)
        }
        if bindings:
            with answering(self._target.end.bootstrap_servers):
                groups.commit(self._target, self._bindings_group, bindings)

    def unmatched(self, _: Callable[[Iterable[str], Collection[str]], list[str]]) -> list[str]:
        """Return the parts of the pattern that match no topic that was mirrored in the last look."""
        if not self._mirrored:
            return []  # a finding of the look says so
        return unmatched_parts(self._pattern.pattern, self._mirrored)

    def begin_at_ends(self) -> int:
        """Give a group without a position the logs' ends; return how many. Refused without a topic."""
        with answering(self._clients.end.bootstrap_servers):
            partitions = self._partitions()
            if not partitions:
                raise Refused(
                    "pattern-matches-nothing",
                    f"No topic of {self.source} matches the patterns of the flow, so the mirror cannot "
                    "begin at the end of these topics. Create the topics first, or begin at the earliest "
                    "offsets.",
                )
            if any(offset is not None for offset in self._committed(partitions).values()):
                return 0
            consumer = self._clients.consumer
            ends = consumer.end_offsets(_theirs(partitions))
            consumer.assign(list(ends))
            consumer.commit({partition: OffsetAndMetadata(end, "", -1) for partition, end in ends.items()})
            return len(ends)

    def _partitions(self) -> list[TopicPartition]:
        consumer = self._clients.consumer
        names = sorted(filter(self._pattern.fullmatch, consumer.topics()))
        return [
            TopicPartition(name, number) for name in names for number in consumer.partitions_for_topic(name)
        ]

    @property
    def _bindings_group(self) -> str:
        return classic_binding.bindings_group(self._clients.group)

    def _bindings(self) -> dict[TopicPartition, BoundPosition]:
        """Return the bindings by source partition; none if the client may not read them."""
        try:
            offsets = groups.committed(self._target, [self._bindings_group])[self._bindings_group]
        except GroupAuthorizationFailedError:
            return {}
        return {
            TopicPartition(partition.topic.removeprefix(self._prefix), partition.partition): bound
            for partition, (_, metadata) in offsets.items()
            if partition.topic.startswith(self._prefix) and (bound := classic_binding.loads(metadata))
        }

    def _check(
        self,
        committed: Mapping[TopicPartition, int | None],
        bindings: Mapping[TopicPartition, BoundPosition],
        *,
        is_running: bool,
    ) -> None:
        """Check every position. They were read before the logs are."""
        logs = self._source_logs(committed, bindings)
        self._checked = {
            partition: CheckedPosition(
                position=committed[partition],
                log=log,
                state=classic_binding.check(
                    committed[partition], bindings.get(partition), log, is_running=is_running
                ),
            )
            for partition, log in logs.items()
        }
        without_log = [
            partition
            for partition, position in committed.items()
            if position is not None and partition not in logs
        ]
        self._unchecked = without_log + [
            partition
            for partition, checked in self._checked.items()
            if checked.state is PositionState.UNCHECKED
        ]

    def _source_logs(
        self, partitions: Collection[TopicPartition], bindings: Mapping[TopicPartition, BoundPosition]
    ) -> dict[TopicPartition, SourceLog]:
        """Return the logs with the ids of their topics; none of a source that has no topic ids."""
        if self._clients.with_ids is None:
            return {}
        prior = {
            partition: Binding(topic_id=bound.topic_id, next=bound.next, epoch=bound.epoch)
            for partition, bound in bindings.items()
        }
        with answering(self._clients.end.bootstrap_servers):
            return source_logs(
                self._clients.with_ids, {partition: prior.get(partition) for partition in partitions}
            )

    def _outdated(self) -> dict[TopicPartition, CheckedPosition]:
        return {
            partition: checked
            for partition, checked in self._checked.items()
            if checked.state is PositionState.OUTDATED
        }

    def _committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        return {
            partition: self._clients.consumer.committed(kafka.TopicPartition(*partition))
            for partition in partitions
        }

    def _logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Log]:
        asked = _theirs(partitions)
        starts = self._clients.consumer.beginning_offsets(asked)
        ends = self._clients.consumer.end_offsets(asked)
        return {TopicPartition(*partition): Log(starts[partition], ends[partition]) for partition in asked}

    def _without_markers(self, progress: Collection[MirrorProgress]) -> list[MirrorProgress]:
        """Find out which partitions hold only transactions' markers from the next offset to their end."""
        consumer = self._clients.consumer
        tails = {
            kafka.TopicPartition(*mirrored.partition): mirrored.log
            for mirrored in progress
            if self._clients.has_transactions
            and not mirrored.recreated
            and 0 < mirrored.behind <= TAIL_OFFSETS
        }
        consumer.assign(list(tails))
        for mirrored in progress:
            if mirrored.partition in tails:
                consumer.seek(
                    kafka.TopicPartition(*mirrored.partition), max(mirrored.next, mirrored.log.start)
                )
        drained: set[kafka.TopicPartition] = set()
        deadline = time.monotonic() + TAIL_SECONDS
        while tails and time.monotonic() < deadline:
            for partition in consumer.poll(timeout_ms=100):
                tails.pop(partition, None)
            drained |= {
                partition for partition, log in tails.items() if consumer.position(partition) >= log.end
            }
            tails = {partition: log for partition, log in tails.items() if partition not in drained}
        return [replace(mirrored, drained=mirrored.partition in drained) for mirrored in progress]


def _theirs(partitions: Collection[TopicPartition]) -> list[kafka.TopicPartition]:
    return [kafka.TopicPartition(*partition) for partition in partitions]


@dataclass(frozen=True, kw_only=True)
class Clients:
    """kafka-python's clients of the source. `opened` makes and closes them."""

    end: End
    group: str
    admin: KafkaAdminClient
    consumer: KafkaConsumer
    with_ids: Client | None = None  # a client that reads topic ids; None: the source has none

    @property
    def has_transactions(self) -> bool:
        return bool(self.consumer.config["api_version"] >= TRANSACTIONS_SINCE)


@contextmanager
def opened(end: End, group: str, client_id: str) -> Iterator[Clients]:
    """Yield clients of a source; Failed if no broker answers."""
    settings: dict[str, Any] = {
        "bootstrap_servers": end.bootstrap_servers.split(","),
        "client_id": client_id,
        "bootstrap_timeout_ms": CONNECT_SECONDS * 1000,
        "kafka_client": addresses.client,
        **RECONNECT,
        **end.client_config.kafka_python(),
    }
    with ExitStack() as stack:

        def consumer(isolation: str) -> KafkaConsumer:
            with reaching(end.bootstrap_servers, CONNECT_SECONDS):
                made = KafkaConsumer(group_id=group, isolation_level=isolation, **READING, **settings)
            stack.callback(made.close, autocommit=False)
            return made

        with reaching(end.bootstrap_servers, CONNECT_SECONDS):
            admin = stack.enter_context(closing(KafkaAdminClient(**settings)))
        # Older brokers know of no transactions, and refuse to be asked for what was committed.
        clients = Clients(end=end, group=group, admin=admin, consumer=consumer("read_uncommitted"))
        if clients.has_transactions:
            clients = replace(clients, consumer=consumer("read_committed"))
        if clients.consumer.config["api_version"] >= TOPIC_IDS_SINCE:
            with_ids = connect(end, client_id, timeout_seconds=CONNECT_SECONDS)
            clients = replace(clients, with_ids=stack.enter_context(with_ids))
        yield clients
