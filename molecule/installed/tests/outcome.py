"""What the guide's commands leave: their exit codes, and the records of its topic, read by another client."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from guide import DEPLOYMENT, REMOVAL, ControlNode, Run, block_with, blocks
from lab import Lab, Record, wait_until

SOURCE, LAKE = "pro1-kafka-1", "lake1-kafka-1"
WRITTEN, RESTORED, MIRRORED = "crews", "crews-restored", "pro1.crews"
LABEL = "label=aqueduct.lab=aqueduct-starter"

Topic = dict[int, list[Record]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    runs: Mapping[str, Run]  # by the name of the block
    written: Topic
    restored: Topic
    mirrored: Topic
    containers: int  # before they were removed
    containers_left: int


def finish_guide(node: ControlNode, lab: Lab) -> Outcome:
    """Run the blocks after the deployment, each one even if one before it failed."""
    deployment, removal = (blocks().index(block_with(commands)) for commands in (DEPLOYMENT, REMOVAL))
    for block in blocks()[deployment + 1 : removal]:
        node.run(block)
    written, restored = read(lab, SOURCE, WRITTEN), read(lab, SOURCE, RESTORED)
    mirrored = read_mirrored(lab, written)
    containers = count_containers()
    node.run(blocks()[removal])
    containers_left = count_containers()
    for block in blocks()[removal + 1 :]:
        node.run(block)
    return Outcome(
        runs=node.runs(),
        written=written,
        restored=restored,
        mirrored=mirrored,
        containers=containers,
        containers_left=containers_left,
    )


def read(lab: Lab, host: str, topic: str) -> Topic:
    """Return the records of a topic by partition; nothing if the topic does not exist."""
    return lab.read(host, topic) if topic in lab.admin(host).list_topics(timeout=60).topics else {}


def read_mirrored(lab: Lab, written: Topic) -> Topic:
    """Return the records at the lake, if possible after as many have arrived as were written."""

    def have_arrived() -> bool:
        return sum(map(len, read(lab, LAKE, MIRRORED).values())) >= sum(map(len, written.values()))

    try:
        wait_until(f"the records of {WRITTEN} in the lake", have_arrived)
    except AssertionError as error:
        print(error)
    return read(lab, LAKE, MIRRORED)


def count_containers() -> int:
    listing = ("docker", "ps", "--all", "--quiet", "--filter", LABEL)
    return len(subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split())
