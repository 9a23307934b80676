"""Logs that lose their last records, as after an unclean leader election or on a disk that lost writes."""

import struct
from collections.abc import Mapping
from functools import partial

from kafka.admin import KafkaAdminClient
from kit import clients

from servers.broker import Broker

HEADER = struct.Struct(">qi")  # of a batch: its first offset, and the bytes that follow


def cut_log(broker: Broker, topic: str, offset: int, partition: int = 0) -> None:
    """Kill the broker, cut a log at the first offset of a batch, and start it: the leader epoch is new."""
    cut_logs(broker, {(topic, partition): offset})


def cut_partitions(broker: Broker, topic: str, offsets: Mapping[int, int]) -> None:
    """Cut the logs of several partitions, each at an offset, as `cut_log` does."""
    cut_logs(broker, {(topic, partition): offset for partition, offset in offsets.items()})


def cut_logs(broker: Broker, offsets: Mapping[tuple[str, int], int]) -> None:
    """Cut the logs of partitions of several topics, each at an offset, as `cut_log` does."""
    await_markers(broker)
    broker.process.kill()
    for (topic, partition), offset in offsets.items():
        folder = broker.data / f"{topic}-{partition}"
        log = folder / f"{0:020}.log"
        batches, position = log.read_bytes(), 0
        while HEADER.unpack_from(batches, position)[0] < offset:
            position += HEADER.size + HEADER.unpack_from(batches, position)[1]
        log.write_bytes(batches[:position])
        for file in (*folder.glob("*index"), *folder.glob("*.snapshot")):
            file.unlink()
    broker.process.start()
    for (topic, partition), offset in offsets.items():
        ends = partial(clients.ends, broker, topic, partition)
        clients.wait_for(f"the end {offset}", lambda ends=ends, offset=offset: ends() == [offset])


def await_markers(broker: Broker) -> None:
    """Wait until the coordinator has written the markers of all transactions that it ended.

    A coordinator that restarts does not write markers to a partition whose leader it does not know yet. The
    transaction then hangs in this partition.
    """
    asked = KafkaAdminClient(bootstrap_servers=broker.plaintext)

    def all_written() -> bool:
        listed = asked.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"])
        return not any(listed.values())

    try:
        clients.wait_for("markers of transactions", all_written)
    finally:
        asked.close()
