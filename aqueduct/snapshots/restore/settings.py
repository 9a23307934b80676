"""The settings of a topic during and after its restore."""

from collections.abc import Iterable, Mapping

from aqueduct.kafka.topics import Overrides

UNLIMITED = str((1 << 63) - 1)  # milliseconds
RETENTION = "retention.ms", "retention.bytes"
MIN_IN_SYNC = "min.insync.replicas"
POLICY = "cleanup.policy"

# Settings of the brokers, not of the topic: the throttle of a reassignment lists broker ids.
_NOT_OF_THE_TOPIC = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}

# These settings keep the records unchanged, of any age. LogAppendTime would replace the timestamps.
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
    """Return the backed-up settings that the topic gets."""
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
    """Return the settings to set at the end, and the values that settings of retention will then have.

    `own`: the settings of the topic itself. `holding`: all its effective settings. `added`: those to add.
    `pending` and `held`: the two results of an earlier run, if its settings are not set yet.
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
    """Return the settings during a restore. `holding`: all effective settings of the topic."""
    changed = [key for key, value in _WHILE_RESTORING.items() if holding.get(key, value) != value]
    if int(holding[MIN_IN_SYNC]) > replication_factor:
        changed.append(MIN_IN_SYNC)
    return meanwhile(changed, replication_factor)


def meanwhile(back: Iterable[str], replication_factor: int) -> dict[str, str]:
    """Return the values during a restore of settings that are set at its end."""
    values = {**_WHILE_RESTORING, MIN_IN_SYNC: str(replication_factor)}
    return {key: values[key] for key in back}


def to_hold(
    back: Overrides, holds: Mapping[str, str], *, oldest: int | None, size: int, now: int
) -> set[str]:
    """Return the settings to be set that would make the broker delete restored records at once.

    `holds`: the values after they are set. `oldest`: the timestamp of the oldest records, in milliseconds.
    `size`: the bytes of the largest partition.
    """
    if "delete" not in holds[POLICY].split(","):
        return set()
    milliseconds, most = (int(holds[key]) for key in RETENTION)
    old = oldest is not None and 0 <= milliseconds < now - oldest
    large = 0 <= most < size
    return {key for key, held in zip(RETENTION, (old, large), strict=True) if held and key in back}
