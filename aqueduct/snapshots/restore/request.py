"""The request for a restore, and the default id that is derived from it."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.common.topic_names import OWN_TOPICS
from aqueduct.common.wording import some
from aqueduct.errors import Refused
from aqueduct.kafka.batches.cutting import Window
from aqueduct.store.manifest import Instance, InstanceState, StoredTopic

ACTIVE = "activate"


@dataclass(frozen=True)
class Request:
    """The records of a snapshot to restore, and the names of their topics at the target."""

    names: tuple[tuple[str, str], ...] = ()  # in the snapshot and at the target; none: all, unchanged
    instance: str = ACTIVE  # or passivate, or g<number>
    window: Window = field(default_factory=Window)  # of timestamps

    def digest(self, store_id: str, cluster_id: str) -> str:
        """Return a digest of the request, the store and the cluster.

        It does not depend on the snapshot.
        """
        asked = [store_id, cluster_id, self.instance, str(self.window.first_time), str(self.window.last_time)]
        asked += (f"{old}:{new}" for old, new in sorted(self.names))
        return hashlib.sha256("\n".join(asked).encode()).hexdigest()[:16]

    def check_names(self, topics: Mapping[str, StoredTopic]) -> None:
        """Raise Refused if one of the names does not exist in the snapshot."""
        if absent := sorted({old for old, _ in self.names} - topics.keys()):
            raise Refused(
                "snapshot-topic-unknown",
                f"The snapshot does not contain the topic {some(absent)}. Check --topics.",
            )

    def choose(self, topics: Mapping[str, StoredTopic]) -> dict[str, tuple[StoredTopic, Instance]]:
        """Return topic and instance to restore, by the name at the target. Refused if one does not exist."""
        self.check_names(topics)
        pairs = self.names or tuple((name, name) for name in topics)
        if own := sorted({new for _, new in pairs} & OWN_TOPICS):
            raise Refused(
                "topic-reserved",
                f"{some(own)} belongs to the brokers and cannot be restored. Remove it from --topics.",
            )
        chosen: dict[str, tuple[StoredTopic, Instance]] = {}
        without = []
        for old, new in sorted(pairs):
            instance = self._instance(topics[old])
            if instance is None:
                without.append(f"{old} (its instances: {_instances(topics[old])})")
            else:
                chosen[new] = topics[old], instance
        if without and (self.names or not chosen):
            raise Refused(
                "snapshot-instance-unknown",
                f"The snapshot does not contain instance {self.instance} of {some(without)}. "
                "Check --instance.",
            )
        return chosen

    def _instance(self, topic: StoredTopic) -> Instance | None:
        def wanted(instance: Instance) -> bool:
            return self.instance in (instance.state.value.lower(), f"g{instance.number}")

        return max(filter(wanted, topic.instances), default=None)


def _instances(topic: StoredTopic) -> str:
    return some(f"g{instance.number} {instance.state}" for instance in sorted(topic.instances))


def restore_id(digest: str, snapshot: int) -> str:
    """Return the default id of the restore of a snapshot."""
    return f"{digest}-{snapshot}"


def parse_id(text: str) -> str:
    """Check the id of a restore; Refused unless it can be a part of group names."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", text):
        raise Refused(
            "restore-id-invalid",
            f"--restore-id {text!r} is not valid. Use up to 100 of the characters a-z, A-Z, 0-9, '_' "
            "and '-'.",
        )
    return text


def parse_instance(text: str) -> str:
    """Check an instance; Refused unless it is activate, passivate or g<number>."""
    name = text.lower()
    if name in {state.value.lower() for state in InstanceState} or re.fullmatch(r"g[1-9]\d*", name, re.ASCII):
        return name
    raise Refused(
        "instance-invalid",
        f"--instance {text!r} is not an instance. Pass activate, passivate or g<number>, such as g2. Run "
        "aqueduct snapshots to list the instances of each topic.",
    )
