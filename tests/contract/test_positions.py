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
MIRROR = "broker/test_mirror_positions.py", "test_a_stopped_mirror_continues_where_nothing_is_lost_or_doubled"
CUT_LINK = (
    "attack/test_cut_logs.py",
    "test_a_link_sends_nothing_of_a_log_that_was_cut_and_has_grown_again",
)
CUT_BACKUP = "attack/test_cut_logs.py", "test_a_log_that_was_cut_and_has_grown_again_is_named"
CUT_LANDING = "attack/test_cut_logs.py", "test_a_landing_skips_a_log_that_was_cut_and_has_grown_again"
CHANGED_TARGET = (
    "attack/test_restored_topics.py",
    "test_a_topic_that_changes_while_it_is_restored_fails_the_run",
)
CUT_LETTERS = "broker/test_dead_letters.py", "test_letters_at_offsets_that_were_cut_are_new"
ANOTHER_LETTERS = "broker/test_dead_letters.py", "test_letters_of_a_topic_that_was_made_anew_are_new"
RECREATED_RAW = "broker/test_dedup.py", "test_a_raw_topic_that_was_recreated_is_read_from_its_start"
CUT_RAW = "broker/test_dedup.py", "test_a_raw_topic_that_was_cut_is_read_on_where_it_was_cut"
CUT_BUNDLE = (
    "broker/test_link_resend.py",
    "test_offsets_that_a_log_lost_are_reported_and_sent_once_it_has_them_again",
)
EXPORT = (
    "broker/test_export.py",
    "test_an_export_has_what_its_snapshot_has_whatever_became_of_the_topic",
)
NO_POSITION_OF_OURS = (
    "Connect's consumer alone reads and writes the position: nothing of ours is between it and Kafka's "
    "reset, and no verb calls a sink caught up"
)
OTHER_BUNDLE = "broker/test_link_resend.py", "test_what_is_missing_of_another_topic_is_not_sent_from_this_one"
CUT_CLASSIC = (
    "broker/test_classic_mirror.py",
    "test_a_log_that_was_cut_is_reported_until_that_is_accepted",
)

MIRROR_ENGINE = "unit/test_mirror_engine_position.py", "test_each_record_arrives_once_or_is_listed"

# Of each holder its attacks, in the order of ATTACKS: a test, or why there is nothing to attack.
HOLDERS: dict[str, tuple[tuple[str, str] | str, ...]] = {
    "mirror (MirrorMaker 2)": (MIRROR, MIRROR, MIRROR),
    "mirror (classic)": (
        (
            "broker/test_classic_mirror.py",
            "test_a_running_mirror_whose_topic_is_recreated_is_reported_until_that_is_accepted",
        ),
        CUT_CLASSIC,
        CUT_CLASSIC,
    ),
    "mirror (`batches`)": (
        (
            "broker/test_mirror_engine.py",
            "test_source_topic_that_is_recreated_is_mirrored_from_its_beginning",
        ),
        ("attack/test_cut_logs.py", "test_mirror_of_batches_continues_where_a_log_was_cut"),
        MIRROR_ENGINE,
    ),
    "groups that a mirror (`batches`) synchronises": (
        ("unit/test_mirror_engine_translation.py", "test_checkpoints_of_an_earlier_topic_are_not_used"),
        ("unit/test_mirror_engine_translation.py", "test_no_record_is_skipped_where_a_log_was_cut"),
        ("unit/test_mirror_engine_translation.py", "test_no_record_is_skipped_where_a_log_was_cut"),
    ),
    "groups that a mirror synchronises": (
        ("broker/test_mirror_positions.py", "test_groups_of_another_log_are_unknown_until_that_is_accepted"),
    )
    * 3,
    "sending end of a link": (
        ("broker/test_restore.py", "test_a_link_goes_on_at_the_same_record_in_the_new_topic"),
        CUT_LINK,
        CUT_LINK,
    ),
    "dedup": (RECREATED_RAW, CUT_RAW, CUT_RAW),
    "resend bundle": (OTHER_BUNDLE, CUT_BUNDLE, CUT_BUNDLE),
    "landing": (
        ("broker/test_land.py", "test_a_topic_that_was_made_again_is_not_landed"),
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
            "test_a_topic_that_was_deleted_is_restored_anew_and_the_others_are_left_alone",
        ),
        CHANGED_TARGET,
        CHANGED_TARGET,
    ),
    "consumer groups in a backup": (
        ("broker/test_restore.py", "test_what_was_there_before_the_topic_was_made_again"),
        ("broker/test_restore.py", "test_a_group_beyond_the_snapshot_is_set_to_the_end_and_named"),
        ("broker/test_restore.py", "test_what_was_there_before_the_topic_was_made_again"),
    ),
    "replay of dead-letter records": (ANOTHER_LETTERS, CUT_LETTERS, CUT_LETTERS),
    "drill": (
        ("store/test_drill.py", "test_another_topic_of_the_name_is_left_out"),
        ("store/test_drill.py", "test_a_live_cluster_that_has_other_records_or_ends_before_is_told"),
        ("store/test_drill.py", "test_another_topic_of_the_name_is_left_out"),
    ),
    "export": (EXPORT,) * 3,
    "Connect sinks": (
        ("broker/test_connect.py", "test_a_stopped_sink_reads_a_recreated_topic_from_its_start"),
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


def test_whoever_keeps_a_topic_s_id_is_a_holder() -> None:
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
