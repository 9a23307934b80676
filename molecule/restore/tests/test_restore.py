"""A cluster is restored from the store alone. Each consumer group resumes at its next record."""

import json
import re

import pytest
import sandboxes
from backed_up import number
from estate import (
    BY_BROKER,
    COMPACTED,
    EDGE,
    KINDS,
    LAKE,
    LONGEST,
    OPEN,
    SITE,
    STORE,
    TRANSACTIONS,
    Estate,
)
from lab import wait_until
from loss import GROUPS, Outcome

TOPICS = ["flights", EDGE, LONGEST, BY_BROKER, TRANSACTIONS, OPEN]


def test_every_service_is_in_its_sandbox(estate: Estate) -> None:
    """The lake's broker and its mirrors are on Debian 13, the other hosts on Debian 12."""
    sandboxes.check(estate.lab)
    releases = {host: estate.lab.run(host, "cat", "/etc/os-release").stdout for host in (SITE, LAKE)}
    assert ["trixie" in releases[SITE], "trixie" in releases[LAKE]] == [False, True]


@pytest.mark.parametrize("topic", TOPICS, ids=lambda name: name[:20])
def test_every_record_is_there_as_it_was(outcome: Outcome, topic: str) -> None:
    assert sum(map(len, outcome.before[topic].values())) > 0
    assert outcome.after[topic] == outcome.before[topic]


def test_a_compacted_topic_has_what_it_had(outcome: Outcome) -> None:
    """Compaction goes on at both ends, so only what is the last of its key must be there."""
    before, after = outcome.before[COMPACTED][0], outcome.after[COMPACTED][0]
    remaining = iter(before)
    assert all(record in remaining for record in after), "it has other records, or in another order"
    assert {each.key: each for each in after} == {each.key: each for each in before}


def test_the_comparison_looks_at_all_kinds_of_records(outcome: Outcome) -> None:
    assert outcome.before[EDGE][0] == KINDS
    assert [
        record.value for record in outcome.before[TRANSACTIONS][0] if b"abort" in (record.value or b"")
    ] == []
    assert len(outcome.before[TRANSACTIONS][0]) == 35
    assert len(outcome.before[OPEN][0]) == 10
    assert len(outcome.before[COMPACTED][0]) < 400


@pytest.mark.parametrize("group", GROUPS)
def test_restored_group_continues_at_next_record(outcome: Outcome, group: str) -> None:
    assert outcome.next_after[group] == outcome.next_before[group]


def test_a_group_keeps_its_metadata(estate: Estate, outcome: Outcome) -> None:
    assert outcome.next_after
    assert estate.committed("inside", EDGE).metadata.rstrip("\0") == "of inside"


def test_group_at_log_end_receives_only_new_records(estate: Estate, outcome: Outcome) -> None:
    for group in ("at-the-end", "at-the-end-of-transactions"):
        assert outcome.next_after[group] is None
        topic, partition = GROUPS[group]
        estate.write(topic, [number(1)], partition)
        assert estate.next_record(group, topic, partition) == number(1)


@pytest.mark.parametrize("topic", [*TOPICS, COMPACTED], ids=lambda name: name[:20])
def test_settings_are_as_they_were(outcome: Outcome, topic: str) -> None:
    before, after = outcome.settings[topic]
    assert after == before  # no retention is held: none of them would delete what was restored


def test_acls_and_quotas_are_as_they_were(estate: Estate, outcome: Outcome) -> None:
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    admin = estate.lab.admin(SITE)

    def rights(principal: str) -> list[str]:
        wanted = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, principal, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        return [acl.name for acl in admin.describe_acls(wanted).result()]

    assert rights("User:app") == [EDGE]
    assert rights("User:planted") == [], "who may write to the store gives nobody rights"
    # A timer binds the mirror's positions to its topics, and may have come before the site was lost.
    left_out = {*outcome.left_out} - {("mirror-position-unbound", "mirror pro1")}
    assert left_out == {("acl-not-allowed", "1 ACL of User:planted")}
    assert "producer_byte_rate=1234567" in estate.quota("--describe", user="app")


def test_the_lake_neither_skips_nor_doubles(estate: Estate, outcome: Outcome) -> None:
    assert outcome.after["flights"]
    estate.write("flights", [number(each) for each in range(1_000)])
    here = estate.lab.read(SITE, "flights")
    assert sum(map(len, here.values())) == sum(map(len, outcome.before["flights"].values())) + 1_000
    wait_until("what came after the restore in the lake", lambda: estate.lab.read(LAKE, "flights") == here)
    done = estate.lab.play("reconcile")
    assert done.returncode == 0, done.stdout


def test_the_open_transaction_was_told(outcome: Outcome) -> None:
    assert re.search(r"open-0: an open transaction ends the backup at offset \d+", outcome.backup_said)


def test_prune_timer_removes_only_orphans(estate: Estate, outcome: Outcome) -> None:
    """Under systemd, with credentials that the backup's own service can't read."""
    assert outcome.backup_said
    run = estate.lab.run
    assert run(SITE, "systemctl", "is-active", "backup_prune.timer").stdout.strip() == "active"
    named = estate.objects("backup/pro1")
    orphan = named[0].with_name(re.sub(r"^\d{20}", "00000009999999999999", named[0].name))
    run(STORE, "cp", "--preserve=all", str(named[0]), str(orphan))
    run(STORE, "touch", "--date=10 days ago", str(orphan))
    assert orphan in estate.objects("backup/pro1")
    done = run(SITE, "systemctl", "start", "--wait", "backup_prune.service", check=False)
    said = estate.lab.journal(SITE, "--unit=backup_prune")
    assert done.returncode == 0, said
    assert "and 1 orphan (" in said
    assert estate.objects("backup/pro1") == named
    file = "/etc/aqueduct/backup/prune.environment"
    assert run(SITE, "test", "-f", file).returncode == 0
    assert run(SITE, "runuser", "-u", "aqueduct-backup", "--", "cat", file, check=False).returncode != 0


def test_a_timer_verifies_the_newest_snapshot(estate: Estate, outcome: Outcome) -> None:
    assert outcome.backup_said
    run = estate.lab.run
    assert run(SITE, "systemctl", "is-active", "backup_verify.timer").stdout.strip() == "active"
    done = run(SITE, "systemctl", "start", "--wait", "backup_verify.service", check=False)
    assert done.returncode == 0, estate.lab.journal(SITE, "--unit=backup_verify")
    report = json.loads(run(SITE, "cat", "/var/lib/aqueduct-backup/backup_verify.json").stdout)
    assert (report["verb"], report["damaged"]) == ("verify", [])
    assert report["exit_code"] in (0, 3)
    page = run(SITE, "cat", "/var/lib/aqueduct-backup-metrics/aqueduct_backup_verify.prom").stdout
    assert f"aqueduct_backup_verify_snapshot {float(report['snapshot'])}" in page
    assert "aqueduct_backup_verify_succeeded_time " in page


@pytest.mark.parametrize("host", [SITE, LAKE])
def test_timer_ends_hanging_transactions_on_every_broker(estate: Estate, outcome: Outcome, host: str) -> None:
    """Each broker looks every two minutes, by itself; mirrors would wait for ever otherwise."""
    assert outcome.restore_said  # the rebuilt site, too

    def shown(unit: str, *names: str) -> list[str]:
        show = ("systemctl", "show", f"--property={','.join(names)}", unit)
        found = dict(line.split("=", 1) for line in estate.lab.run(host, *show).stdout.splitlines())
        return [found[name] for name in names]

    states = shown("kafka_transactions.timer", "UnitFileState", "ActiveState")
    assert states == ["enabled", "active"]

    def has_run() -> bool:
        ended, code = shown("kafka_transactions.service", "ExecMainExitTimestampMonotonic", "ExecMainStatus")
        return ended != "0" and code == "0"

    wait_until("a run of its own that found nothing, or ended what it found", has_run, every=2)


def test_a_misspelt_topic_stops_no_service(estate: Estate, outcome: Outcome) -> None:
    """The restore is checked before what reads the site is stopped: each unit is the same start of it."""
    assert outcome.restore_said
    units = [(LAKE, "mirror_maker@pro1"), (SITE, "kafka"), (SITE, "backup_prune.timer")]

    def starts() -> list[str]:
        show = ("systemctl", "show", "--value", "--property=InvocationID")
        return [estate.lab.run(host, *show, unit).stdout.strip() for host, unit in units]

    before = starts()
    assert all(before)
    done = estate.lab.play("restore", site="pro1", topics="flihgts")
    assert done.returncode != 0
    assert "snapshot-topic-unknown" in done.stdout, done.stdout
    assert starts() == before
    active = estate.lab.run(LAKE, "systemctl", "is-active", "mirror_maker@pro1", check=False)
    assert active.stdout.strip() == "active"
