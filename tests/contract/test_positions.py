"""Every position that the product stores is attacked: its topic is re-created, cut, and grows past it.

The table in the decision lists the holders; here are the tests that attack each. Such a test runs in CI, with
real brokers. It re-creates a topic or cuts a log by itself, and uses what holds the position.
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

CUT_FLOW = "attack/test_cut_logs.py", "test_batches_mirror_continues_where_log_was_truncated"
FLOW_GROUPS = (
    "broker/test_mirror_engine_groups.py",
    "test_groups_continue_after_source_log_is_replaced",
)
OTHER_GROUPS = (
    "broker/test_restore.py",
    "test_former_instance_of_recreated_topic_is_restored_separately",
)
OTHER_DRILLED = "store/test_drill.py", "test_another_topic_of_the_name_is_left_out"
CUT_DRILLED = "store/test_drill.py", "test_drill_reports_changed_and_cut_live_partitions"

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
        CUT_FLOW,
        CUT_FLOW,
    ),
    "groups that a mirror (`batches`) synchronises": (FLOW_GROUPS,) * 3,
    "groups that a mirror synchronises": (
        ("broker/test_mirror_positions.py", "test_groups_of_other_log_are_unknown_until_accepted"),
    )
    * 3,
    "sending end of a link": (
        ("attack/test_cut_logs.py", "test_link_sends_recreated_topic_from_start"),
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
        OTHER_GROUPS,
        ("broker/test_restore.py", "test_group_beyond_snapshot_is_set_to_log_end"),
        OTHER_GROUPS,
    ),
    "replay of dead-letter records": (ANOTHER_LETTERS, CUT_LETTERS, CUT_LETTERS),
    "drill": (OTHER_DRILLED, CUT_DRILLED, CUT_DRILLED),
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


# How a test makes an attack. After a cut, what is written may grow past the position.
MEANS = {
    "re-created": r"\brecreate\(|\bclients\.recreate\b|\bclients\.delete\(",
    "cut": r"\b(?:cut|cut_log|cut_logs|cut_partitions|lose)\(",
    "grown again": r"\b(?:cut|cut_log|cut_logs|cut_partitions|lose|recreate)\(|\bclients\.recreate\b",
}
# What a test of each holder uses.
USES = {
    "mirror (MirrorMaker 2)": "--before-start|mirror_maker",
    "mirror (classic)": "classic",
    "mirror (`batches`)": r"replicate|\bflow\.catch_up\(",
    "groups that a mirror (`batches`) synchronises": "--groups-pattern",
    "groups that a mirror synchronises": "sync.group.offsets.enabled",
    "sending end of a link": r"\bfeed\.commit\(",
    "dedup": r"\bdedup",
    "resend bundle": r"\bbundle_file\b",
    "landing": r"\bland\(",
    "backup": r"\b(?:backup\.run|back_up)\(",
    "restore's own progress": r"\brestore\(",
    "consumer groups in a backup": r"(?s)\bcommit\(.*\brestore\(",
    "replay of dead-letter records": "replay",
    "drill": r"\bdrill\(",
    "export": r"\bexport\(",
    "Connect sinks": r"\bmodule\(",
}


def definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return what a module defines at its top level, by name."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def text_of(name: str, defined: dict[str, ast.stmt]) -> str:
    """Return a function with all of its module that it uses, fixtures included, without docstrings."""
    texts: dict[str, str] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in defined and each not in texts:
            node = defined[each]
            texts[each] = ast.unparse(node)
            waiting += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
            waiting += [part.arg for part in ast.walk(node) if isinstance(part, ast.arg)]
    return "\n".join(texts.values())


def marks(node: ast.stmt) -> str:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
    return "\n".join(map(ast.unparse, decorators))


@pytest.mark.parametrize("holder", HOLDERS)
def test_each_attack_is_made_by_its_test(holder: str) -> None:
    attacks = dict(zip(ATTACKS, HOLDERS[holder], strict=True))
    for attack, test in attacks.items():
        if isinstance(test, str):
            assert holder == "Connect sinks"
            continue
        file, name = test
        assert not file.startswith("unit/"), f"{name} has no broker"
        defined = definitions(ast.parse((ROOT / "tests" / file).read_text()))
        text = text_of(name, defined)
        assert re.search(MEANS[attack], text), f"{name}: not {attack}"
        assert re.search(USES[holder], text), f"{name}: without {holder}"
        # A case may be long, if there is another one.
        long = [mark for mark in marks(defined[name]).splitlines() if re.match(r"pytest\.mark\.long", mark)]
        assert not long, f"CI does not run {name}"
        assert "pytestmark" not in defined or "long" not in marks(defined["pytestmark"])


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
