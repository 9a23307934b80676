"""`aqueduct quorum backup`: which snapshots it reports as incomplete, though it keeps them."""

import json
from pathlib import Path
from typing import Any

import pytest
from kit.identifiers import printed
from kit.quorum_metadata import topic_record

from aqueduct import cli
from aqueduct.common import timestamps
from aqueduct.errors import ExitCode
from aqueduct.messages import MESSAGES
from aqueduct.recovery.quorum.records import batch_of

MINUTE, DAY = 60_000, 86_400_000


class Node:
    """The data folder of a controller, and the store of its backups."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data, self.store, self.capsys = folder / "data", folder / "store", capsys
        (self.data / "__cluster_metadata-0").mkdir(parents=True)
        (self.data / "meta.properties").write_text(f"version=1\ncluster.id={'c' * 22}\nnode.id=101\n")

    def write(self, topics: int, *, age: int = 0, epoch: int = 0) -> None:
        """Let the log have so many topics, with a newest record of an age in milliseconds."""
        values = [topic_record(f"t{number}", number + 1) for number in range(topics)]
        log = batch_of(values, 0, epoch, timestamps.now() - age)
        (self.data / "__cluster_metadata-0" / f"{0:020}.log").write_bytes(log)

    def back_up(self, *options: str) -> tuple[int, dict[str, Any], list[str]]:
        """Return the exit code, the report, and the identifiers that are printed."""
        report = self.data.parent / "report.json"
        code = cli.main(
            [
                *("quorum", "backup", "--data-folder", str(self.data), "--store", self.store.as_uri()),
                *("--report", str(report), *options),
            ]
        )
        said = self.capsys.readouterr()
        document = json.loads(report.read_text())
        assert document["exit_code"] == code
        return code, document, printed(said.out + said.err)


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path, capsys)


def test_backup_of_a_live_log_is_complete(node: Node) -> None:
    node.write(2, age=MINUTE)
    code, report, ids = node.back_up()
    assert (code, ids, report["topics"]) == (ExitCode.DONE, [], 2)
    assert (report["less"], report["stale"]) == ("", "")


def test_backup_with_far_fewer_topics_is_incomplete(node: Node) -> None:
    node.write(9)
    assert node.back_up()[0] == ExitCode.DONE
    node.write(2, epoch=1)
    code, report, ids = node.back_up()
    assert (code, ids, report["snapshot"]) == (ExitCode.INCOMPLETE, ["snapshot-far-less"], 2)
    assert "9 topics" in report["less"]


@pytest.mark.parametrize(
    ("age", "options", "expected"),
    [
        (DAY, (), ["quorum-metadata-stale"]),
        (16 * MINUTE, (), ["quorum-metadata-stale"]),
        (-DAY, (), ["time-in-future"]),
        (16 * MINUTE, ("--within", "20m"), []),
        (3 * MINUTE, ("--within", "2m"), ["quorum-metadata-stale"]),
        (DAY, ("--within", "0s"), []),  # of controllers that write nothing while nothing changes
    ],
)
def test_backup_of_an_old_log_is_incomplete(
    node: Node, age: int, options: tuple[str, ...], expected: list[str]
) -> None:
    """The controller is stopped or cut off: each backup would read the same log again."""
    node.write(2, age=age)
    code, report, ids = node.back_up(*options)
    assert (code, ids) == (ExitCode.INCOMPLETE if expected else ExitCode.DONE, expected)
    assert report["snapshot"] == 1, "it is kept all the same"
    assert bool(report["stale"]) == bool(expected)
    assert {*ids} <= MESSAGES.keys()
