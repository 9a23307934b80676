"""The selection of topics and groups to back up."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from aqueduct.common.topic_names import OWN_TOPICS, matches, unmatched_parts
from aqueduct.common.wording import some
from aqueduct.errors import NoMatch, Refused, Skipped, labelled

GROUPS_TOPIC = "__consumer_offsets"  # in --topics it stands for the groups, which are always backed up
POSITION_GROUP = "aqueduct-backup-"  # with the store's id: the group with the position of the backup
OWN_GROUPS = (POSITION_GROUP, "aqueduct-restore-")

Pattern = re.Pattern[str]


def compiled(pattern: str | None, of: str) -> Pattern | None:
    """Compile a pattern of the option `of`; Refused if it is invalid."""
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise Refused("pattern-invalid", f"{of} {pattern} does not compile: {error}.") from None


@dataclass(frozen=True)
class TopicSelection:
    """The topics to back up: by exact names, or by patterns (see names.matches)."""

    names: tuple[str, ...] = ()
    pattern: Pattern | None = None
    exclude: Pattern | None = None

    def absent(self, topics: Iterable[str]) -> list[str]:
        """Return the names that do not exist."""
        return sorted(set(self.names) - set(topics) - {GROUPS_TOPIC})

    def choose(self, topics: Iterable[str], *, again: bool = False) -> list[str]:
        """Choose topics. Refused if a name does not exist or is internal to Kafka, or if no topic matches.

        `again`: a later round, in which names may no longer exist.
        """
        if own := sorted(OWN_TOPICS.intersection(self.names) - {GROUPS_TOPIC}):
            raise Refused(
                "topic-reserved",
                f"--topics lists {some(own)}, which is internal to one cluster. Remove it from --topics.",
            )
        existing = set(topics)
        named = set(self.names) - {GROUPS_TOPIC}
        absent = self.absent(existing)
        if absent and not (again and named & existing):
            raise NoMatch(
                "topic-unknown",
                f"The cluster has no topic {some(absent)} that this client may describe. Correct --topics, "
                "or allow the client to describe the topic.",
            )
        if self.pattern is None:
            chosen = sorted(named & existing)
        else:
            chosen = sorted(name for name in existing if matches(self.pattern, name))
            if not chosen:
                raise NoMatch(
                    "pattern-matches-nothing",
                    f"No whole topic name matches {self.pattern.pattern}. Correct --topics-pattern.",
                )
        left = [name for name in chosen if not (self.exclude and self.exclude.fullmatch(name))]
        if chosen and not left:
            raise NoMatch(
                "pattern-matches-nothing",
                f"--exclude-topics-pattern {self.exclude.pattern if self.exclude else ''} "
                "excludes every topic. Correct the pattern.",
            )
        return left

    def unmatched(self, topics: Collection[str], searched: str = "the cluster") -> list[Skipped]:
        """Return the parts of the pattern that match no topic."""
        if self.pattern is None:
            return []
        chosen = [name for name in topics if matches(self.pattern, name)]
        reason = f"it matches no whole topic name of {searched}"
        parts = unmatched_parts(self.pattern.pattern, chosen)
        return [Skipped(f"topics {part}", reason, "pattern-matches-nothing") for part in parts]

    def idle_exclusion(self, topics: Collection[str]) -> str:
        """Return a sentence if the pattern of excluded topics matches no topic; else an empty string."""
        if self.exclude is None or any(map(self.exclude.fullmatch, topics)):
            return ""
        message = f"--exclude-topics-pattern {self.exclude.pattern} matches no topic, so it excludes nothing."
        return labelled("pattern-matches-nothing", message)


@dataclass(frozen=True)
class GroupSelection:
    """The groups to back up: those whose whole names match, but not Aqueduct's own."""

    pattern: Pattern | None = None
    exclude: tuple[str, ...] = ()

    @property
    def no_match(self) -> str:
        pattern = self.pattern.pattern if self.pattern else ""
        return f"No whole group name matches {pattern}. Correct --groups-pattern."

    def absent(self, groups: Iterable[str]) -> list[str]:
        """Return the excluded groups that do not exist."""
        return sorted(set(self.exclude) - set(groups))

    def unmatched(self, chosen: Collection[str], searched: str = "the cluster") -> list[Skipped]:
        """Return the parts of the pattern that match none of the chosen groups."""
        parts = unmatched_parts(self.pattern.pattern, chosen) if self.pattern else []
        reason = f"it matches no whole name of a consumer group of {searched}"
        return [Skipped(f"groups {part}", reason, "pattern-matches-nothing") for part in parts]

    def choose(self, groups: Iterable[str], *, again: bool = False) -> list[str]:
        """Choose groups. Refused if a pattern was passed and no group matches, unless `again`."""
        chosen = [
            name
            for name in sorted(groups)
            if not name.startswith(OWN_GROUPS)
            and name not in self.exclude
            and (self.pattern is None or self.pattern.fullmatch(name))
        ]
        if self.pattern is not None and not chosen and not again:
            raise Refused("pattern-matches-nothing", self.no_match)
        return chosen
