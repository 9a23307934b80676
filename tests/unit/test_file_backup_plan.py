"""Which dated tree is which, what rsync's words mean, and what a prune keeps: without a disk."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.recovery.file_backup import plan, reasons
from aqueduct.recovery.file_backup.folder import FileSnapshot
from aqueduct.recovery.file_backup.plan import FileSource
from aqueduct.recovery.file_backup.prune import kept
from aqueduct.snapshots.prune.policy import KeepPolicy

SOURCE = FileSource("/etc/kafka", "root@kafka-1")
TIMES = st.integers(0, 4_000_000_000_000)  # until 2096


def snapshot(date: str, left_out: tuple[tuple[str, str], ...] = ()) -> FileSnapshot:
    return FileSnapshot(
        date=date,
        source="/etc",
        base=None,
        files=1,
        bytes=1,
        new_files=1,
        new_bytes=1,
        left_out=left_out,
        with_attributes=False,
        list_sha256="",
    )


@given(TIMES, TIMES)
def test_names_are_in_the_order_of_times(one: int, other: int) -> None:
    names = plan.date_name(one), plan.date_name(other)
    assert plan.date_of(names[0]) == one // 1000 * 1000
    assert (names[0] <= names[1]) == (one // 1000 <= other // 1000)


@pytest.mark.parametrize(
    "name", ["", "2026-11-26", "2026-11-26T02:00:00Z", "2026-1-26T020000Z", ".unfinished-x"]
)
def test_other_names_are_no_dates(name: str) -> None:
    assert plan.date_of(name) is None


@given(st.sets(TIMES.map(plan.date_name)), TIMES)
def test_backup_builds_on_newest_unless_clock_is_behind(names: set[str], now: int) -> None:
    new = plan.date_name(now)
    if names and max(names) >= new:
        with raises(Refused, "clock-behind-backup"):
            plan.base_date([*names], new)
    else:
        assert plan.base_date([*names], new) == (max(names) if names else None)


@given(st.sets(TIMES.map(plan.date_name), min_size=1), TIMES)
def test_newest_snapshot_before_given_time_is_chosen(names: set[str], time: int) -> None:
    before = [each for each in names if (plan.date_of(each) or 0) <= time]
    assert plan.newest_at([*names], time) == (max(before) if before else None)
    assert plan.newest_at([*names], None) == max(names)


def test_a_day_is_taken_to_its_end() -> None:
    noon = plan.end_time("2026-11-26T120000Z")
    assert plan.end_time("2026-11-26T12:00:00Z") == noon == 1795694400000
    assert plan.end_time("2026-11-26") == noon + 12 * 3_600_000 - 1
    for wrong in ("26.11.2026", "2026-13-01", "yesterday"):
        with pytest.raises(ValueError, match="2026-01-31"):
            plan.end_time(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/etc/kafka", FileSource("/etc/kafka")),
        ("/etc/kafka/", FileSource("/etc/kafka")),
        ("root@kafka-1:/etc/kafka", SOURCE),
        ("kafka-1:/", FileSource("/", "kafka-1")),
        ("/a:b", FileSource("/a:b")),
        ('/host:/a "b\\', FileSource('/host:/a "b\\')),
        ("root@[::1]:/etc", FileSource("/etc", "root@[::1]")),
        ("[fe80::1%eth0]:/", FileSource("/", "[fe80::1%eth0]")),
        ("me@corp@kafka-1:/a:/b", FileSource("/a:/b", "me@corp@kafka-1")),
    ],
)
def test_a_source_is_parsed(text: str, expected: FileSource) -> None:
    assert plan.source(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "etc",
        "kafka-1:etc",
        ":/etc",
        "-oProxyCommand=x:/etc",
        "a@-b:/etc",
        "a b:/etc",
        "root@::1:/etc",
        "[-oProxyCommand=x]:/etc",
        "/etc/../root",
        'a:/"',
    ],
)
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="FOLDER"):
        plan.source(text)


def test_data_folder_of_running_node_is_found() -> None:
    stopped = ["a/meta.properties", "a/.kafka_cleanshutdown"]
    running = ["b/c/meta.properties", "b/c/flights-0/00000000000000000000.log"]
    assert plan.running_data_folders([*stopped, *running, "d/server.properties"]) == ["b/c"]
    assert plan.running_data_folders(["meta.properties"]) == ["."]
    segment = "00000000000000000000.log"
    assert plan.running_data_folders([segment]) == ["."]
    assert plan.running_data_folders([f"flights-0/{segment}", "0.log"]) == []
    assert plan.running_data_folders(["b/.kafka_cleanshutdown", "meta.properties.bak"]) == []


DAY = timedelta(days=1)
DAYS = [
    plan.date_name(int((datetime(2026, 1, 1, 2, tzinfo=UTC) + n * DAY).timestamp() * 1000))
    for n in range(400)
]


def test_days_weeks_and_months_are_kept() -> None:
    why = kept([snapshot(each) for each in DAYS], KeepPolicy(daily=7, weekly=4, monthly=12))
    assert [each for each in DAYS if each in why] == [*why]
    assert [*why][-7:] == DAYS[-7:]
    months = [each for each in why if "monthly" in why[each]]
    assert [each[:7] for each in months] == [f"2026-{month:02}" for month in range(3, 13)] + [
        "2027-01",
        "2027-02",
    ]
    assert {"2027-01-24T020000Z", "2027-01-17T020000Z"} < {*why}  # the last days of weeks
    assert len(why) == 7 + 2 + 10


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 5))
def test_newest_complete_snapshot_is_kept_by_every_policy(whole: list[bool], last: int) -> None:
    pairs = zip(DAYS, whole, strict=False)
    snapshots = [snapshot(date, () if ok else (("key", "no permission to read it"),)) for date, ok in pairs]
    why = kept(snapshots, KeepPolicy(last=last))
    assert {each.date for each in snapshots[-last:]} <= {*why}
    assert {each.date for each in snapshots if not each.left_out}.isdisjoint(why) == (not any(whole))


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (255, "Host key verification failed.", "known hosts"),
        (255, "root@kafka-1: Permission denied (publickey).", "authorized_keys"),
        (255, "ssh: Could not resolve hostname kafka-1: Name or service not known", "cannot resolve"),
        (255, "ssh: connect to host kafka-1 port 22: Connection refused", "No SSH server"),
        (12, "rsync error: Restricted directory does not exist!", "folder does not exist"),
        (
            23,
            'rsync: [sender] change_dir "/etc/kafka" failed: No such file or directory (2)',
            "folder does not exist",
        ),
        (
            11,
            'rsync: [receiver] write failed on "/b/x": No space left on device (28)',
            "disk of /backups is full",
        ),
        (11, 'rsync: [receiver] write failed on "/b/x": Disk quota exceeded (122)', "quota of /backups"),
        (127, "bash: line 1: rsync: command not found", "Install the package"),
        (
            12,
            "rsync: connection unexpectedly closed (9 bytes received so far) [receiver]",
            "to root@kafka-1 broke",
        ),
        (-9, "", "killed by signal 9"),
        (
            23,
            "rsync: [receiver] mknod failed\nrsync error: some files",
            "code 23 (rsync: [receiver] mknod failed)",
        ),
        (5, "", "code 5 (no output)"),
    ],
)
def test_a_failure_is_a_sentence(code: int, said: str, expected: str) -> None:
    assert expected in reasons.failure_cause(code, said, SOURCE, "/backups")


UNREADABLE = 'rsync: [sender] send_files failed to open "/proc/self/fd/3/./a b": Permission denied (13)\n'
OPENDIR = 'rsync: [sender] opendir "/etc/kafka/keys" failed: Permission denied (13)\n'
SUMMARY = "rsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1]"


def test_what_may_not_be_read_is_named() -> None:
    said = UNREADABLE + OPENDIR + SUMMARY
    assert reasons.only_unreadable(23, said)
    assert reasons.left_out(said, SOURCE) == (
        ("a b", "no permission to read it"),
        ("keys", "no permission to read it"),
    )
    vanished = 'file has vanished: "/etc/kafka/x"\n'
    assert reasons.left_out(vanished, SOURCE) == (("x", "deleted while it was read"),)


@pytest.mark.parametrize("said", ["", SUMMARY, UNREADABLE + "rsync: [receiver] chmod failed", "other"])
def test_other_faults_are_none_of_those(said: str) -> None:
    assert not reasons.only_unreadable(23, said)
