"""The lag of a backup, as Kafka's own kafka-consumer-groups shows it to whoever watches a cluster."""

import subprocess
from pathlib import Path

from kit import clients

from aqueduct.cli import main
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from servers.broker import Broker
from servers.process import java


def lags(servers: str, group: str) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Return committed offset, log end and lag of each partition."""
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    patience = ("--timeout", "60000")  # its own is 5 s
    command = java(tool, "--bootstrap-server", servers, "--describe", "--group", group, *patience)
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in shown.splitlines() if line.startswith(group)]
    return {(row[1], int(row[2])): (int(row[3]), int(row[4]), int(row[5])) for row in rows}


def test_backup_lag_equals_records_of_next_snapshot(brokers: list[Broker], tmp_path: Path) -> None:
    broker, servers = brokers[0], brokers[0].plaintext
    topic = clients.create(broker, clients.unique("lag"), 2)
    clients.produce(broker, topic, range(5))
    url = f"file://{tmp_path / 'store'}"
    command = ["backup", "--bootstrap-server", servers, "--store", url, "--topics", topic]
    assert main(command) == 0
    group = f"aqueduct-backup-{Catalog.open(open_store(url)).id}"
    assert lags(servers, group) == {(topic, 0): (5, 5, 0), (topic, 1): (0, 0, 0)}

    clients.produce(broker, topic, range(3))
    clients.produce(broker, topic, range(4), 1)
    assert lags(servers, group) == {(topic, 0): (5, 8, 3), (topic, 1): (0, 4, 4)}

    assert main(command) == 0
    assert lags(servers, group) == {(topic, 0): (8, 8, 0), (topic, 1): (4, 4, 0)}
