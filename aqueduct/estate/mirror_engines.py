"""The deployed engine of each flow of a host, derived from files, and flows whose engine was changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

# The engine by the file that only it has in the folder of a flow. The role mirror_maker removes other files.
ENGINE_FILES = {"mm2.properties": "mm2", "replicate.yml": "batches", "consumer.cfg": "classic"}


@dataclass(frozen=True, kw_only=True)
class EngineChange:
    """A flow whose declared engine differs from the deployed engine."""

    flow: str
    deployed: str
    declared: str


def engine_changes(paths: Iterable[str], declared: Mapping[str, str]) -> list[EngineChange]:
    """Return the flows of a host whose engine was changed.

    `paths`: files in the folders of its flows. `declared`: the declared engine by flow. A host without files
    of a flow is new. Files of both engines are no change: the deployment was interrupted, and each engine
    checks at its start whether it may run the flow.
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
