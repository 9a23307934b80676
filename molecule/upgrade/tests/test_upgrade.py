"""An older estate is upgraded while records flow, and is rolled back as far as formats permit."""

import pytest
from upgrade import COPIED, LAKE, MIRRORED, MORE, PARTITIONS, SECOND, SOURCE, Outcome, count

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(7200)
TOPICS = (MIRRORED, COPIED)
# The brokers that run with the newer release, by step.
UPGRADED: dict[str, set[str]] = {
    "older": set(),
    "both": {LAKE},
    "newer": {SOURCE, LAKE},
    "back": set(),
    "again": {SOURCE, LAKE},
}


@pytest.mark.parametrize(("step", "upgraded"), UPGRADED.items())
def test_broker_unit_matches_release_that_deployed_it(
    outcome: Outcome, step: str, upgraded: set[str]
) -> None:
    assert {host for host, limit in outcome.deployed[step].memory_limited.items() if limit} == upgraded


@pytest.mark.parametrize(("step", "upgraded"), UPGRADED.items())
def test_broker_setting_matches_release_that_deployed_it(
    outcome: Outcome, step: str, upgraded: set[str]
) -> None:
    buffers = outcome.deployed[step].send_buffer
    assert {host for host, size in buffers.items() if size == "-1"} == upgraded


@pytest.mark.parametrize(("step", "newer_format"), [("older", False), ("both", True), ("newer", True)])
def test_stored_positions_have_format_of_writing_release(
    outcome: Outcome, step: str, newer_format: bool
) -> None:
    assert outcome.deployed[step].has_source_end == newer_format


@pytest.mark.parametrize(
    ("step", "shared"), [("older", False), ("both", False), ("newer", True), ("back", False), ("again", True)]
)
def test_second_host_shares_flow_only_with_newer_release(outcome: Outcome, step: str, shared: bool) -> None:
    assert outcome.deployed[step].is_shared == shared


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("step", ["older", "both", "newer", "again"])
def test_records_flow_after_each_step(outcome: Outcome, step: str, topic: str) -> None:
    assert outcome.arrived[step][topic] >= MORE * PARTITIONS


def test_a_second_run_changes_nothing(outcome: Outcome) -> None:
    assert outcome.second_run.keys() >= {SOURCE, LAKE, SECOND}
    assert set(outcome.second_run.values()) == {0}


def test_newer_release_verifies_backup_of_older_release(outcome: Outcome) -> None:
    assert outcome.verify_code == 0


def test_newer_release_restores_backup_of_older_release(outcome: Outcome) -> None:
    """All records that were acknowledged before the backup, and no other ones."""
    assert outcome.restore_code == 0
    for partition, acknowledged in outcome.backed_up.items():
        restored = outcome.restored[partition]
        assert len(restored) >= acknowledged > 0
        assert restored == outcome.source[MIRRORED][partition][: len(restored)]


def test_older_release_refuses_positions_of_newer_release(outcome: Outcome) -> None:
    assert outcome.back is not None
    assert outcome.back.returncode != 0
    assert "[mirror-position-unreadable]" in outcome.back.stdout


def test_mirror_maker_copies_after_the_way_back(outcome: Outcome) -> None:
    assert outcome.arrived["back"][MIRRORED] >= MORE * PARTITIONS


@pytest.mark.parametrize("topic", TOPICS)
def test_the_source_has_exactly_the_acknowledged_records(outcome: Outcome, topic: str) -> None:
    assert count(outcome.acknowledged[topic]) > 1000
    assert outcome.source[topic] == outcome.acknowledged[topic]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_lake_has_exactly_the_acknowledged_records(outcome: Outcome, topic: str) -> None:
    assert outcome.lake[topic] == outcome.acknowledged[topic]
