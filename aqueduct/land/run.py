"""Lands topics in tables, round by round: each reads what is new of all tables, and commits each by itself.

Tasks stage files that nobody sees; a table's commit is a file in its log; then its files get their names. Who
dies in between has done nothing, or something that the next round finishes first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from kafka.errors import KafkaError

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import AqueductError, Failed, LeftOut, Refused, Skipped
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.client import connect
from aqueduct.land import iceberg_table, log, registry, survey
from aqueduct.land.absent_columns import Unseen
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable, TableKind
from aqueduct.land.log import LAND, AddedFile, Commit, NeverLanded, Positions, Staging, State, Step
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import LandedTable
from aqueduct.land.plan import (
    LandPlan,
    SourceTopic,
    UnopenedRange,
    epochs_to_ask,
    joined,
    lag,
    next_schema,
    plan,
    settle,
    shares,
)
from aqueduct.land.registry import RegistryAway
from aqueduct.land.table_log import TableLog
from aqueduct.land.task import CLIENT, LandedShare, LandShare, land_share
from aqueduct.store.backends import open_editable
from aqueduct.work import sampling
from aqueduct.work.crossover import Verb
from aqueduct.work.progress import Size
from aqueduct.work.workers import Workers

GROUP = "aqueduct-land-"  # and the table
TASK_OFFSETS = 20_000, 2_000_000  # of a task, at least and at most
OFFSETS: Size[LandShare] = Size("offsets", len)


@dataclass(frozen=True)
class SourceTopics:
    """The topics of a cluster."""

    every: frozenset[str]  # by name
    taken: Mapping[str, SourceTopic]  # that land somewhere
    epoch_ends: Mapping[
        str, Mapping[TopicPartition, int]
    ]  # where logs leave their landings' epochs, by table


@dataclass(frozen=True, kw_only=True)
class _TableRound:
    """One table in a round: what is read of it, and where that is staged."""

    table: LandTable
    planned: LandPlan
    staging: Staging


@dataclass(frozen=True, kw_only=True)
class _Settled:
    """What of a table's round is to be committed."""

    positions: Positions
    kept: Sequence[LandedShare]  # the tasks whose results count
    gaps: Sequence[Range]
    unopened: Sequence[UnopenedRange]
    epochs: Mapping[str, Mapping[str, int]]  # of the leaders, by topic and partition

    @property
    def added(self) -> tuple[AddedFile, ...]:
        return tuple(file for share in self.kept for file in share.files)

    @property
    def broken(self) -> LeftOut:
        return tuple(
            Skipped(f"{read.range.topic_partition} from offset {read.reached} on", read.why, read.id)
            for share in self.kept
            for read in share.read
            if read.why
        )

    @property
    def moved(self) -> bool:
        return any(read.reached > read.range.start for share in self.kept for read in share.read)


class Lander:
    """A landing of tables, which keeps their logs in mind from round to round."""

    def __init__(
        self, order: LandOrder, workers: Workers, unseen: Unseen | None = None, *, again: bool = False
    ) -> None:
        """Read the tables' logs; Refused if a table can't become what is declared.

        `unseen`: of a lander before this one in the process. `again`: that one has landed, so of tables that
        others changed meanwhile each fails by itself.
        """
        self._order = order
        self._workers = workers
        self._unseen = unseen or Unseen()
        objects = open_editable(order.location)
        self._logs = {table.full_name: TableLog(objects, table.full_name) for table in order.tables}
        self._catalogue = Catalogue(order.metastores, order.location) if order.metastores else None
        self._shown: dict[str, groups.CommittedOffsets] = {}
        # Tables that can't land, and why: they are left alone, and the others land.
        self._failed: dict[str, Failed] = {}
        for table in order.tables:
            if table.kind is TableKind.ICEBERG and not order.metastores:
                raise Refused(
                    "option-required",
                    f"{table.full_name} is of the kind {TableKind.ICEBERG}, which needs a Hive metastore. "
                    "Pass --metastore.",
                )
            try:
                state = self._logs[table.full_name].follow()
                next_schema(state, log.definition(table, state.definition), table)
            except Failed as error:
                self._failed[table.full_name] = error
            except Refused as error:
                if not again:
                    raise
                self._failed[table.full_name] = Failed(error.id, str(error))
            else:
                if table.by_sql:
                    application = (
                        workers.spark()
                    )  # first: Refused where PySpark is missing, which `sql` imports
                    from aqueduct.land import sql  # takes a while

                    sql.check(application, table)

    def until_caught_up(self, tables: Sequence[LandTable] | None = None) -> list[LandedTable]:
        """Land what is there now, in as many rounds as that takes; return what was done of each table.

        `tables`: those of the order's that land now, by default all.

        Refused, with nothing done, if a named topic is not there, or if a new table's folder or name in the
        catalogue isn't free.
        """
        tables = self._order.tables if tables is None else tables
        outcomes = {table.full_name: LandedTable(table=table.full_name) for table in tables}
        for name, table in outcomes.items():
            table.failed = self._failed.get(name)
        newest = self._newest(tables, outcomes)  # before the logs are read, which have these commits, then
        self._rejoin(outcomes)
        self._check_newest(tables, newest, outcomes)
        self._ask_registries(tables, outcomes)
        source_topics = self._survey(tables)
        self._check_catalogue(tables, outcomes)
        self._own(tables, outcomes)
        stops = {
            TopicPartition(topic.name, number): end
            for topic in source_topics.taken.values()
            for number, end in enumerate(topic.ends)
        }
        try:
            while not self._round(tables, source_topics, stops, outcomes):
                source_topics = self._survey(tables)
        except AqueductError as error:
            if not any(table.commits for table in outcomes.values()):
                raise
            # What was committed is told, with the gaps that it passed over: a later run does not.
            for table in outcomes.values():
                table.failed = table.failed or Failed(error.id, str(error))
        for land_table in tables:
            outcomes[land_table.full_name].unseen = tuple(self._unseen.tell(land_table))
        return list(outcomes.values())

    def lags(self, tables: Sequence[LandTable]) -> dict[str, int]:
        """Return how many offsets have not landed that the topics have by now, by table.

        A table has no entry if its lag is unknown: its log cannot be followed, or the landing of a partition
        stands still.
        """
        followed = [table for table in tables if table.full_name not in self._failed]
        source_topics = self._survey(followed)
        lags = {}
        for table in followed:
            mine = [topic for topic in source_topics.taken.values() if table.takes(topic.name)]
            epoch_ends = source_topics.epoch_ends[table.full_name]
            waiting = lag(self._logs[table.full_name].state, mine, epoch_ends, takes=table.takes)
            if waiting is not None:
                lags[table.full_name] = waiting
        return lags

    def _newest(self, tables: Sequence[LandTable], outcomes: Mapping[str, LandedTable]) -> Mapping[str, int]:
        """Return the newest commit in each Iceberg table; of which nobody tells, following it says why."""
        return self._catalogue.newest(self._states(tables, outcomes)) if self._catalogue else {}

    def _check_newest(
        self, tables: Sequence[LandTable], newest: Mapping[str, int], outcomes: Mapping[str, LandedTable]
    ) -> None:
        """See that no Iceberg table has commits that its log has not: it would stay as it is for long."""
        for table, state in self._states(tables, outcomes):
            if reason := iceberg_table.ahead(table, newest.get(table.full_name, 0), state):
                outcomes[table.full_name].failed = Failed("iceberg-table-ahead", f"{reason}.")

    def _states(
        self, tables: Sequence[LandTable], outcomes: Mapping[str, LandedTable]
    ) -> list[tuple[LandTable, State]]:
        return [
            (table, self._logs[table.full_name].state)
            for table in tables
            if not outcomes[table.full_name].failed
        ]

    def _check_catalogue(self, tables: Sequence[LandTable], outcomes: Mapping[str, LandedTable]) -> None:
        """Refuse a new table if the catalogue has another one of its name."""
        if self._catalogue:
            self._catalogue.check(self._states(tables, outcomes))

    def _bring_catalogue_up(self, tables: Sequence[LandTable], outcomes: Mapping[str, LandedTable]) -> None:
        """Bring the catalogue up to the tables' logs; say of which tables it is behind, and why."""
        if self._catalogue:
            for name, failure in self._catalogue.follow(
                self._states(tables, outcomes), drop=self._is_newest
            ).items():
                outcomes[name].left_out += (Skipped.because_of(f"{name} in the metastore", failure),)

    def _is_newest(self, name: str) -> bool:
        """Tell if nothing was committed since a table's log was read, as a replay may have, with new days."""
        return self._logs[name].is_newest()

    def _rejoin(self, outcomes: Mapping[str, LandedTable]) -> None:
        """Take in what compactions committed; one that was killed is finished, though nothing new lands."""
        for name, table in outcomes.items():
            if not table.failed:
                try:
                    self._logs[name].rejoin()
                except Failed as error:
                    table.failed = error

    def _ask_registries(self, tables: Sequence[LandTable], outcomes: Mapping[str, LandedTable]) -> None:
        """See that each registry answers; the tables of one that doesn't fail before anything is read."""
        for of in {table.registry for table in tables if table.registry}:
            try:
                registry.check(of)
            except RegistryAway as error:
                for table in tables:
                    if table.registry == of and not outcomes[table.full_name].failed:
                        outcomes[table.full_name].failed = Failed(error.id, f"{table.full_name}: {error}")

    def _own(self, tables: Sequence[LandTable], outcomes: Mapping[str, LandedTable]) -> None:
        """Take the folders of tables that are new; Refused if one isn't free."""
        for table in tables:
            of_table = self._logs[table.full_name]
            if not of_table.owned and not outcomes[table.full_name].failed:
                of_table.own(table.beside)

    def _survey(self, tables: Sequence[LandTable]) -> SourceTopics:
        """Return the topics; Refused if one that is named is not there."""
        with connect(self._order.end, CLIENT) as client:
            topics = client.topics()
            for table in (land_table for land_table in tables if land_table.full_name not in self._failed):
                positions = self._logs[table.full_name].state.positions
                if absent := [
                    topic for topic in table.named_topics if topic not in topics and topic not in positions
                ]:
                    raise Refused(
                        "topic-unknown",
                        f"{table.full_name}: the {self._order.end} has no topic {some(absent)}. Create the "
                        "topic, or declare another topic.",
                    )
            names = [name for name in topics if any(table.takes(name) for table in tables)]
            taken = survey.source_topics(client, topics, names)
            epoch_ends = {
                table.full_name: offsets.ends_of_epochs(client, self._epochs(table, taken))
                for table in tables
            }
        return SourceTopics(frozenset(topics), taken, epoch_ends)

    def _epochs(self, table: LandTable, taken: Mapping[str, SourceTopic]) -> dict[TopicPartition, int]:
        if table.full_name in self._failed:
            return {}
        mine = (topic for topic in taken.values() if table.takes(topic.name))
        return epochs_to_ask(self._logs[table.full_name].state, mine)

    def _round(
        self,
        tables: Sequence[LandTable],
        source_topics: SourceTopics,
        stops: Mapping[TopicPartition, int],
        outcomes: Mapping[str, LandedTable],
    ) -> bool:
        """Land what is new of each table, and commit it; return whether nothing is left."""
        tables = [table for table in tables if not outcomes[table.full_name].failed]
        plans = [self._plan(table, source_topics, stops) for table in tables]
        rounds = [
            _TableRound(table=table, planned=planned, staging=self._logs[table.full_name].begin())
            for table, planned in zip(tables, plans, strict=True)
        ]
        results = self._land(rounds, source_topics)
        caught_up = True
        for of_round in rounds:
            name = of_round.table.full_name
            before = self._logs[name].state.positions
            try:
                self._commit(of_round, source_topics, results[name], outcomes[name])
            except Failed as error:
                outcomes[name].failed = error
                continue
            except Refused as error:  # a replay by other declarations has changed it; the others land
                self._logs[name].discard(of_round.staging)
                outcomes[name].failed = Failed(error.id, str(error))
                continue
            # A partition that can't be read on is left out; nobody waits for it.
            caught_up &= of_round.planned.whole or before == self._logs[name].state.positions
            self._show_positions(name, source_topics, outcomes[name])
        self._bring_catalogue_up(tables, outcomes)
        return caught_up

    def _plan(
        self, table: LandTable, source_topics: SourceTopics, stops: Mapping[TopicPartition, int]
    ) -> LandPlan:
        mine = [topic for topic in source_topics.taken.values() if table.takes(topic.name)]
        return plan(
            self._logs[table.full_name].state,
            mine,
            source_topics.every,
            stops=stops,
            takes=table.takes,
            unmatched=table.unmatched(source_topics.every),
            epoch_ends=source_topics.epoch_ends[table.full_name],
        )

    def _land(
        self, rounds: Sequence[_TableRound], source_topics: SourceTopics
    ) -> dict[str, list[LandedShare]]:
        """Read what is planned, and stage it, all tables in one job."""
        every = [range_ for of_round in rounds for range_ in of_round.planned.ranges]
        work = sampling.reading(Verb.LAND, self._order.end, every, self._workers)
        at_most = self._workers.task_size(sum(map(len, every)), TASK_OFFSETS, work)
        tasks = [
            LandShare(
                end=self._order.end,
                location=self._order.location,
                table=of_round.table,
                staging=of_round.staging,
                share=number,
                ranges=parts,
                topic_ids=tuple(source_topics.taken[part.topic].id for part in parts),
            )
            for of_round in rounds
            for number, parts in enumerate(shares(of_round.planned.ranges, at_most))
        ]
        tables = [of_round.table for of_round in rounds]
        landed: dict[str, list[LandedShare]] = {table.full_name: [] for table in tables}
        if by_python := [task for task in tasks if not task.table.by_sql]:
            for share in self._workers.parallel(work)(land_share, by_python, OFFSETS):
                landed[share.table].append(share)
        for table in (land_table for land_table in tables if land_table.by_sql):
            from aqueduct.land import sql

            if mine := [task for task in tasks if task.table is table]:
                landed[table.full_name] = sql.land(self._workers.spark(), mine, OFFSETS)
        return landed

    def _commit(
        self,
        of_round: _TableRound,
        source_topics: SourceTopics,
        landed: Sequence[LandedShare],
        outcome: LandedTable,
    ) -> None:
        """Commit what was read of a table, if that is anything; Failed if a task says that it may not be."""
        table, planned, staging = of_round.table, of_round.planned, of_round.staging
        of_table = self._logs[table.full_name]
        for share in landed:
            if share.failed:
                of_table.discard(staging)
                raise Failed("schema-registry-unreachable", f"{table.full_name}: {share.failed}")
        settled = _settle(planned, source_topics, landed)
        outcome.left_out = planned.left_out + settled.broken
        if not (settled.moved or planned.gaps):
            return
        of_table.commit_beside(staging, partial(_following, of_round, settled))
        seen = {name for share in settled.kept for name in share.seen}
        self._unseen.add(table, sum(share.valued for share in settled.kept), seen)
        _count(outcome, settled)
        of_table.publish(staging)

    def _show_positions(self, name: str, source_topics: SourceTopics, outcome: LandedTable) -> None:
        """Commit how far a table is as a group's positions, so that Kafka's own tools tell the lag."""
        state = self._logs[name].state
        positions = {
            TopicPartition(topic, int(number)): (offset, f"commit {state.number}")
            for topic, of_topic in state.positions.items()
            if topic in source_topics.taken and source_topics.taken[topic].id == state.topic_ids[topic]
            for number, offset in of_topic.items()
        }
        if positions == self._shown.get(name):
            return
        try:
            with connect(self._order.end, CLIENT) as client:
                groups.commit(client, GROUP + name, positions)
        except (Failed, KafkaError) as error:
            reason = f"the position could not be committed as offsets of this group: {str(error).rstrip('.')}"
            outcome.left_out += (Skipped(f"group {GROUP}{name}", reason, "landing-position-not-committed"),)
        else:
            self._shown[name] = positions


def _settle(planned: LandPlan, source_topics: SourceTopics, landed: Sequence[LandedShare]) -> _Settled:
    positions, counts = settle(planned, [share.read for share in landed])
    kept = [share for number, share in enumerate(landed) if number in counts]
    epochs: dict[str, dict[str, int]] = {}
    for range_ in planned.ranges:
        of_topic = epochs.setdefault(range_.topic, {})
        of_topic[str(range_.partition)] = source_topics.taken[range_.topic].epochs[range_.partition]
    gaps = [*planned.gaps, *(gap for share in kept for gap in share.gaps)]
    unopened = joined(skipped for share in kept for skipped in share.unopened)
    return _Settled(positions=positions, kept=kept, gaps=gaps, unopened=unopened, epochs=epochs)


def _following(of_round: _TableRound, settled: _Settled, state: State) -> Commit:
    """Return the commit that follows a state of the table's log."""
    table = of_round.table
    declared = log.definition(table, state.definition)
    schema = next_schema(state, declared, table)
    return Commit(
        number=state.number + 1,
        kind=LAND,
        positions=Step(state.positions, settled.positions),
        added=settled.added,
        removed=(),
        bad=sum(share.bad for share in settled.kept),
        schema=schema,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        topic_ids=of_round.planned.topic_ids,
        definition=declared if schema != state.schema else None,
        gaps=tuple(map(_never_landed, settled.gaps)),
        epochs=settled.epochs,
        unopened=tuple(_never_landed(skipped.range) for skipped in settled.unopened),
    )


def _never_landed(offsets: Range) -> NeverLanded:
    return NeverLanded(
        topic=offsets.topic, partition=offsets.partition, first=offsets.start, last=offsets.stop - 1
    )


def _count(outcome: LandedTable, settled: _Settled) -> None:
    outcome.commits += 1
    outcome.gaps += settled.gaps
    outcome.unopened += settled.unopened
    outcome.rows += sum(share.rows for share in settled.kept)
    outcome.late += sum(share.late for share in settled.kept)
    outcome.bad += sum(share.bad for share in settled.kept)
    outcome.filtered += sum(share.filtered for share in settled.kept)
    outcome.tombstones += sum(share.tombstones for share in settled.kept)
    outcome.files += len(settled.added)
    outcome.bytes += sum(file.bytes for file in settled.added)
