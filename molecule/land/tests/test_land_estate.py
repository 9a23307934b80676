"""Each record becomes one row or one rejected record, also if processes are killed."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime

import pytest
import sandboxes
from departures import BACK, FORWARD, Place, Row, instant, milliseconds
from lab import Lab, wait_until
from lake_readers import BAD, HOST, ICEBERG, LATE, TABLE, Lake, by_place
from landing_faults import BROKER, FAULTS, GATE, SPARK, TOPIC, Estate, Outcome
from other_formats import OTHER_TOPICS, expected, registered
from stored import STORED

Reader = Callable[[Lake, str], list[Row]]
READERS: dict[str, Reader] = {"pyarrow": Lake.rows, "beeline": Lake.sql_rows}


def differences(should: dict[Place, Row], found: dict[Place, Row], later: str = "") -> list[str]:
    """Return what is wrong with a table; of a column that came `later` only what a row has counts."""
    wrong = [f"{place} is missing" for place in should.keys() - found.keys()]
    wrong += [f"{place} is nothing that the topic has" for place in found.keys() - should.keys()]
    for place in should.keys() & found.keys():
        row = should[place] if later in found[place] else without(should[place], later)
        if row != found[place]:
            wrong.append(f"{place}: {found[place]} instead of {row}")
    return sorted(wrong)


def without(row: Row, column: str) -> Row:
    return {name: value for name, value in row.items() if name != column}


@pytest.fixture(scope="module", params=READERS)
def read(request: pytest.FixtureRequest, lake: Lake, outcome: Outcome) -> dict[str, dict[Place, Row]]:
    """What a reader sees of each table when all is over."""
    assert outcome.commits
    return {table: by_place(READERS[request.param](lake, table)) for table in (TABLE, LATE, BAD)}


def test_every_record_arrives_in_the_lake_s_topic(outcome: Outcome) -> None:
    """What brokers acknowledged is what mirrors brought, so that the rest compares all of it."""
    assert outcome.acknowledged == outcome.written
    assert min(outcome.acknowledged.values()) > 10_000


def test_the_table_is_the_topic_record_by_record(outcome: Outcome, read: dict[str, dict[Place, Row]]) -> None:
    """Each value of each row is what Python alone makes of the record, and no row is there twice."""
    assert len(outcome.topic.rows) > 20_000
    assert differences(outcome.topic.rows, read[TABLE], "gate") == []


def test_what_came_late_is_in_its_own_table(outcome: Outcome, read: dict[str, dict[Place, Row]]) -> None:
    """Late is what came 36 hours after the end of its day in New York, to the millisecond."""
    assert len(outcome.topic.late) > 500
    assert differences(outcome.topic.late, read[LATE], "gate") == []


def test_bad_records_are_in_theirs_with_their_bytes(
    outcome: Outcome, read: dict[str, dict[Place, Row]]
) -> None:
    """One of 1,000, and a run of them on end; each with key, value, time and a reason."""
    assert len(outcome.topic.bad) > 1_000
    found = {place: dict(row) for place, row in read[BAD].items()}
    assert all(row.pop("error") for row in found.values())
    assert differences(outcome.topic.bad, found) == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("table", OTHER_TOPICS)
@pytest.mark.usefixtures("outcome")
def test_other_formats_land_beside_it(lab: Lab, lake: Lake, table: str, reader: str) -> None:
    """Delimited text, Avro and Avro by the site's registry, a hundredth broken, through the same faults."""
    topic, schema = OTHER_TOPICS[table], Estate(lab).avro_schema
    read = lab.read_offsets(BROKER, topic)
    should, bad = expected(topic, read, schema, registered(lab, schema))
    assert min(len(should) / 1_000, len(bad) / 10) > 1
    assert differences(should, by_place(READERS[reader](lake, table))) == []
    assert by_place(READERS[reader](lake, f"{table}_bad")).keys() == bad


@pytest.mark.long
def test_an_iceberg_table_is_its_topic_too(lab: Lab, lake: Lake, outcome: Outcome) -> None:
    """As its specification has it: the newest snapshot's manifests name all rows, each once."""
    assert outcome.commits
    topic, schema = OTHER_TOPICS["flights.delimited"], Estate(lab).avro_schema
    should, bad = expected(topic, lab.read_offsets(BROKER, topic), schema, {})
    assert differences(should, by_place(lake.iceberg_rows(ICEBERG))) == []
    assert by_place(lake.iceberg_rows(f"{ICEBERG}_bad")).keys() == bad


@pytest.mark.long
def test_object_store_table_matches_topic_after_lander_kill(outcome: Outcome) -> None:
    """Its lander was killed amid commits; Arrow's own client reads it, by TLS, and may only read."""
    assert outcome.stored
    store, killed = outcome.stored.store, outcome.stored.killed
    should = outcome.topic.rows | outcome.topic.late
    assert differences(should, by_place(store.rows(STORED)), "gate") == []
    found = by_place(store.rows(f"{STORED}_bad"))
    assert all(row.pop("error") for row in found.values())
    assert differences(outcome.topic.bad, found) == []
    commits = store.ask("commits", STORED)
    created = [datetime.fromisoformat(each["created"]).timestamp() for each in commits]
    assert created[0] < killed["at"] < created[-1]
    assert 0 < killed["commit"] < len(commits)


def test_the_comparison_can_fail(outcome: Outcome) -> None:
    """A row that is missing, strange or changed is seen, and so is one that is there twice."""
    should = outcome.topic.rows
    place, *_ = should
    for broken in (
        {each: row for each, row in should.items() if each != place},
        should | {(TOPIC, 0, 10**9): should[place]},
        should | {place: should[place] | {"departed": 0}},
        should | {place: should[place] | {"gate": "another"}},
    ):
        assert len(differences(should, broken, "gate")) == 1
    assert len(differences(should, should | {place: without(should[place], "gate")})) == 1
    with pytest.raises(AssertionError, match="1 rows are there twice"):
        by_place([*should.values(), should[place]])


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_hit_while_flights_landed(outcome: Outcome, fault: str) -> None:
    """Another process runs in the place of what was killed, and there are commits from before and after."""
    struck = [each for each in outcome.strikes if each.what.startswith(fault)]
    assert struck
    created = [datetime.fromisoformat(each["created"]).timestamp() for each in outcome.commits]
    for each in struck:
        assert each.before != each.after
        assert min(created) < each.at < max(created)


def test_reads_during_landing_contain_no_record_twice(outcome: Outcome) -> None:
    """Of all three tables at once, by SQL and of what HDFS lists, while all was killed and compacted."""
    for name, reads in outcome.reads.items():
        whole = [each for each in reads if not each.error]
        print(f"{name}: {len(whole)} reads, and {len(reads) - len(whole)} in vain")
        assert len(whole) >= 5, [each.error for each in reads]
        assert [each for each in whole if each.rows != each.distinct] == []
        assert whole[0].rows < whole[-1].rows
    assert [each for each in outcome.reads["pyarrow"] if not each.error][-1].rows == sum(
        len(each) for each in (outcome.topic.rows, outcome.topic.late, outcome.topic.bad)
    )


def test_row_count_never_decreases_outside_of_compaction(outcome: Outcome) -> None:
    """What was there once stays; who lists while a compaction exchanges files may miss them then."""
    for reads in outcome.reads.values():
        quiet = [
            each
            for each in reads
            if not each.error
            and not any(one.began < each.ended and each.began < one.ended for one in outcome.compactions)
        ]
        counts = [each.rows for each in quiet]
        assert counts == sorted(counts)


def test_small_files_were_joined_while_flights_landed(outcome: Outcome) -> None:
    """The first compaction is amid commits that land; after the last one each folder has one file."""
    kinds = [each["kind"] for each in outcome.commits]
    assert "land" in kinds[: kinds.index("compact")]
    assert "land" in kinds[kinds.index("compact") :]
    added = [file["path"] for commit in outcome.commits for file in commit["added"]]
    live = {*added} - {path for commit in outcome.commits for path in commit["removed"]}
    folders = Counter((path.rpartition("/")[0], path.endswith("-late.orc")) for path in live if "/" in path)
    assert {*folders.values()} == {1}


def test_small_files_are_joined_by_a_timer(lab: Lab) -> None:
    said = lab.run(HOST, "systemctl", "list-timers", "--output=json", "land_compact.timer").stdout
    timers = json.loads(said)
    assert [(each["activates"], each["next"] > 0) for each in timers] == [("land_compact.service", True)]


def test_column_declared_later_is_null_in_earlier_rows(lake: Lake, outcome: Outcome) -> None:
    """Of each partition rows have it from one offset on, as their records do, and none before."""
    found = by_place(lake.rows(TABLE) + lake.rows(LATE))
    should = outcome.topic.rows | outcome.topic.late
    named = [place for place, row in should.items() if GATE["name"] in row]
    for partition in {place[1] for place in named}:
        have = sorted((place[2], GATE["name"] in found[place]) for place in named if place[1] == partition)
        assert [has for _, has in have] == sorted(has for _, has in have)
        assert any(has for _, has in have)
    assert not all(GATE["name"] in found[place] for place in named)


def test_a_partition_that_was_added_lands(outcome: Outcome) -> None:
    partitions = Counter(place[1] for place in outcome.topic.rows)
    assert len(partitions) > 2
    assert min(partitions.values()) > 500


def test_the_clock_s_changes_are_landed_as_defined(lake: Lake, outcome: Outcome) -> None:
    """What a clock skips is an hour later; of what it has twice the first is meant."""
    departed = Counter(row.get("departed") for row in lake.rows(TABLE))
    for day, hour, utc in ((FORWARD, 2, 7), (BACK, 1, 5)):
        for minute in (0, 30, 59):
            clock = datetime(day.year, day.month, day.day, hour, minute)
            assert milliseconds(instant(clock)) == milliseconds(
                datetime.fromisoformat(f"{day}T{utc:02}:{minute:02}:00+00:00")
            )
            assert departed[milliseconds(instant(clock))] > 0
    assert outcome.commits


def test_of_two_landers_one_ends(outcome: Outcome) -> None:
    """It is told so, and what both landed meanwhile is there once."""
    assert outcome.second_lander


def test_verify_agrees_and_sees_what_is_wrong(lab: Lab, lake: Lake, outcome: Outcome) -> None:
    """A file that is taken away, and another in its place, are named with exit code 3."""
    estate = Estate(lab)
    code, said = estate.land("verify").ended()
    assert code == 0, said
    assert f"{TABLE}: every landed offset exists there exactly once" in said
    removed = {path for commit in outcome.commits for path in commit["removed"]}
    live = [
        file
        for commit in outcome.commits
        for file in commit["added"]
        if file["path"] not in removed and not file["table"]
    ]
    # The smaller file replaces the larger one: of a file that is too large, `land verify` reports the size.
    other, taken = sorted(live[:2], key=lambda file: file["bytes"])
    place, others = (f"/lake/flights/departures/{each['path']}" for each in (taken, other))
    aside = "/lake/taken.orc"
    with ExitStack() as back:
        lake.ask("move", place, aside)
        back.callback(lake.ask, "move", aside, place)
        code, said = estate.land("verify").ended()
        assert code == 3, said
        assert "the table does NOT match its topics" in said
        assert f"{taken['path']}: the store has no object with this name" in said
        assert "Missing: flights-" in said
        lake.ask("move", others, place)
        back.callback(lake.ask, "move", place, others)
        code, said = estate.land("verify").ended()
        assert code == 3, said
        assert f"{taken['path']}: the file was changed after its commit" in said
    code, said = estate.land("verify").ended()
    assert code == 0, said


def test_landing_jvms_use_spark_class_archive(lab: Lab) -> None:
    """A JVM that can't take it says nothing, and only starts late."""
    spark = Estate(lab).spark

    def have_it() -> bool:
        [driver] = lab.run(HOST, "pgrep", "--full", "SparkSubmit .*pyspark-shell").stdout.split()
        jvms = {(HOST, driver)} | {(worker, each) for worker in SPARK for each in spark.executors(worker)}
        assert len(jvms) > 1, "the service has no executors"
        for host, process in sorted(jvms):
            maps = lab.run(host, "cat", f"/proc/{process}/maps").stdout
            assert "/pyspark/classes.jsa" in maps, (host, process)
        return True

    wait_until("the driver and its executors with the archive", have_it)  # one that begins has mapped nothing


# Runs in a host: which of the ports of another one it reaches.
REACHED = """
import json, socket, sys
reached = []
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection((sys.argv[1], port), 3).close()
    except OSError:
        continue
    reached.append(port)
print(json.dumps(reached))
"""
RESTRICTED = (8020, 9871, 9866, 9865, 9867, 9083)  # of the NameNode, the DataNode and the metastore


def test_other_sites_cannot_reach_hdfs_or_metastore(lab: Lab) -> None:
    """HDFS believes the name that a client gives, and the metastore asks for none. Workers need both."""

    def reached(host: str, *ports: int) -> list[int]:
        told = lab.run(host, "python3", "-c", REACHED, HOST, *map(str, ports)).stdout
        return list(json.loads(told))

    assert reached(SPARK[0], *RESTRICTED) == [*RESTRICTED]
    assert reached(HOST, *RESTRICTED) == [*RESTRICTED]
    assert reached("pro1-kafka-1", *RESTRICTED) == []
    assert reached("pro1-kafka-1", 10000) == [10000], "it reaches the host"


def test_sql_program_cannot_read_server_key(lab: Lab) -> None:
    """It runs as `hive_server`, and may leave the sandbox that hides the key."""
    tls = "/etc/aqueduct/hive_server_tls/tls"

    def reads(user: str, file: str) -> bool:
        unit = ("systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--property=User={user}")
        return lab.run(HOST, *unit, "sha256sum", file, check=False).returncode == 0

    for file in ("hive-server-lake.pem", "rest.p12", "stores.properties"):
        assert reads("hive_server_tls", f"{tls}/{file}")
        assert not reads("hive_server", f"{tls}/{file}")
    assert not reads("root", "/etc/aqueduct/hive_server/tls/hive-server-lake.pem")


def test_every_service_is_in_its_sandbox(lab: Lab) -> None:
    sandboxes.check(lab)
