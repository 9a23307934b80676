"""A landing service's metrics for Prometheus, updated after each of its rounds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.land.outcome import LandedTable

OWN = prometheus.Named("aqueduct_land")


@dataclass(kw_only=True)
class TableFigures:
    """What a process has landed of a table since it started."""

    commits: int = 0
    rows: int = 0
    late: int = 0
    bad: int = 0
    filtered: int = 0
    files: int = 0
    bytes: int = 0
    missed: int = 0  # offsets that were deleted before they were read
    unopened: int = 0  # offsets in batches that unpack to too much
    failed: int = 0  # rounds
    left_out: int | None = None  # by the last round; None: there was none
    lag: int | None = None  # None: it is not known

    def add(self, landed: LandedTable) -> None:
        self.commits += landed.commits
        self.rows += landed.rows
        self.late += landed.late
        self.bad += landed.bad
        self.filtered += landed.filtered
        self.files += landed.files
        self.bytes += landed.bytes
        self.missed += sum(len(gap) for gap in landed.gaps)
        self.unopened += sum(len(skipped.range) for skipped in landed.unopened)
        self.failed += landed.failed is not None
        self.left_out = len(landed.left_out)


class LandFigures:
    """The figures of one process."""

    def __init__(self, tables: Iterable[str], now: float) -> None:
        """Begin all of them at 0, so that Prometheus sees the first one rise."""
        self._tables = {name: TableFigures() for name in tables}
        self._rounds = self._failed = 0
        # When the last one ended, seconds since 1970; before that, when the process began.
        self._round_time = now
        # How long servers have not answered, in seconds, by kind; empty: nobody watches them.
        self._silent: Mapping[str, float] = {}

    def add(self, landed: Sequence[LandedTable] | None, lags: Mapping[str, int], now: float) -> None:
        """Count a round; None: it could not begin. `lags`: of tables, as far as they are known."""
        self._rounds += 1
        if landed is None:
            self._failed += 1
            for figures in self._tables.values():
                figures.lag = None  # that of an earlier round is not how it is now
            return
        self._round_time = now
        for table in landed:
            self._tables[table.table].add(table)
            self._tables[table.table].lag = None if self._has_silent_server else lags.get(table.table)

    def hear(self, silent: Mapping[str, float]) -> None:
        """Set how long servers have not answered, by kind; 0: they answer.

        Until a later round has measured them, lags are unknown.
        """
        self._silent = silent
        if self._has_silent_server:
            for figures in self._tables.values():
                figures.lag = None

    @property
    def _has_silent_server(self) -> bool:
        return any(self._silent.values())

    def all(self) -> Iterator[Metric]:
        """Yield every metric; what is left to land is unknown before a table's first round."""
        yield OWN.counter("rounds", "rounds that ended", self._rounds)
        yield OWN.counter("failed_rounds", "rounds that could not begin", self._failed)
        of = self._each
        yield OWN.counter("commits", "commits to the table's log", *of(lambda table: table.commits))
        yield OWN.counter("rows", "rows that landed in the table", *of(lambda table: table.rows))
        yield OWN.counter("late", "rows that landed in the table of late rows", *of(lambda table: table.late))
        yield OWN.counter("bad", "records that landed in its bad table", *of(lambda table: table.bad))
        filtered = of(lambda table: table.filtered)
        yield OWN.counter("filtered", "rows that its `where` condition skipped", *filtered)
        yield OWN.counter("files", "files of the table and its bad table", *of(lambda table: table.files))
        yield OWN.counter("bytes", "bytes of these files", *of(lambda table: table.bytes))
        missed = of(lambda table: table.missed)
        yield OWN.counter("missed", "offsets that were deleted before they were read", *missed)
        unopened = of(lambda table: table.unopened)
        yield OWN.counter(
            "unopened",
            "offsets that it skipped, because their batches are too large after decompression",
            *unopened,
        )
        yield OWN.counter("failures", "rounds that failed for the table", *of(lambda table: table.failed))
        meaning = "time of the end of the last round, or of the start of the service, Unix time"
        yield OWN.gauge("round_time", meaning, self._round_time)
        if self._silent:
            silent = [(seconds, {"server": kind}) for kind, seconds in self._silent.items()]
            meaning = (
                "seconds since the last answer of the store, metastore or registry; 0: the server answers"
            )
            yield OWN.gauge("silent_seconds", meaning, *silent)
        # A round may have ended, and set its lag, while the watch noted the silence.
        if lag := of(lambda table: None if self._has_silent_server else table.lag):
            yield OWN.gauge("lag", "offsets that had not landed after its last round", *lag)
        if left_out := of(lambda table: table.left_out):
            yield OWN.gauge("left_out", "items that its last round skipped", *left_out)

    def _each(self, figure: Callable[[TableFigures], int | None]) -> list[tuple[float, prometheus.Labels]]:
        """Return a figure of each table that has it."""
        figures = ((name, figure(table)) for name, table in self._tables.items())
        return [(float(value), {"table": name}) for name, value in figures if value is not None]
