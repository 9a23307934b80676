"""The topics of a flow: which topics of the source are mirrored, and what they need at the target."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aqueduct.common.topic_names import LEGAL_NAME, matches, unmatched_parts
from aqueduct.errors import Skipped
from aqueduct.kafka.topics import DeclaredTopic

# Topics that no mirror copies: their records mean something in their own cluster only.
INTERNAL = re.compile(r".*[-.]internal|.*\.replica|(.*\.)?heartbeats|__.*")
# Settings that belong to a cluster, not to the data (MirrorMaker's DefaultConfigPropertyFilter), and tiers.
OWN_SETTINGS = re.compile(
    r"(follower|leader)\.replication\.throttled\.replicas|message\.timestamp\.difference\.max\.ms|"
    r"message\.timestamp\.type|unclean\.leader\.election\.enable|min\.insync\.replicas|remote\..*|"
    r"local\.retention\..*"
)
CREATE_TIME = "CreateTime"
UNMATCHED = "pattern-matches-nothing"


@dataclass(frozen=True)
class MirroredTopics:
    """The flow's choice of topics by a pattern for whole names, and their names at the target."""

    pattern: re.Pattern[str]
    prefix: str = ""

    def targets(self, names: Mapping[str, object]) -> dict[str, str]:
        """Return the names at the target of those topics that are mirrored, by their names at the source."""
        return {
            name: self.prefix + name
            for name in sorted(names)
            if matches(self.pattern, name) and not INTERNAL.fullmatch(name)
        }


def unmatched(topics: MirroredTopics, mirrored: Collection[str], source: object) -> list[Skipped]:
    """Return the parts of the flow's pattern that match none of the topics that it mirrors."""
    reason = (
        f"no topic of the {source} matches this pattern, except for internal topics; correct the "
        "pattern, or create the topic"
    )
    return [Skipped(part, reason, UNMATCHED) for part in unmatched_parts(topics.pattern.pattern, mirrored)]


def illegal_names(targets: Mapping[str, str]) -> list[Skipped]:
    """Return the topics whose names at the target are not legal."""
    return [
        Skipped(source, f"{target[:300]!r} is not a valid topic name at the target", "topic-name-invalid")
        for source, target in targets.items()
        if not LEGAL_NAME.fullmatch(target)
    ]


def declared(
    targets: Mapping[str, str],
    partitions: Mapping[str, int],
    settings: Mapping[str, Mapping[str, str]],
    existing: Mapping[str, int],
    replication_factor: int | None,
) -> list[DeclaredTopic]:
    """Return the topics that the target must have.

    `partitions` and `settings` are by names at the source, `existing` has the numbers of partitions by names
    at the target. A target topic with more partitions than its source keeps them.
    """
    return [
        DeclaredTopic(
            name=target,
            partitions=max(partitions[source], existing.get(target, 0)),
            replication_factor=None if target in existing else replication_factor,
            config={
                key: value
                for key, value in settings.get(source, {}).items()
                if not OWN_SETTINGS.fullmatch(key)
            },
        )
        for source, target in targets.items()
    ]


def unsuitable(target: str, settings: Mapping[str, str]) -> Skipped | None:
    """Return why records cannot be written unchanged to a target topic; None: they can."""
    if settings.get("message.timestamp.type", CREATE_TIME) != CREATE_TIME:
        return Skipped(
            target,
            "the target topic would replace the timestamps of all records; set "
            "message.timestamp.type=CreateTime for the target topic",
            "mirror-times-replaced",
        )
    return None


def rejected(reasons: Mapping[str, str], existing: Collection[str]) -> list[Skipped]:
    """Return the topics of which the target's controller refuses something, by their names at the source.

    Topics that exist at the target are mirrored all the same.
    """
    kept = (
        "the controller of the target rejected new settings or partitions, so the target topic keeps its "
        "present ones"
    )
    return [
        Skipped(
            name,
            f"{kept if name in existing else 'the controller of the target rejected the topic'}: {reason}",
            "topic-rejected",
        )
        for name, reason in sorted(reasons.items())
    ]


def not_ready(name: str) -> Skipped:
    """Return a topic that the target should have, and has not or has with fewer partitions."""
    reason = (
        "the target does not have the topic with all its partitions yet; check that all brokers of the "
        "target run"
    )
    return Skipped(name, reason, "topic-not-ready")
