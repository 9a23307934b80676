"""Playbooks make connectors as the inventory declares. A replay returns each dead-letter record once.

Each test goes on where the one before it ended; afterwards all is as the inventory has it.
"""

from collections.abc import Iterator

import pytest
from lab import wait_until
from lake import BROKER, FROM_FILES, POISON, TO_DATABASE, TO_FILES, WORKERS, Site

NOTE = b"a note that is no JSON"


@pytest.fixture(scope="module", autouse=True)
def afterwards_as_declared(poisoned: Site) -> Iterator[None]:
    pids = [poisoned.show(host, "MainPID") for host in WORKERS]
    yield
    poisoned.play(poisoned.declared())
    # Each worker hears of a configuration by Kafka, the one that is asked here perhaps later than others.
    wait_until(
        "the declared configuration",
        lambda: "batch.size" not in poisoned.rest(f"/connectors/{TO_DATABASE}/config"),
    )
    poisoned.wait_until_all_run(*WORKERS)
    assert [poisoned.show(host, "MainPID") for host in WORKERS] == pids  # no worker is touched


def test_a_change_is_shown_before_it_is_made(site: Site) -> None:
    # The second key is misspelt, which Connect itself does not mind.
    changed = site.declared({TO_DATABASE: {"batch.size": 77, "insert.mod": "insert"}})
    shown = " ".join(site.play(changed, "--check", "--diff").split())
    assert "batch.size" in shown
    assert "changed=1" in shown
    assert f"[connector-setting-unknown] Connector {TO_DATABASE}: insert.mod " in shown
    assert "insert.mode?" in shown
    assert "batch.size" not in site.rest(f"/connectors/{TO_DATABASE}/config")


def test_declaration_change_updates_only_affected_connectors(site: Site) -> None:
    before = site.rest("/connectors?expand=info")
    changed = site.declared({TO_DATABASE: {"batch.size": 77}}, paused=FROM_FILES)
    assert "changed=1" in site.play(changed)
    wait_until(
        "the changed setting",
        lambda: site.rest(f"/connectors/{TO_DATABASE}/config").get("batch.size") == "77",
    )
    after = site.rest("/connectors?expand=info")
    assert [name for name in before if before[name] != after[name]] == [TO_DATABASE]
    site.wait_until_states(FROM_FILES, "PAUSED")
    site.wait_until_states(TO_DATABASE, "RUNNING")


def test_dead_letter_replay_returns_each_record_once(poisoned: Site) -> None:
    """Only the connector declared absent is deleted; one that is merely not listed still runs."""
    known = len(poisoned.letters(TO_FILES))
    poisoned.write("notes", [NOTE])
    wait_until("it as a dead-letter record", lambda: len(poisoned.letters(TO_FILES)) > known)
    assert NOTE.decode() not in poisoned.notes()

    text = "org.apache.kafka.connect.storage.StringConverter"
    repaired = poisoned.declared({TO_FILES: {"value.converter": text}}, absent=FROM_FILES)
    poisoned.play([each for each in repaired if each["name"] != TO_DATABASE])
    wait_until("one connector less", lambda: poisoned.ask(f"/connectors/{FROM_FILES}")[0] == 404)
    poisoned.wait_until_states(TO_DATABASE, "RUNNING")  # though it is not listed

    for _ in range(2):  # what was sent back is not sent again
        done = poisoned.lab.play("dlq_replay", connector=TO_FILES)
        assert done.returncode == 0, done.stdout
    # One more record, behind all of them: when it has arrived, so have they.
    poisoned.write("notes", [b"the last"])
    wait_until("what came after them", lambda: "the last" in poisoned.notes())
    arrived = poisoned.notes()
    assert arrived.count(NOTE.decode()) == 1
    assert arrived.count(POISON.decode()) == 1
    again = [record for record in poisoned.lab.read(BROKER, "notes")[0] if record.header("aqueduct.replay")]
    assert {record.header("aqueduct.replay") for record in again} == {b"1"}
    letters = [record.value for record in poisoned.letters(TO_FILES)]
    assert sorted(record.value or b"" for record in again) == sorted(value or b"" for value in letters)
