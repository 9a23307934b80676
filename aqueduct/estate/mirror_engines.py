"""The engine that a host has deployed for each flow, by its files, and flows whose engine was changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

# The file of a flow's folder that only this engine has; the role mirror_maker removes those of others.
ENGINE_FILES = {"mm2.properties": "mm2", "replicate.yml": "batches", "consumer.cfg": "classic"}


@dataclass(frozen=True, kw_only=True)
class EngineChange:
    """A flow whose declared engine is another one than the deployed one."""

    flow: str
    deployed: str
    declared: str


def engine_changes(paths: Iterable[str], declared: Mapping[str, str]) -> list[EngineChange]:
    """Return the changed flows of a host. `paths`: files of its flows' folders; `declared`: engines by flow.

    A host without files of a flow is new. One with files of both engines was interrupted while they were
    written, and an engine checks at its start whether it has the flow.
    """
    deployed: dict[str, set[str]] = {}
    for path in map(PurePosixPath, paths):
        if engine := ENGINE_FILES.get(path.name):
            deployed.setdefault(path.parent.name, set()).add(engine)
    return [
        EngineChange(flow=flow, deployed=" and ".join(sorted(deployed[flow])), declared=engine)
        for flow, engine in declared.items()
        if flow in deployed and engine not in deployed[flow]
    ]
