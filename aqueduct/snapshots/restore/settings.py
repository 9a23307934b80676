"""A topic's settings while it is restored, and after."""

from collections.abc import Iterable, Mapping

from aqueduct.kafka.topics import Overrides

UNLIMITED = str((1 << 63) - 1)  # milliseconds
RETENTION = "retention.ms", "retention.bytes"
MIN_IN_SYNC = "min.insync.replicas"
POLICY = "cleanup.policy"

# Those of a cluster's brokers, not of the topic: the throttle of a reassignment names brokers.
_NOT_OF_THE_TOPIC = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}

# Keeps what was written, as it was written, however old or new it is. LogAppendTime would replace the times.
_WHILE_RESTORING = {
    POLICY: "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": UNLIMITED,
    "message.timestamp.after.max.ms": UNLIMITED,
    "message.timestamp.difference.max.ms": UNLIMITED,  # before 4.0
}


def of_backup(settings: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    """Return the settings that a topic gets of those that were backed up."""
    kept = {key: value for key, value in settings.items() if key not in _NOT_OF_THE_TOPIC}
    if MIN_IN_SYNC in kept:
        kept[MIN_IN_SYNC] = str(min(int(kept[MIN_IN_SYNC]), replication_factor))
    return kept


def to_set_back(
    own: Mapping[str, str],
    holding: Mapping[str, str],
    added: Mapping[str, str],
    replication_factor: int,
    pending: Overrides,
    held: Mapping[str, str],
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the settings that a topic gets back, and the values that retention will then depend on.

    `own`: what is set on the topic itself, `holding`: all that holds of it, `added`: what it gets beside.
    `pending` and `held`: the same two answers that an earlier run had, if what it found is not set back yet.
    """
    of_topic: dict[str, str | None] = {**own, **pending, **added}
    shall = {key: value for key, value in of_topic.items() if value is not None}
    holds = {**holding, **held, **shall}
    changed = while_restoring(holds, replication_factor).keys() | pending.keys()
    return (
        {key: shall.get(key) for key in sorted(changed)},
        {key: holds[key] for key in (POLICY, *RETENTION)},
    )


def while_restoring(holding: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    """Return what is set during a restore; `holding`: all the topic's settings, as the broker knows them."""
    changed = [key for key, value in _WHILE_RESTORING.items() if holding.get(key, value) != value]
    if int(holding[MIN_IN_SYNC]) > replication_factor:
        changed.append(MIN_IN_SYNC)
    return meanwhile(changed, replication_factor)


def meanwhile(back: Iterable[str], replication_factor: int) -> dict[str, str]:
    """Return the values that these settings, which are to be set back, have meanwhile."""
    values = {**_WHILE_RESTORING, MIN_IN_SYNC: str(replication_factor)}
    return {key: values[key] for key in back}


def to_hold(
    back: Overrides, holds: Mapping[str, str], *, oldest: int | None, size: int, now: int
) -> set[str]:
    """Return those of the settings to be set back that would make the broker delete records at once.

    `holds`: the values that will then hold. `oldest`: the time of the oldest records, milliseconds; `size`:
    the bytes of the largest partition.
    """
    if "delete" not in holds[POLICY].split(","):
        return set()
    milliseconds, most = (int(holds[key]) for key in RETENTION)
    old = oldest is not None and 0 <= milliseconds < now - oldest
    large = 0 <= most < size
    return {key for key, held in zip(RETENTION, (old, large), strict=True) if held and key in back}
