"""Chooses the replica that a partition is read from: the leader, or a nearer follower (KIP-392)."""

import time

from aqueduct.common.topic_names import TopicPartition

NO_REPLICA = -1  # in an answer: read from the broker that was asked
LEADER_SECONDS = 10  # to read from the leader after a follower could not be read
CHOICE_SECONDS = 300  # then the leader chooses again, as for Java's consumer (metadata.max.age.ms)


class NearestReplicas:
    """The followers that leaders chose for a rack, by partition.

    A leader chooses by the rack in a request: `replica.selector.class` of the broker says how. The answer
    then has the broker to ask, and no records.
    """

    def __init__(self, rack: str) -> None:
        """`rack`: that of the reader, as in `client.rack`; empty: leaders are read."""
        self._rack = rack
        self._chosen: dict[TopicPartition, tuple[int, float]] = {}  # broker, until when
        self._failed: dict[TopicPartition, float] = {}  # until when the leader is read

    def broker(self, partition: TopicPartition, leader: int) -> int:
        """Return the broker to read a partition from."""
        broker, until = self._chosen.get(partition, (leader, 0.0))
        if until < time.monotonic():
            self._chosen.pop(partition, None)
            return leader
        return broker

    def is_follower(self, partition: TopicPartition, broker: int) -> bool:
        """Return whether the broker was chosen in the place of the partition's leader."""
        return self._chosen.get(partition, (NO_REPLICA, 0.0))[0] == broker

    def rack(self, partitions: list[TopicPartition]) -> str:
        """Return the rack for a request about these partitions to their leader.

        Empty if a follower of one of them could not be read: the leader would choose it again.
        """
        if not self._rack:
            return ""
        now = time.monotonic()
        self._failed = {partition: until for partition, until in self._failed.items() if until > now}
        return "" if self._failed.keys() & set(partitions) else self._rack

    def choose(self, partition: TopicPartition, broker: int) -> None:
        """Read a partition from the broker that its leader named."""
        self._chosen[partition] = broker, time.monotonic() + CHOICE_SECONDS

    def reject(self, partition: TopicPartition) -> None:
        """Read a partition from its leader for a while."""
        if self._chosen.pop(partition, None):
            self._failed[partition] = time.monotonic() + LEADER_SECONDS

    def reject_broker(self, broker: int) -> None:
        """Read all partitions of a broker from their leaders for a while."""
        for partition in [partition for partition, (chosen, _) in self._chosen.items() if chosen == broker]:
            self.reject(partition)
