"""Sends dead-letter records back to their topics, each once: letters and ledger in the same transactions."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.errors import NodeNotReadyError, TopicAuthorizationFailedError

from aqueduct.common import timestamps
from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import LEGAL_NAME, TopicPartition
from aqueduct.connect import dead_letters
from aqueduct.connect.dead_letters import Choice, Origin
from aqueduct.connect.replay_ledger import CONFIG, ReplayLedger, transactional_id
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import compacted_topics, offsets
from aqueduct.kafka.admin.topics import apply_topics
from aqueduct.kafka.batches.batch import Batch
from aqueduct.kafka.batches.bodies import Header, body, headers, key_and_value
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build, readable
from aqueduct.kafka.client import Client, Patience, Topic, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.fetch import read
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.kafka.requests import in_lists
from aqueduct.kafka.topics import DeclaredTopic, TopicChanges

TRANSACTION_LETTERS = 1_000  # of LETTER_BYTES or less; of larger ones, as many as make the same bytes
LETTER_BYTES = 10_000
BATCH_BYTES = 500_000  # a larger letter goes alone
MOST_REASONS = 50  # that are counted one by one; a header may contain anything
TIMEOUT_SECONDS = 60  # after which the coordinator aborts the transaction of one that is gone


@dataclass(frozen=True, kw_only=True)
class ReplayOrder:
    end: End
    topic: str  # of dead-letter records
    ledger: str  # topic, made if it is not there
    choice: Choice
    to: str | None = None  # another topic than each letter's own
    dry_run: bool = False
    declared: tuple[Callable[[str], bool], ...] = ()  # topics that letters may go to; empty: any

    def allows(self, topic: str) -> bool:
        return not self.declared or any(takes(topic) for takes in self.declared)


class Unsendable(NamedTuple):
    """Why dead-letter records cannot be sent back, with an identifier of `aqueduct.messages`."""

    why: str
    id: str


UNREADABLE = Unsendable(
    "the records are in batches that cannot be read, or that are too large after decompression",
    id="dead-letters-unreadable",
)
WITHOUT_ORIGIN = Unsendable("the record has no headers with its origin", id="dead-letter-origin-unknown")
FURTHER = Unsendable("records for other topics, with reasons like these", id="dead-letter-target-unknown")


@dataclass(kw_only=True)
class Replayed:
    """The outcome of a replay, in numbers of letters."""

    sent: Counter[TopicPartition] = field(default_factory=Counter)  # by where they went, or would go
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)  # of these: connector, error class
    before: int = 0  # sent back by an earlier run
    others: int = 0  # not chosen: they stay
    left_out: Counter["Unsendable"] = field(default_factory=Counter)
    absent: tuple[str, ...] = ()  # chosen connectors and error classes that no letter has
    ledger_made: bool = False  # there was no ledger of this name


@dataclass(frozen=True, kw_only=True)
class _Letter:
    partition: int  # of the dead-letter topic
    offset: int
    target: TopicPartition  # where it goes
    record: Record  # as it goes there
    origin: Origin


def replay(order: ReplayOrder) -> Replayed:
    """Replay dead-letter records; the same call, repeated, continues.

    Fenced if another replay of this topic begins; Failed otherwise.
    """
    outcome = Replayed()
    if order.to and not order.allows(order.to):
        raise Refused(
            "dead-letter-target-unread",
            f"No connector reads {order.to} and writes its dead-letter records to {order.topic}.",
        )
    with connect(order.end, transactional_id(order.topic)) as client:
        if not client.topics([order.topic]):
            raise Refused("topic-unknown", f"The {order.end} has no topic {order.topic}.")
        if order.dry_run:
            _Replay(client, order, outcome, []).run(None)
        else:
            outcome.ledger_made = _make_ledger(client, order)
            _until_done(client, order, outcome)
    return outcome


def _until_done(client: Client, order: ReplayOrder, outcome: Replayed) -> None:
    producer = TransactionalProducer(client, transactional_id(order.topic), TIMEOUT_SECONDS)
    uncertain: list[_Letter] = []

    def attempt(progress: Callable[[], None]) -> None:
        producer.begin()  # what a predecessor left open is aborted, and it is fenced
        _Replay(client, order, outcome, uncertain).run(producer, progress)

    until_committed(client, attempt, "; run the same command again to continue")


class _Replay:
    """One attempt at a replay, from a producer's begin to the next error, or to the end."""

    def __init__(
        self, client: Client, order: ReplayOrder, outcome: Replayed, uncertain: list[_Letter]
    ) -> None:
        """`uncertain`: letters of the last transaction, if nobody knows whether it was committed."""
        self._client = client
        self._order = order
        self._outcome = outcome
        self._uncertain = uncertain
        self._dead = client.topic(order.topic)
        self._targets: dict[str, Topic | None] = {}
        self._ledger = read_ledger(client, order.ledger, self._dead)
        self._epochs: dict[int, int] = {}  # of the partitions' leaders, not older than the letters'
        self._unseen = set(order.choice.names)
        self._has_letters = False

    def run(
        self, producer: TransactionalProducer | None, committed: Callable[[], None] = lambda: None
    ) -> None:
        """Send the letters that are chosen; without a producer, only count them."""
        outcome = self._outcome
        self._count(letter for letter in self._uncertain if self._ledger.has(letter.partition, letter.offset))
        self._uncertain.clear()
        # These are found again in every round; what was sent in an earlier one is in the ledger by now.
        outcome.before, outcome.others = -sum(outcome.sent.values()), 0
        outcome.left_out.clear()
        for letters in in_lists(self._chosen(), TRANSACTION_LETTERS * LETTER_BYTES, _weight):
            if producer:
                self._uncertain.extend(letters)
                self._send(producer, letters)
                producer.commit()
                self._uncertain.clear()
                committed()
            self._count(letters)
            if producer:
                producer.begin()
        # In an empty topic the right name has no letter, either.
        outcome.absent = tuple(sorted(self._unseen)) if self._has_letters else ()

    def _count(self, letters: Iterable[_Letter]) -> None:
        for letter in letters:
            self._outcome.sent[letter.target] += 1
            self._outcome.reasons[letter.origin.connector, letter.origin.error_class] += 1

    def _chosen(self) -> Iterator[_Letter]:
        partitions = self._dead.topic_partitions
        starts, ends = offsets.log_starts(self._client, partitions), offsets.ends(self._client, partitions)
        leaders = offsets.stable_ends(self._client, partitions)
        self._epochs = {partition.partition: leaders[partition].epoch for partition in partitions}
        for partition in partitions:
            offset_range = Range(*partition, starts[partition], ends[partition])
            for piece in read(self._client, offset_range, topic_id=self._dead.id):
                for record in readable(piece.batches, self._leave_out_unread):
                    if letter := self._letter(partition.partition, record):
                        yield letter

    def _letter(self, partition: int, record: Record) -> _Letter | None:
        """Return the letter of a record; None if it isn't to be sent."""
        sent = self._ledger.has(partition, record.offset)
        if sent and not self._unseen:
            self._outcome.before += 1
            return None
        letter_headers = headers(record.body)
        origin = dead_letters.origin(letter_headers)
        if self._unseen and origin:
            self._unseen -= self._order.choice.named_by(origin)
            self._has_letters = True
        if sent:
            self._outcome.before += 1
            return None
        if origin is None:
            self._leave_out(WITHOUT_ORIGIN)
            return None
        if not self._order.choice.takes(origin, record.timestamp):
            self._outcome.others += 1
            return None
        target = self._target(origin)
        if isinstance(target, str):
            self._leave_out(Unsendable(target, id=FURTHER.id))
            return None
        return _Letter(
            partition=partition,
            offset=record.offset,
            target=target,
            record=_as_sent(record, letter_headers),
            origin=origin,
        )

    def _leave_out_unread(self, batch: Batch, error: Exception) -> None:
        self._leave_out(UNREADABLE, batch.count)
        self._unseen.clear()  # letters of the batch may have the names

    def _leave_out(self, reason: Unsendable, number: int = 1) -> None:
        left_out = self._outcome.left_out
        left_out[reason if reason in left_out or len(left_out) < MOST_REASONS else FURTHER] += number

    def _target(self, origin: Origin) -> TopicPartition | str:
        """Return where a letter goes, or why it can't be sent."""
        name = self._order.to or origin.topic
        if not self._order.allows(name):
            return f"the record's header contains topic {_shown(name)}, which the connector does not read"
        if not LEGAL_NAME.fullmatch(name):  # a broker would refuse the whole request for it
            return f"the record's header contains {_shown(name)}, which is not a valid topic name"
        if name not in self._targets:
            try:
                self._targets[name] = self._client.topics([name]).get(name)
            except TopicAuthorizationFailedError:
                return f"the client may not describe topic {name}"
        target = self._targets[name]
        if target is None:
            return f"topic {_shown(name)} does not exist"
        if self._order.to:
            return TopicPartition(name, origin.partition % len(target.partitions))
        if not 0 <= origin.partition < len(target.partitions):
            return f"topic {name} has no partition {origin.partition}"
        return TopicPartition(name, origin.partition)

    def _send(self, producer: TransactionalProducer, letters: Sequence[_Letter]) -> None:
        by_target: dict[TopicPartition, list[Record]] = {}
        for letter in letters:
            by_target.setdefault(letter.target, []).append(letter.record)
        producer.enlist([*by_target, TopicPartition(self._order.ledger, 0)])
        for target, some in by_target.items():
            _write(producer, target, some)
        now = timestamps.now()
        sent = ((letter.partition, letter.offset) for letter in letters)
        entries = self._ledger.entries(sent, self._epochs)
        rows = [Record(now, 0, body(key.encode(), value.encode())) for key, value in entries.items()]
        _write(producer, TopicPartition(self._order.ledger, 0), rows)


def _shown(topic: str) -> str:
    """Return a topic that a header names: whoever wrote it may have put anything there."""
    return topic if LEGAL_NAME.fullmatch(topic) else f"{topic[:80]!r}"


def _weight(letter: _Letter) -> int:
    return max(LETTER_BYTES, len(letter.record.body))


def _as_sent(record: Record, letter_headers: Sequence[Header]) -> Record:
    new = body(*key_and_value(record.body), dead_letters.sent_back(letter_headers))
    return Record(record.timestamp, record.offset, new)


def _write(producer: TransactionalProducer, target: TopicPartition, rows: Iterable[Record]) -> None:
    """Send records in batches that a broker accepts."""
    for some in in_lists(rows, BATCH_BYTES, lambda row: len(row.body)):
        numbered = (Record(row.timestamp, number, row.body) for number, row in enumerate(some))
        batch = build(Records.listed(numbered), codec="zstd")
        producer.send(*target, Ready(batch, len(some), some[-1].offset + 1))


def _make_ledger(client: Client, order: ReplayOrder) -> bool:
    """Create the ledger, and return whether it did not exist."""
    if client.topics([order.ledger]):
        return False
    topic = DeclaredTopic(name=order.ledger, partitions=1, config=CONFIG)
    try:
        apply_topics(client, TopicChanges(create=(topic,), grow={}, alter={}, unmet=()))
    except Failed:
        if not client.topics([order.ledger]):  # which another replay may have made meanwhile
            raise
    offsets.ends(client, [TopicPartition(order.ledger, 0)])  # once it answers, it can be written to
    return True


def read_ledger(client: Client, ledger: str, dead: Topic) -> ReplayLedger:
    """Read the ledger of all earlier commits. Failed if an open transaction hides it for too long."""
    if dead.id is None:
        raise Refused(
            "broker-version-unsupported",
            f"The {client.end} does not support topic IDs, which a replay needs. Upgrade its brokers to "
            "Kafka 2.8 or later.",
        )
    partition = TopicPartition(ledger, 0)
    if not client.topics([ledger]):
        return ReplayLedger(dead.name, str(dead.id))
    patience = Patience(client, f"has an open transaction of another replay in {ledger}")
    end = offsets.ends(client, [partition], "read_uncommitted")[partition]
    while offsets.ends(client, [partition])[partition] < end:
        patience.pause(NodeNotReadyError("records after this transaction cannot be read"))
    replayed = ReplayLedger.parse(
        dead.name, str(dead.id), compacted_topics.texts(compacted_topics.newest(client, [partition]))
    )
    _forget_cut(client, dead, replayed)
    return replayed


def _forget_cut(client: Client, dead: Topic, replayed: ReplayLedger) -> None:
    """Forget what the ledger has of letters that their topic lost: others may have their offsets since."""
    if not replayed:
        return
    partitions = {partition.partition: partition for partition in dead.topic_partitions}
    epoch_ends = {
        (partition.partition, epoch): end
        for epoch, numbers in replayed.epochs.items()
        for partition, end in offsets.ends_of_epochs(
            client, {partitions[number]: epoch for number in numbers & partitions.keys()}
        ).items()
    }
    ends = offsets.ends(client, partitions.values(), "read_uncommitted")
    replayed.forget_cut({partition.partition: end for partition, end in ends.items()}, epoch_ends)
