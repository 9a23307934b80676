import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Skipped
from aqueduct.kafka import transactions
from aqueduct.kafka.transactions import (
    Decision,
    HangingTransaction,
    Outcome,
    PartitionTransaction,
    Search,
    TransactionalId,
)

PARTITION = TopicPartition("orders", 1)
OPEN = PartitionTransaction(
    partition=PARTITION,
    start_offset=120,
    producer_id=7,
    producer_epoch=3,
    coordinator_epoch=0,
    last_time=1_764_172_800_000,
)
KNOWN = TransactionalId(
    name="shop",
    coordinator=2,
    state="Ongoing",
    producer_id=7,
    producer_epoch=3,
    start_time=1_764_172_800_000,
    timeout=60_000,
    partitions=frozenset({PARTITION}),
)
COMMITTED = Decision(
    outcome=Outcome.COMMIT,
    time=1_764_172_800_500,
    producer_ids=frozenset({7}),
    producer_epoch=3,
    partitions=frozenset({PARTITION}),
)
HANGING = HangingTransaction(
    found=OPEN,
    transactional_id=KNOWN,
    start_time=1_764_172_800_000,
    end=134,
    decision=None,
    decisions_read=True,
    readers=("group desk",),
)


@pytest.mark.parametrize(
    ("state", "partitions", "covered"),
    [
        ("Ongoing", {PARTITION}, True),
        ("PrepareCommit", {PARTITION}, True),
        ("PrepareEpochFence", {PARTITION}, True),
        ("Ongoing", {TopicPartition("orders", 0)}, False),
        ("CompleteCommit", set(), False),
        ("CompleteAbort", {PARTITION}, False),
        ("Empty", set(), False),
    ],
)
def test_a_coordinator_ends_what_is_in_its_transaction(
    state: str, partitions: set[TopicPartition], covered: bool
) -> None:
    known = replace(KNOWN, state=state, partitions=frozenset(partitions))
    assert known.covers(OPEN) == covered


@pytest.mark.parametrize(
    ("level", "coordinators_epoch", "epoch", "marker"),
    [
        (0, 3, 3, (3, 0)),
        (1, 4, 3, (3, 0)),  # epochs do not change from one transaction to the next
        (2, 3, 3, (3, 0)),  # a producer that goes on with this epoch
        (2, 4, 3, (4, 2)),
        (2, None, 3, (4, 2)),
        (2, None, 32_767, (32_767, 0)),  # no epoch comes after it
    ],
)
def test_the_epoch_of_a_marker(
    level: int, coordinators_epoch: int | None, epoch: int, marker: tuple[int, int]
) -> None:
    known = None if coordinators_epoch is None else replace(KNOWN, producer_epoch=coordinators_epoch)
    found = replace(OPEN, producer_epoch=epoch)
    assert replace(HANGING, found=found, transactional_id=known).marker_epochs(level) == marker


# As Kafka 4.3.1 and 3.9.2 write the states of a coordinator.
def state(version: int, status: int, partitions: dict[str, list[int]], previous: int | None = None) -> bytes:
    made = struct.pack(">hqhib", version, 7, 3, 60_000, status)
    compact = version == 1
    made += bytes([len(partitions) + 1]) if compact else struct.pack(">i", len(partitions))
    for topic, numbers in partitions.items():
        name = topic.encode()
        made += bytes([len(name) + 1]) if compact else struct.pack(">h", len(name))
        made += name
        made += bytes([len(numbers) + 1]) if compact else struct.pack(">i", len(numbers))
        made += b"".join(struct.pack(">i", each) for each in numbers) + b"\0" * compact
    made += struct.pack(">qq", COMMITTED.time, COMMITTED.time - 400)
    if compact:
        made += b"\0" if previous is None else b"\x02\x00\x08" + struct.pack(">q", previous) + b"\x02\x02\0\2"
    return made


@pytest.mark.parametrize("version", [0, 1])
def test_decisions_are_parsed(version: int) -> None:
    commit = state(version, 2, {"orders": [1]})
    assert transactions.parse_decision(commit) == COMMITTED
    abort = transactions.parse_decision(state(version, 3, {"a": [0, 2], "b": [5]}))
    assert abort is not None
    assert abort.outcome is Outcome.ABORT
    assert abort.partitions == {TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 5)}
    for status in (0, 1, 4, 5, 6, 7):
        assert transactions.parse_decision(state(version, status, {"orders": [1]})) is None


def test_a_producer_id_that_was_replaced_is_known() -> None:
    found = transactions.parse_decision(state(1, 2, {"orders": [1]}, previous=6))
    assert found is not None
    assert found.producer_ids == {6, 7}


@given(st.sampled_from([0, 1]), st.integers(0, 60))
def test_truncated_transaction_state_is_error(version: int, length: int) -> None:
    whole = state(version, 2, {"orders": [1]})
    if length < len(whole):
        with pytest.raises((ValueError, IndexError, struct.error)):
            transactions.parse_decision(whole[:length])


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="version 2"):
        transactions.parse_decision(b"\0\2" + state(1, 2, {})[2:])


@pytest.mark.parametrize(
    ("epoch", "marker", "about"),
    [
        (3, None, True),
        (3, COMMITTED.time - 5_000, True),
        (3, COMMITTED.time + 10, False),  # of an earlier transaction, which has its marker
        (3, COMMITTED.time - 10, False),  # too near to be told from it
        (4, COMMITTED.time + 10, True),  # a client whose epoch changes with each transaction
        (2, None, False),
        (5, None, False),
    ],
)
def test_whether_a_decision_is_about_a_transaction(epoch: int, marker: int | None, about: bool) -> None:
    decision = replace(COMMITTED, producer_epoch=epoch)
    assert transactions.decision_about(OPEN, [decision], marker) == (decision if about else None)


def test_the_newest_decision_about_a_partition_counts() -> None:
    aborted = replace(COMMITTED, outcome=Outcome.ABORT, time=COMMITTED.time + 100)
    elsewhere = replace(aborted, partitions=frozenset({TopicPartition("orders", 0)}))
    others = replace(aborted, producer_ids=frozenset({8}))
    about = transactions.decision_about
    assert about(OPEN, [COMMITTED, elsewhere, others], None) == COMMITTED
    assert about(OPEN, [COMMITTED, aborted], None) == aborted
    assert about(OPEN, [elsewhere, others], None) is None


def test_readers_wait_at_the_last_stable_offset() -> None:
    offset_table = TopicPartition("mm2-offsets.pro1.internal", 3)
    committed = {"desk": {PARTITION: 120}, "ahead": {PARTITION: 121}, "other": {offset_table: 120}}
    assert transactions.readers(PARTITION, 120, committed) == ("group desk",)
    [flow, group] = transactions.readers(offset_table, 120, committed)
    assert flow.startswith("MirrorMaker of the flow pro1, ")
    assert group == "group other"
    assert transactions.readers(TopicPartition("__consumer_offsets", 0), 5, {}) == (
        "consumers whose offsets the transaction commits",
    )


def test_the_finding_has_the_facts_and_the_remedy() -> None:
    sentence = transactions.hanging_sentence(HANGING)
    for fact in (
        "orders-1 ",
        "producer 7 (transactional id shop)",
        "offset 120 ",
        "14 offsets",
        "group desk",
    ):
        assert fact in sentence
    assert sentence.endswith(
        "Run `aqueduct transactions abort --topic orders --partition 1 --start-offset 120`."
    )
    committed = transactions.hanging_sentence(replace(HANGING, decision=COMMITTED))
    assert "committed the transaction at 2025-11-26T16:00:00.500Z" in committed
    assert "`aqueduct transactions commit --topic orders " in committed
    unread = transactions.hanging_sentence(replace(HANGING, decisions_read=False))
    assert "may not read __transaction_state" in unread


def test_a_coordinator_that_is_late_is_reported() -> None:
    found = Search(
        (), ((OPEN, KNOWN),), (Skipped("t-0", "the coordinators do not answer", "cluster-not-responding"),)
    )
    soon = KNOWN.end_time + transactions.OVERDUE_MILLISECONDS
    unknown = (
        "[transaction-search-incomplete] It is unknown whether t-0 has hanging transactions: the "
        "coordinators do not answer."
    )
    assert transactions.findings(found, soon) == [unknown]
    late, last = transactions.findings(found, soon + 1)
    assert "shop on orders-1 is in state Ongoing" in late
    assert "restart" in late
    assert last == unknown
