from dataclasses import replace

import pytest
from kit.identifiers import printed

from aqueduct.errors import ExitCode, Skipped
from aqueduct.kafka.batches.cutting import Window
from aqueduct.snapshots.restore import groups_only, report, rights
from aqueduct.snapshots.restore.groups_only import GroupsRestored
from aqueduct.snapshots.restore.outcome import Move, RestoreOutcome, Rights, Warned, Written
from aqueduct.snapshots.restore.plan import RestoreLane, RestorePlan
from aqueduct.snapshots.restore.progress import RestoreProgress
from aqueduct.store.manifest import Instance, InstanceState, Segment, StoredPartition, StoredTopic

INSTANCE = Instance(1, "id", InstanceState.ACTIVATE, 0)
TOPIC = StoredTopic(
    name="t",
    topic_id="id",
    partitions=1,
    replication_factor=1,
    compacted=False,
    settings={},
    instances=(INSTANCE,),
)
SEGMENT = Segment("t", 1, 0, 0, 70, 0, 69, 70, 4_000_000, 10, "", 1, "", None, 5, "r", True, False)
LANE = RestoreLane(
    stored_partition=StoredPartition("t", 1, 0), topic="new", stop=70, segments=(SEGMENT,), skipped=()
)
PLAN = RestorePlan(
    snapshot=3, window=Window(), topics={"new": (TOPIC, INSTANCE)}, lanes=(LANE,), gaps=(), skipped=()
)
PROGRESS = RestoreProgress(topic_id="id", start=0, records=70, bytes=4_000_000, producers=(1,))
MOVE = Move(group="g", topic="new", partition=0, old=7, new=8, metadata="", note="why")


def outcome(records: int = 70, size: int = 4_000_000) -> RestoreOutcome:
    return RestoreOutcome(
        restore_id="id-3",
        plan=PLAN,
        written={("new", 0): Written(PROGRESS, records, size)},
        seconds={"records": 2.0},
    )


def last(outcome: RestoreOutcome) -> str:
    return report.text(outcome).splitlines()[-1]


def test_report_separates_this_run_from_earlier_runs() -> None:
    assert last(outcome()) == "Restore id-3 of snapshot 3: 70 records, 4.0 MB, 2 MB/s (records 2.0 s)."
    assert last(outcome(20, 1_000_000)) == (
        "Restore id-3 of snapshot 3: 70 records, 4.0 MB, of which this run wrote 20 records, 1.0 MB, 0 MB/s "
        "(records 2.0 s)."
    )
    assert last(replace(outcome(0, 0), before=True)) == (
        "Restore id-3 of snapshot 3 was already complete: 70 records, 4.0 MB. This run wrote no record."
    )
    [partition] = report.report(outcome(20, 5))["partitions"]
    assert [partition[key] for key in ("records", "bytes", "records_now", "bytes_now")] == [
        *(70, 4_000_000),
        *(20, 5),
    ]


def test_a_dry_run_tells_what_it_would_write() -> None:
    dry = RestoreOutcome(restore_id="id-3", plan=PLAN, dry_run=True)
    assert last(dry) == "Restore id-3 of snapshot 3 would write 70 records; nothing was written."
    timed = replace(dry, plan=replace(PLAN, window=Window(first_time=1)))
    assert last(timed) == "Restore id-3 of snapshot 3 would write at most 70 records; nothing was written."
    reports = [report.report(each) for each in (dry, timed)]
    assert [(each["partitions"][0]["records"], each["at_most"]) for each in reports] == [
        (70, False),
        (70, True),
    ]


def test_nothing_in_the_window_is_said() -> None:
    none = {("new", 0): Written(replace(PROGRESS, records=0), 0, 0)}
    empty = replace(outcome(), plan=replace(PLAN, window=Window(last_time=1)), written=none)
    assert "No record was restored" in report.text(empty)
    assert "No record was restored" not in report.text(replace(empty, plan=PLAN))
    assert "No record was restored" not in report.text(replace(empty, written={}, before=True))
    assert "No record was restored" not in report.text(replace(empty, written=outcome().written))


def test_what_is_forgotten_is_said() -> None:
    lines = report.text(RestoreOutcome(restore_id="id-3", plan=PLAN, before=True)).splitlines()
    assert lines == [
        "The number of restored records of new is unknown: the target has deleted the progress of their "
        "restore (offsets.retention.minutes).",
        "Restore id-3 of snapshot 3 was already complete. This run wrote no record.",
    ]
    [partition] = report.report(RestoreOutcome(restore_id="id-3", plan=PLAN, before=True))["partitions"]
    assert (partition["records"], partition["records_now"]) == (None, 0)


def test_everything_that_was_done_beside_records_is_told() -> None:
    done = replace(outcome(), moves=(MOVE,), settled=("new",), rights=Rights(acls=2, known=1, quotas=3))
    lines = report.text(done).splitlines()
    assert lines[2:-1] == [
        "1 group: 1 offset set.",
        "group g: new-0, offset 7 became 8: why.",
        "Settings of the backup applied to 1 topic: new.",
        "2 ACLs set (1 more existed already); 3 quotas set.",
    ]
    content = report.report(done)
    assert content["settings_of_backup"] == ["new"]
    assert content["rights"] == {"acls": 2, "known": 1, "quotas": 3, "denied": ()}


def test_acls_that_deny_are_a_warning() -> None:
    denies = "deny User:desk from *: read on topic new (literal)"
    [warning] = rights.warnings(Rights(acls=2, known=1, quotas=3, denied=(denies,)))
    assert (warning.id, denies in warning.message) == ("acl-denies", True)
    assert rights.warnings(Rights(acls=2, known=1, quotas=3)) == rights.warnings(None) == ()


def test_warnings_and_held_retention_have_identifiers() -> None:
    warned = (Warned("replication-factor-reduced", "It is 1."),)
    done = replace(outcome(), warnings=warned, held={"new": {"retention.ms": "5"}})
    assert printed(report.text(done)) == ["replication-factor-reduced", "retention-held"]
    content = report.report(done)
    assert content["warnings"] == [{"id": "replication-factor-reduced", "message": "It is 1."}]
    assert content["held"] == [
        {"id": "retention-held", "topic": "new", "settings": {"retention.ms": "5"}},
    ]
    assert report.exit_code(done) == ExitCode.DONE


@pytest.mark.parametrize("number", [0, 1, report.LINES, report.LINES + 3])
def test_skipped_items_are_listed_and_set_exit_code(number: int) -> None:
    left = replace(
        outcome(),
        left_out=tuple(Skipped(f"group {each}", "why", "group-has-members") for each in range(number)),
    )
    assert printed(report.text(left)) == ["group-has-members"] * min(number, report.LINES)
    assert ("... and 3 more such lines" in report.text(left)) == (number > report.LINES)
    assert report.report(left)["left_out"] == [
        {"id": "group-has-members", "what": f"group {each}", "why": "why"} for each in range(number)
    ]
    assert report.exit_code(left) == (ExitCode.INCOMPLETE if number else ExitCode.DONE)


@pytest.mark.parametrize(("new", "code"), [(10, 0), (12, 0), (4, 3)])
def test_lowered_group_positions_make_restore_incomplete(new: int, code: int) -> None:
    move = Move(group="readers", topic="flights", partition=0, old=10, new=new, metadata="", note="")
    assert (
        groups_only.exit_code(GroupsRestored(snapshot=7, moves=(move,), kept=0, left_out=(), dry_run=False))
        == code
    )
