"""What a restore is asked for, and the name that it has by that."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.batches.cut import Window
from aqueduct.errors import Refused
from aqueduct.estate.patterns import LEGAL_NAME
from aqueduct.store.manifest import Instance, State, Topic
from aqueduct.wording import some

ACTIVE = "activate"


@dataclass(frozen=True)
class Request:
    """Which records of a snapshot are restored, and under which names."""

    names: tuple[tuple[str, str], ...] = ()  # in the snapshot, at the target; none: all, as they are
    instance: str = ACTIVE  # or passivate, or g<number>
    window: Window = field(default_factory=Window)  # of times

    def digest(self, store_id: str, cluster_id: str) -> str:
        """The same for the same records of the same store in the same cluster, but for the snapshot."""
        asked = [store_id, cluster_id, self.instance, str(self.window.from_time), str(self.window.to_time)]
        asked += (f"{old}:{new}" for old, new in sorted(self.names))
        return hashlib.sha256("\n".join(asked).encode()).hexdigest()[:16]

    def choose(self, topics: Mapping[str, Topic]) -> dict[str, tuple[Topic, Instance]]:
        """Topic and instance to be restored, by the name at the target. Refused where one is not there."""
        pairs = self.names or tuple((name, name) for name in topics)
        if absent := sorted({old for old, _ in pairs} - topics.keys()):
            raise Refused(f"The snapshot has no topic {some(absent)}; see --topics.")
        chosen: dict[str, tuple[Topic, Instance]] = {}
        without = []
        for old, new in sorted(pairs):
            instance = self._instance(topics[old])
            if instance is None:
                without.append(old)
            else:
                chosen[new] = topics[old], instance
        if without and (self.names or not chosen):
            raise Refused(f"There is no instance {self.instance} of {some(without)}; see --instance.")
        return chosen

    def _instance(self, topic: Topic) -> Instance | None:
        def wanted(instance: Instance) -> bool:
            return self.instance in (instance.state.value.lower(), f"g{instance.number}")

        return max(filter(wanted, topic.instances), default=None)


def restore_id(digest: str, snapshot: int) -> str:
    """The default name of the restore of a snapshot."""
    return f"{digest}-{snapshot}"


def parse_id(text: str) -> str:
    """Refused unless it can be a part of groups' names."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", text):
        raise Refused(f"--restore-id {text} is none; write up to 100 of a-z, A-Z, 0-9, '_' and '-'.")
    return text


def parse_names(text: str) -> tuple[tuple[str, str], ...]:
    """`a,b:c`: a as it is, b as c. Refused where a name is none, or is given twice."""
    pairs = []
    for part in filter(None, text.split(",")):
        old, colon, new = part.partition(":")
        pairs.append((old, new if colon else old))
    names = [name for pair in pairs for name in pair]
    if not pairs or not all(map(LEGAL_NAME.fullmatch, names)):
        raise Refused(f"--topics {text} is no list of topics' names; write a,b or old:new.")
    for side, which in ((0, "asked for"), (1, "a target")):
        given = [pair[side] for pair in pairs]
        if len(set(given)) < len(given):
            twice = sorted({name for name in given if given.count(name) > 1})
            raise Refused(f"--topics: {some(twice)} is {which} twice.")
    return tuple(sorted(pairs))


def parse_instance(text: str) -> str:
    """Refused unless it is activate, passivate or g<number>."""
    name = text.lower()
    if name in {state.value.lower() for state in State} or (name[:1] == "g" and name[1:].isdecimal()):
        return name
    raise Refused(f"--instance {text} is none; write activate, passivate or g<number>.")
