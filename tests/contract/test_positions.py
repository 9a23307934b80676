"""Every position that the product stores is attacked: its topic is re-created, cut, and grows past it.

The table in the decision lists the holders; here are the tests that attack each.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs/decisions/0042-positions.md"
ATTACKS = ("re-created", "cut", "grown again")

# File and function, below tests/.
MIRROR = "broker/test_mirror_positions.py", "test_stopped_mirror_continues_without_losses_or_duplicates"
CUT_LINK = (
    "attack/test_cut_logs.py",
    "test_link_sends_nothing_of_truncated_and_regrown_log",
)
CUT_BACKUP = "attack/test_cut_logs.py", "test_backup_reports_truncated_and_regrown_log"
CUT_LANDING = "attack/test_cut_logs.py", "test_landing_skips_truncated_and_regrown_log"
CHANGED_TARGET = (
    "attack/test_restored_topics.py",
    "test_topic_change_during_restore_fails_run",
)
CUT_LETTERS = "broker/test_dead_letters.py", "test_letters_at_offsets_that_were_cut_are_new"
ANOTHER_LETTERS = "broker/test_dead_letters.py", "test_replay_treats_recreated_dead_letter_topic_as_new"
RECREATED_RAW = "broker/test_dedup.py", "test_recreated_raw_topic_is_read_from_start"
CUT_RAW = "broker/test_dedup.py", "test_dedup_continues_where_raw_topic_was_truncated"
CUT_BUNDLE = (
    "broker/test_link_resend.py",
    "test_truncated_offsets_are_reported_and_resent_once_rewritten",
)
EXPORT = (
    "broker/test_export.py",
    "test_export_equals_snapshot_after_recreation_or_truncation",
)
NO_POSITION_OF_OURS = (
    "Connect's consumer alone reads and writes the position: nothing of ours is between it and Kafka's "
    "reset, and no verb calls a sink caught up"
)
OTHER_BUNDLE = "broker/test_link_resend.py", "test_gaps_of_former_instance_are_not_resent"
CUT_CLASSIC = (
    "broker/test_classic_mirror.py",
    "test_truncated_source_log_is_reported_by_each_run",
)

MIRROR_ENGINE = "unit/test_mirror_engine_position.py", "test_each_record_arrives_once_or_is_listed"

# Of each holder its attacks, in the order of ATTACKS: a test, or why there is nothing to attack.
HOLDERS: dict[str, tuple[tuple[str, str] | str, ...]] = {
    "mirror (MirrorMaker 2)": (MIRROR, MIRROR, MIRROR),
    "mirror (classic)": (
        (
            "broker/test_classic_mirror.py",
            "test_running_mirror_reports_recreated_topic_until_accepted",
        ),
        CUT_CLASSIC,
        CUT_CLASSIC,
    ),
    "mirror (`batches`)": (
        (
            "broker/test_mirror_engine.py",
            "test_recreated_source_topic_is_mirrored_from_start",
        ),
        ("attack/test_cut_logs.py", "test_batches_mirror_continues_where_log_was_truncated"),
        MIRROR_ENGINE,
    ),
    "groups that a mirror (`batches`) synchronises": (
        ("unit/test_mirror_engine_translation.py", "test_checkpoints_of_an_earlier_topic_are_not_used"),
        ("unit/test_mirror_engine_translation.py", "test_translation_across_log_cut_skips_no_record"),
        ("unit/test_mirror_engine_translation.py", "test_translation_across_log_cut_skips_no_record"),
    ),
    "groups that a mirror synchronises": (
        ("broker/test_mirror_positions.py", "test_groups_of_other_log_are_unknown_until_accepted"),
    )
    * 3,
    "sending end of a link": (
        ("broker/test_restore.py", "test_link_continues_at_same_record_in_new_topic"),
        CUT_LINK,
        CUT_LINK,
    ),
    "dedup": (RECREATED_RAW, CUT_RAW, CUT_RAW),
    "resend bundle": (OTHER_BUNDLE, CUT_BUNDLE, CUT_BUNDLE),
    "landing": (
        ("broker/test_land.py", "test_recreated_topic_is_not_landed"),
        CUT_LANDING,
        CUT_LANDING,
    ),
    "backup": (
        ("broker/test_backup.py", "test_a_topic_that_was_made_again_is_another"),
        CUT_BACKUP,
        CUT_BACKUP,
    ),
    "restore's own progress": (
        (
            "broker/test_restore.py",
            "test_deleted_topic_is_restored_again_without_touching_others",
        ),
        CHANGED_TARGET,
        CHANGED_TARGET,
    ),
    "consumer groups in a backup": (
        ("broker/test_restore.py", "test_former_instance_of_recreated_topic_is_restored_separately"),
        ("broker/test_restore.py", "test_group_beyond_snapshot_is_set_to_log_end"),
        ("broker/test_restore.py", "test_former_instance_of_recreated_topic_is_restored_separately"),
    ),
    "replay of dead-letter records": (ANOTHER_LETTERS, CUT_LETTERS, CUT_LETTERS),
    "drill": (
        ("store/test_drill.py", "test_another_topic_of_the_name_is_left_out"),
        ("store/test_drill.py", "test_drill_reports_changed_and_cut_live_partitions"),
        ("store/test_drill.py", "test_another_topic_of_the_name_is_left_out"),
    ),
    "export": (EXPORT,) * 3,
    "Connect sinks": (
        ("broker/test_connect.py", "test_stopped_sink_reads_recreated_topic_from_start"),
        NO_POSITION_OF_OURS,
        NO_POSITION_OF_OURS,
    ),
}


def test_the_decision_lists_every_holder() -> None:
    section = TABLE.read_text().partition("## Who holds positions")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows[1:] == [*HOLDERS]


@pytest.mark.parametrize("holder", HOLDERS)
def test_each_attack_is_a_test_that_exists(holder: str) -> None:
    attacks = HOLDERS[holder]
    assert len(attacks) == len(ATTACKS)
    for attack in attacks:
        if isinstance(attack, tuple):
            file, name = attack
            tree = ast.parse((ROOT / "tests" / file).read_text())
            [test] = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
            marks = {ast.unparse(mark) for mark in test.decorator_list}
            assert "pytest.mark.long" not in marks, f"CI does not run {name}"


def test_modules_that_store_topic_ids_are_known_holders() -> None:
    """Find the modules that keep ids of topics: a new one may be a new holder."""
    storing = {
        str(path.relative_to(ROOT / "aqueduct").with_suffix(""))
        for path in (ROOT / "aqueduct").rglob("*.py")
        if re.search(r"^    topic_ids?: ", path.read_text(), re.MULTILINE)
    }
    assert storing == {
        "kafka/fetch",
        "kafka/follow",
        "kafka/share_groups",
        "land/log",
        "land/plan",
        "land/reset",
        "land/task",
        "land/verify",
        "link/dedup/raw_position",
        "link/dedup/share",
        "link/feed",
        "link/ledger/bundle",
        "link/ledger/lineage",
        "link/ledger/losses",
        "link/resend",
        "link/wire/frame",
        "link/wire/position",
        "mirror/binding",
        "mirror/classic_binding",
        "mirror/engine/position",
        "recovery/broker_ids/disk_logs",
        "recovery/broker_ids/log_comparison",
        "snapshots/backup/plan",
        "snapshots/restore/progress",
        "store/manifest",
    }
