"""Dedup and its ledger, with raw topics that are written frame by frame."""

import re
from pathlib import Path
from uuid import UUID

import pytest
from kit import clients
from kit.cut_logs import cut_logs
from kit.identifiers import assert_printed, printed
from kit.raw_topic import ID, PARTITIONS, RawTopic, frames

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as kafka
from aqueduct.kafka import groups
from aqueduct.kafka.client import Client
from aqueduct.kafka.produce import Fenced
from aqueduct.link import silence
from aqueduct.link.dedup import task as dedup
from aqueduct.link.dedup.run import DedupOrder, run
from aqueduct.link.dedup.share import DedupCounts
from aqueduct.link.ledger.arrivals import bucket
from aqueduct.link.wire.frame import Announcement
from aqueduct.work.workers import Workers

SECONDS = 30


class Enough(Exception):
    """The end of a dedup that would run on."""


def test_a_topic_that_is_gone_is_retired(crossed: RawTopic, capsys: pytest.CaptureFixture[str]) -> None:
    gone, stays = crossed.topics
    crossed.bring(*frames(gone), *frames(stays))
    crossed.dedup()
    crossed.knows({gone: 4, stays: 4})
    crossed.dedup("--retire", gone)
    assert f"{gone} is retired: 4 partitions. 0 offsets that were missing" in capsys.readouterr().out
    crossed.knows({stays: 4})
    crossed.dedup()  # continues with what stays
    crossed.bring(*frames(stays), *frames(stays, 10, 19))
    crossed.dedup()
    assert "40 records in 8 frames" in (said := capsys.readouterr().out)
    assert "40 offsets had arrived before" in said
    crossed.dedup("--retire", gone, code=2)
    assert printed(capsys.readouterr().err) == ["ledger-topic-unknown"]


@pytest.mark.usefixtures("each_task_twice")
def test_repeated_dedup_tasks_count_records_once(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = crossed.topics
    crossed.bring(*frames(one), *frames(one, 5, 14), *frames(other))
    clients.produce(crossed.broker, crossed.raw, ["no frame"])
    crossed.dedup("--topics", one, "--until-caught-up", code=3)
    said = capsys.readouterr().out
    assert "60 records in 8 frames" in said
    assert "20 offsets had arrived before; 1 raw record not readable;" in said
    assert f"not selected by --topics: {other} (4 frames)." in said


def test_frames_in_grace_period_are_counted_once(crossed: RawTopic) -> None:
    """Read again what follows an announcement, until that has had its time."""
    topic, _ = crossed.topics
    number = bucket(topic, 0, PARTITIONS)
    crossed.bring(
        Announcement(topic=topic, topic_id=ID, partition=0, first=0, end=25, compacted=False),
        *frames(topic, numbers=[0]),
    )
    clients.produce(crossed.broker, crossed.raw, ["no frame"], number)
    order = DedupOrder(
        end=crossed.end,
        raw_topics=(crossed.raw,),
        gap_topic=crossed.gaps,
        grace_seconds=3600,
        every_seconds=2,
        topics={topic: topic},
    )
    found: list[DedupCounts] = []

    def tell(done: DedupCounts, _: float) -> None:
        if done.frames or found:  # a slow broker may answer only in a later round
            found.append(done)
        if len(found) == 3:
            raise Enough

    with Workers("test") as workers, pytest.raises(Enough):
        run(order, workers, tell)
    assert [(each.records, each.frames, each.repeated, each.malformed) for each in found] == [
        (10, 1, 0, 1),
        (0, 0, 0, 0),
        (0, 0, 0, 0),
    ]


def test_topic_without_received_records_is_reported_once(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = crossed.topics
    crossed.bring(*frames(one))
    crossed.dedup("--topics", one, "--until-caught-up")
    assert "link-topic-not-received" not in capsys.readouterr().out
    crossed.dedup("--topics", f"{one},misspelt:{other}", "--until-caught-up", code=3)
    assert "[link-topic-not-received] No record of misspelt has arrived" in capsys.readouterr().out
    order = DedupOrder(
        end=crossed.end,
        raw_topics=(crossed.raw,),
        gap_topic=crossed.gaps,
        every_seconds=1,
        topics={one: one, "misspelt": other},
    )
    found: list[DedupCounts] = []

    def tell(done: DedupCounts, _: float) -> None:
        found.append(done)
        if len(found) == 3:
            raise Enough

    with Workers("test") as workers, pytest.raises(Enough):
        run(order, workers, tell)
    assert [sum("link-topic-not-received" in said for said in each.silent) for each in found] == [1, 0, 0]


def test_rereading_raw_topics_does_not_double_retired_topic(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, stays = crossed.topics
    crossed.bring(*frames(gone), *frames(stays))
    crossed.dedup()
    crossed.dedup("--retire", gone)
    group = f"aqueduct-dedup-{crossed.gaps}"
    admin = clients.admin(crossed.broker)
    admin.delete_consumer_groups([group])[group].result(SECONDS)
    capsys.readouterr()
    crossed.dedup()
    said = capsys.readouterr().out
    assert "0 records in 8 frames" in said
    assert "80 offsets had arrived before" in said


def test_dedup_continues_where_raw_topic_was_truncated(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """One raw topic ends before the former position afterwards, and another one has grown past it."""
    regrown = RawTopic(crossed.broker)
    kept: dict[tuple[str, int], int] = {}
    position: dict[tuple[str, int], int] = {}
    for link in (crossed, regrown):
        topic, _ = link.topics
        at = link.raw, bucket(topic, 0, PARTITIONS)
        link.bring(*frames(topic, 0, 9, [0]))
        [kept[at]] = clients.ends(link.broker, *at)
        for first in (10, 20):
            link.bring(*frames(topic, first, first + 9, [0]))
        link.dedup()
        [position[at]] = clients.ends(link.broker, *at)
    cut_logs(crossed.broker, kept)
    for link, stop in ((crossed, 40), (regrown, 80)):
        topic, _ = link.topics
        at = link.raw, bucket(topic, 0, PARTITIONS)
        for first in range(30, stop, 10):
            link.bring(*frames(topic, first, first + 9, [0]))
        assert (clients.ends(link.broker, *at)[0] > position[at]) is (link is regrown)
        capsys.readouterr()
        link.dedup(code=3)
        partition = f"{at[0]}-{at[1]}"
        assert_printed(capsys.readouterr().out, "raw-position-outdated", partition, f"at {kept[at]}")
        assert len(clients.records(link.broker, topic, 0)) == stop, "each record once"
        link.dedup()
        assert len(clients.records(link.broker, topic, 0)) == stop


@pytest.mark.parametrize("is_known", [False, True])
def test_recreated_raw_topic_is_read_from_start(
    crossed: RawTopic, client: Client, capsys: pytest.CaptureFixture[str], is_known: bool
) -> None:
    """Kafka deletes the position with the topic. A dedup that runs meanwhile commits its own once more."""
    topic, _ = crossed.topics
    number = bucket(topic, 0, PARTITIONS)
    for first in (0, 10, 20):
        crossed.bring(*frames(topic, first, first + 9, [0]))
    crossed.dedup()
    group = f"aqueduct-dedup-{crossed.gaps}"
    raw = TopicPartition(crossed.raw, number)
    before = groups.progress(client, group, [raw])[raw]
    clients.recreate(crossed.broker, crossed.raw, PARTITIONS)
    clients.wait_for("no position", lambda: raw not in groups.progress(client, group, [raw]))
    for first in range(30, 80, 10):  # past the former position
        crossed.bring(*frames(topic, first, first + 9, [0]))
    if is_known:
        groups.commit(client, group, {raw: before})
    capsys.readouterr()
    crossed.dedup(code=3 if is_known else 0)
    assert ("[raw-position-outdated]" in capsys.readouterr().out) is is_known
    assert len(clients.records(crossed.broker, topic, 0)) == 80
    crossed.dedup()
    assert len(clients.records(crossed.broker, topic, 0)) == 80


def test_retiring_topic_with_gaps_requires_with_gaps_option(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, _ = crossed.topics
    crossed.bring(
        *frames(gone),
        Announcement(topic=gone, topic_id=ID, partition=0, first=0, end=25, compacted=False),
        ago=200,
    )
    crossed.dedup(code=3)  # nothing came since
    crossed.dedup("--retire", gone, code=2)
    assert printed(said := capsys.readouterr().err) == ["retired-topic-incomplete"]
    assert "15 offsets" in said
    crossed.knows({gone: 4})
    crossed.dedup("--retire", gone, "--with-gaps")
    assert "15 offsets that were missing and 0 that were lost" in capsys.readouterr().out
    crossed.knows({})


def test_topic_that_source_announces_is_not_retired(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    lives, _ = crossed.topics
    crossed.bring(
        *frames(lives), Announcement(topic=lives, topic_id=ID, partition=0, first=0, end=10, compacted=False)
    )
    crossed.dedup()
    crossed.dedup("--retire", lives, "--with-gaps", code=2)
    assert printed(capsys.readouterr().err) == ["retired-topic-announced"]
    crossed.knows({lives: 4})


def test_what_no_bundle_can_bring_is_told(crossed: RawTopic, capsys: pytest.CaptureFixture[str]) -> None:
    topic, _ = crossed.topics

    def create(code: int) -> tuple[str, str]:
        argv = ["diode", "create", "--bootstrap-server", crossed.servers, "--topic", crossed.gaps]
        capsys.readouterr()
        assert main(argv) == code
        said = capsys.readouterr()
        return said.out, said.err

    out, err = create(3)
    assert '"results": []' in out
    assert f"The ledger in {crossed.gaps} has no entry" in err
    crossed.bring(*frames(topic, 0, 9, [0]))
    crossed.dedup()
    crossed.knows({topic: 1})
    assert create(0)[1] == ""
    # Its source deletes 10 to 14; then the topic is recreated, while 15 to 29 are missing.
    crossed.bring(Announcement(topic=topic, topic_id=ID, partition=0, first=15, end=30, compacted=False))
    crossed.dedup()
    said = capsys.readouterr().out
    assert "15 offsets missing; 5 offsets permanently lost" in said
    out, err = create(3)
    assert "[[15, 29]]" in out
    assert err == (
        f"{topic}-0: 5 offsets permanently lost, deleted at the source before the link could send them: 10 "
        "to 14.\n"
    )
    crossed.bring(
        Announcement(topic=topic, topic_id=UUID(int=2), partition=0, first=0, end=3, compacted=False)
    )
    crossed.dedup()
    out, err = create(3)
    assert "[[0, 2]]" in out
    assert (
        f"20 offsets permanently lost, of the deleted topic with the same name and the topic ID {ID}: "
        "10 to 29."
    ) in err


def test_silent_sender_is_reported_without_known_gaps(
    crossed: RawTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, _ = crossed.topics
    file = tmp_path / "bundle.json"

    def create(*options: str) -> tuple[int, str, str]:
        argv = ["diode", "create", "--bootstrap-server", crossed.servers, "--topic", crossed.gaps]
        capsys.readouterr()
        return main([*argv, f"--resendFileName={file}", *options]), *capsys.readouterr()

    crossed.dedup(code=3)
    assert f"No data arrived from the sender of raw topic {crossed.raw} ever" in capsys.readouterr().out
    crossed.bring(*frames(topic), ago=300)
    crossed.dedup(code=3)
    crossed.knows({topic: 4})
    assert f"No data arrived from the sender of raw topic {crossed.raw} for 3" in capsys.readouterr().out
    code, out, err = create()
    assert (code, out) == (3, "")
    assert f"No data arrived from the sender of raw topic {crossed.raw} for 3" in err
    crossed.dedup("--until-caught-up", "--silence-after", "1h")
    assert create("--silenceAfter=3600") == (0, f"0 offsets to be sent again; {file} lists them.\n", "")
    # Heard of again, and then not read.
    crossed.bring(*frames(topic, 10, 19), ago=60)
    assert create()[0] == 0
    code, _, err = create("--silenceAfter=50")
    assert code == 3
    assert (
        f"4 records of raw topic {crossed.raw} arrived more than 50 s ago, but dedup has not read them"
    ) in err
    crossed.dedup()
    assert create("--silenceAfter=3600")[0] == 0


def test_bundle_reports_announcements_that_are_not_fresh(
    crossed: RawTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A receiving end that is stopped, and a dedup that is, leave no newer announcement in the ledger."""
    topic, _ = crossed.topics

    def create(seconds: int) -> tuple[int, str]:
        argv = ["diode", "create", "--bootstrap-server", crossed.servers, "--topic", crossed.gaps]
        capsys.readouterr()
        limits = (f"--announcedWithin={seconds}", "--silenceAfter=3600")
        code = main([*argv, f"--resendFileName={tmp_path / 'bundle.json'}", *limits])
        return code, capsys.readouterr().err

    crossed.bring(*frames(topic), ago=600)
    crossed.dedup("--until-caught-up", "--silence-after", "1h")
    crossed.knows({topic: 4})
    code, err = create(3600)
    assert code == 0
    assert re.fullmatch(rf"As of now, .* {re.escape(crossed.raw)} .* [6-9]\d\d s old\.\n", err)
    code, err = create(500)
    assert code == 3
    assert f"Announcements of raw topic {crossed.raw} are too old" in err
    crossed.bring(
        Announcement(topic=topic, topic_id=ID, partition=0, first=0, end=10, compacted=False)
    )  # the link is well, and dedup stopped
    assert create(500)[0] == 3
    crossed.dedup()
    assert create(500)[0] == 0


def test_sender_with_unreadable_newest_record_is_not_silent(crossed: RawTopic, client: Client) -> None:
    def silent() -> list[str]:
        return list(silence.silent(client, [crossed.raw], 600))

    assert len(silent()) == 1
    crossed.bring(
        Announcement(topic=crossed.topics[0], topic_id=ID, partition=0, first=0, end=3, compacted=False)
    )
    # The broker then tells no newest time of the partition, as it does for a moment after each write.
    producers = clients.transaction(crossed.broker, crossed.raw, ["open"], "leave", *range(PARTITIONS))
    assert silent() == []
    producers.abort_transaction()


def test_uncompacted_gap_topics_and_reserved_topics_are_refused(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """No clean topic may have the name of a raw topic."""
    forgets = clients.create(crossed.broker, f"{crossed.gaps}.forgets", PARTITIONS)
    # Nothing of it is read before: what it holds need not even be a ledger.
    clients.produce(crossed.broker, forgets, [{"value": b"no entry", "key": b"key"}])
    argv = ["diode", "create", "--bootstrap-server", crossed.servers, "--topic", forgets]
    assert main(argv) == 2
    assert printed(said := capsys.readouterr().err) == ["gap-topic-not-compacted"]
    assert "cleanup.policy=delete" in said
    crossed.topics[1] += f":{crossed.raw}"
    crossed.dedup(code=2)
    assert printed(said := capsys.readouterr().err) == ["clean-topic-reserved"]
    assert crossed.raw in said


def test_a_topic_whose_frames_wait_is_not_retired(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refuse them: dedup would begin its ledger again with them."""
    gone, stays = crossed.topics
    crossed.bring(*frames(gone), *frames(stays))
    crossed.dedup()
    crossed.bring(*frames(gone, 10, 19), *frames(stays, 10, 19))
    crossed.dedup("--retire", gone, code=2)
    assert printed(said := capsys.readouterr().err) == ["retired-topic-unread"]
    assert "4 frames" in said
    crossed.dedup()
    crossed.dedup("--retire", gone)
    crossed.knows({stays: 4})


def test_running_dedup_writes_no_entry_of_retired_topic(crossed: RawTopic) -> None:
    gone, _ = crossed.topics
    crossed.bring(*frames(gone, numbers=[0]))
    crossed.dedup()
    number = bucket(gone, 0, PARTITIONS)
    with kafka.connect(crossed.end, "test") as client:
        running = dedup.producer_of(client, f"aqueduct-dedup-{crossed.gaps}", number)
        running.begin()
        crossed.dedup("--retire", gone)
        [entry] = dedup.entries({f"{gone}/0": "{}"}, 0)
        with pytest.raises(Fenced):
            running.send(crossed.gaps, number, entry)
    crossed.knows({})


def moved_by_more_partitions(crossed: RawTopic) -> int:
    """Grow raw and gap topic alike, so that their numbers are equal again; return how many places moved."""
    for each in (crossed.raw, crossed.gaps):
        clients.grow(crossed.broker, each, 5)
    return sum(
        bucket(topic, number, 5) != bucket(topic, number, PARTITIONS)
        for topic in crossed.topics
        for number in range(4)
    )


def test_raw_partitions_added_after_ledger_creation_are_refused(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = crossed.topics
    crossed.bring(*frames(one), *frames(other))
    crossed.dedup()
    assert moved_by_more_partitions(crossed)
    before = clients.ends(crossed.broker, one, *range(4))
    crossed.bring(*frames(one, 10, 19), partitions=5)
    crossed.dedup(code=1)
    assert printed(capsys.readouterr().err) == ["link-partitions-changed"]
    assert clients.ends(crossed.broker, one, *range(4)) == before


def test_frames_misplaced_by_added_partitions_are_set_aside(
    crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of them is in the ledger yet: those in their partitions are written, and none twice."""
    one, other = crossed.topics
    crossed.bring(*frames(one), *frames(other))
    moved = moved_by_more_partitions(crossed)
    crossed.bring(*frames(one, 10, 19), *frames(other, 10, 19), partitions=5)
    crossed.dedup(code=3)
    said = capsys.readouterr().out
    assert f"{160 - 10 * moved} records in {16 - moved} frames" in said
    assert said.count("[raw-record-misplaced]") == moved > 0
