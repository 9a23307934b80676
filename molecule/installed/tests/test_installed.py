"""The commands of the install guide install, deploy, back up and restore, without a checkout.

A control node sees the package and the collection, and not the checkout (guide.py). Another client reads the
records.
"""

import pytest
from control_node import changes
from guide import AGAIN, PAGE, ROOT, Block, ControlNode, blocks
from outcome import Outcome

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(7200)
RECORDS = {(f"crew-{number}".encode(), f"duty {number}".encode()) for number in range(1, 1001)}


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.name)
def test_commands_of_the_guide_succeed(outcome: Outcome, block: Block) -> None:
    run = outcome.runs[block.name]
    assert run.code == 0, run.output[-5000:]


def test_commands_do_not_see_the_checkout(node: ControlNode) -> None:
    assert PAGE.exists()
    assert node.run_commands(f"ls -A {ROOT}").output == ""
    [package] = node.run_commands(
        "cd /; python -c 'import aqueduct; print(aqueduct.__file__)'"
    ).output.split()
    assert package.startswith(f"{node.files}/environment/")


def test_the_package_installs_nothing_for_development(node: ControlNode) -> None:
    installed = {line.partition("==")[0] for line in node.run_commands("pip freeze").output.splitlines()}
    assert {"ansible-core", "kafka-python", "confluent-kafka"} <= installed
    assert installed & {"molecule", "pytest", "ruff", "pyspark"} == set()


def test_the_last_deployment_changes_nothing(outcome: Outcome) -> None:
    *_, again = (block for block in blocks() if block.commands == f"{AGAIN}\n")
    changed = changes(outcome.runs[again.name].output)
    assert {"pro1-kafka-1", "lake1-kafka-1", "lake1-store-1"} <= changed.keys()
    assert set(changed.values()) == {0}


def test_the_topic_has_the_written_records(outcome: Outcome) -> None:
    records = [record for partition in outcome.written.values() for record in partition]
    assert len(outcome.written) == 3
    assert len(records) == len(RECORDS)
    assert {(record.key, record.value) for record in records} == RECORDS


def test_restored_records_are_those_that_were_written(outcome: Outcome) -> None:
    """In each partition: keys, values, headers, timestamps, order and number."""
    assert outcome.written
    assert outcome.restored == outcome.written


def test_mirrored_records_are_those_that_were_written(outcome: Outcome) -> None:
    assert outcome.written
    assert outcome.mirrored == outcome.written


def test_the_reader_s_command_shows_the_last_records(outcome: Outcome) -> None:
    [shown] = (run.output for run in outcome.runs.values() if "duty 1000" in run.output)
    lines = [line for line in shown.splitlines() if line.startswith("duty ")]
    assert lines == ["duty 998", "duty 999", "duty 1000"]


def test_the_lab_is_removed_with_its_keys(outcome: Outcome, node: ControlNode) -> None:
    assert (outcome.containers, outcome.containers_left) == (3, 0)
    assert not (node.inventory / "pki").exists()


def test_a_repository_installs_the_files_of_a_release(outcome: Outcome, node: ControlNode) -> None:
    assert outcome.runs
    assert (node.files / "local/.venv/bin/aqueduct").is_file()
    assert (node.files / "local/collections/ansible_collections/aqueduct/estate/VERSION").is_file()
