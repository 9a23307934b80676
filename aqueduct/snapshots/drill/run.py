"""Runs a drill: restores into an empty scratch cluster, as `aqueduct restore` does, and checks the result.

The live cluster is only read. The caller stops and wipes the scratch cluster.
"""

from collections.abc import Mapping
from dataclasses import replace

from aqueduct.common import timestamps
from aqueduct.kafka.client import connect
from aqueduct.mirror.reconcile import run as reconcile
from aqueduct.mirror.reconcile import store_reader
from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedTopics
from aqueduct.snapshots.drill import live, scratch
from aqueduct.snapshots.drill.consume import consume
from aqueduct.snapshots.drill.order import DrillOrder
from aqueduct.snapshots.drill.outcome import LIVE, Compared, DrillOutcome
from aqueduct.snapshots.restore import run as restore
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.plan import RestorePlan
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.keyring import Keyring
from aqueduct.store.snapshots import Snapshot
from aqueduct.work.phases import Phases
from aqueduct.work.progress import note
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-drill"


def drill(order: DrillOrder, workers: Workers, phases: Phases) -> DrillOutcome:
    """Run a drill. Refused before anything is written; Failed if the snapshot cannot be restored."""
    began = timestamps.now()
    phases.seconds["start"] = order.start_seconds
    objects = open_store(order.store)
    keys = Keyring(objects, order.private_keys)
    snapshot = Catalog.open(objects, order.trust, keys).snapshot(order.snapshot, order.at_least)
    note(
        f"Drill of snapshot {snapshot.manifest.number} of {order.store} at {order.scratch.bootstrap_servers}."
    )
    with (
        phases.phase("start"),
        connect(order.scratch, CLIENT, timeout_seconds=order.answer_seconds) as client,
    ):
        scratch.check(client, snapshot.manifest.cluster)
    chosen = order.topics.choose(snapshot.topics) if order.topics else list(snapshot.topics)
    unmatched = order.topics.unmatched(snapshot.topics, "the snapshot") if order.topics else []

    with phases.phase("restore"):
        restored = restore.main(_restore(order, snapshot, chosen), workers)
    verifying = restored.seconds.get("verify", 0.0)
    phases.seconds |= {"verify": verifying, "restore": phases.seconds["restore"] - verifying}

    store = store_reader.opened("store", order.store, snapshot, keys)
    flow = ComparedFlow(order.scratch, (store,))
    topics = sorted(restored.plan.topics)
    with phases.phase("reconcile"):
        names = ComparedTopics({name: name for name in topics})
        compared = Compared(flow, tuple(reconcile.reconcile(flow, names, workers)))
    with phases.phase("consume"):
        consumed = consume(order.scratch, store, restored)
    compared_live = None
    if order.live:
        with phases.phase(LIVE):
            compared_live = live.compare(order.live, store, snapshot, topics, workers)
    return DrillOutcome(
        snapshot=snapshot,
        store=order.store,
        began=began,
        newest=newest(restored.plan),
        restored=restored,
        compared=compared,
        consumed=consumed,
        live=compared_live,
        left_out=(*unmatched, *restored.left_out, *(compared_live.left_out if compared_live else ())),
        seconds=phases.seconds,
    )


def _restore(order: DrillOrder, snapshot: Snapshot, chosen: list[str]) -> RestoreOrder:
    """Return the order of a restore after a disaster: with settings, groups, ACLs and quotas."""
    whole = len(chosen) == len(snapshot.topics)
    return RestoreOrder(
        end=replace(order.scratch, role="target"),
        store=order.store,
        request=Request(names=() if whole else tuple((name, name) for name in chosen)),
        snapshot=snapshot.manifest.number,
        at_least=order.at_least,
        trust=order.trust,
        private_keys=order.private_keys,
        acls=True,
    )


def newest(plan: RestorePlan) -> Mapping[str, int | None]:
    """Return the timestamp of each topic's newest record, from batch headers; None without records."""
    return {
        name: max(
            (
                segment.max_time
                for lane in plan.partitions(name)
                for segment in lane.segments
                if segment.max_time is not None
            ),
            default=None,
        )
        for name in plan.topics
    }
