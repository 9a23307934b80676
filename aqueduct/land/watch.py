"""Watches the servers that a landing needs while it runs: asks each of them something small all the time.

A round's requests may be large, are made by tasks on other hosts, and are repeated for more than a minute.
Between rounds there are none. So each server is asked by a thread of its own, which may hang.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread

from aqueduct.errors import AqueductError, Failed
from aqueduct.land import registry
from aqueduct.land.metastore import Metastore
from aqueduct.land.metrics import LandFigures
from aqueduct.land.order import LandOrder
from aqueduct.land.outages import Outage, Outages
from aqueduct.land.table_log import OWNER, folder
from aqueduct.store import retries
from aqueduct.store.backends import open_store

PAUSE_SECONDS = 2.0  # between an answer and the next request
LOOK_SECONDS = 1.0
# A server that refuses a request has answered it; the landing's own requests say what is wrong.
ANSWERS = frozenset({"store-access-refused", "metastore-request-refused", "metastore-unsupported"})


@dataclass(frozen=True, kw_only=True)
class WatchedServer:
    """A server that a landing needs."""

    name: str  # as `store.retries` has it
    title: str  # the subject of sentences
    kind: str  # a label of metrics
    ask: Callable[[], object]  # raises an error without an answer


def servers(order: LandOrder) -> tuple[WatchedServer, ...]:
    """Return the servers of a landing. Refused if one can't be used as it is given."""
    table = order.tables[0]
    objects = open_store(order.location)
    store = WatchedServer(
        name=objects.url,
        title=f"The store {objects.url}",
        kind="store",
        ask=partial(objects.head, f"{folder(table.full_name)}/{OWNER}"),
    )
    registries = [
        WatchedServer(
            name=of.url,
            title=f"The schema registry {of.url}",
            kind="registry",
            ask=partial(registry.check, of),
        )
        for of in dict.fromkeys(table.registry for table in order.tables)
        if of
    ]
    if not order.metastores:
        return store, *registries
    metastore = Metastore(order.metastores)
    ask = partial(metastore.table, *table.full_name.split("."))  # which its database answers
    return (
        store,
        WatchedServer(name=str(metastore), title=str(metastore), kind="metastore", ask=ask),
        *registries,
    )


@contextmanager
def watching(watched: Sequence[WatchedServer], figures: LandFigures) -> Iterator[None]:
    """Report on stderr, and in the figures, while a server does not answer."""
    outages, ended = Outages(), Event()
    for server in watched:
        Thread(target=_ask, args=(server, outages, ended), daemon=True).start()
    Thread(target=_report, args=(watched, outages, figures, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _ask(server: WatchedServer, outages: Outages, ended: Event) -> None:
    while not ended.is_set():
        outages.ask(server.name, time.monotonic())
        try:
            server.ask()
        except Exception as error:  # of a library, too: else nobody would ask any more
            if isinstance(error, AqueductError) and error.id in ANSWERS:
                outages.answer(server.name)
            else:
                outages.fail(server.name, str(error).removeprefix(f"{server.title} ").rstrip("."))
        else:
            outages.answer(server.name)
        ended.wait(PAUSE_SECONDS)


def _report(watched: Sequence[WatchedServer], outages: Outages, figures: LandFigures, ended: Event) -> None:
    titles = {server.name: server.title for server in watched}
    while not ended.is_set():
        now = time.monotonic()
        waits = [wait for wait in retries.waits() if wait.server in titles]
        current = outages.current(waits, now)
        silent = dict.fromkeys((server.kind for server in watched), 0.0)
        for server in watched:
            if outage := current.get(server.name):
                silent[server.kind] = max(silent[server.kind], now - outage.since)
        figures.hear(silent)
        changes = outages.changes(waits, now)
        for outage in changes.begun:
            print(f"aqueduct: {_silence(titles, outage, now).labelled}", file=sys.stderr, flush=True)
        for outage in changes.ended:
            print(f"{titles[outage.server]} answers again after {now - outage.since:.0f} s.", flush=True)
        ended.wait(LOOK_SECONDS)


def _silence(titles: dict[str, str], outage: Outage, now: float) -> Failed:
    return Failed(
        "land-server-silent",
        f"{titles[outage.server]} has answered no request for {now - outage.since:.0f} s: {outage.reason}. "
        "The lag is unknown until the server answers. Check that the server runs, and that this host can "
        "reach it.",
    )
