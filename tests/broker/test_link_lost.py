"""`aqueduct diode lost` on a gap topic of a real broker."""

import json

import pytest
from kit import clients

from aqueduct.cli import main
from aqueduct.link.ledger.entry import LedgerPartition, records
from aqueduct.link.ledger.lineage import Lineage
from servers.broker import Broker


def test_missing_ranges_are_listed_newest_first(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    gaps = clients.create(broker, clients.unique("gaps"), cleanup_policy="compact")
    lost = ["diode", "lost", "--bootstrap-server", broker.plaintext, "--topic", gaps]
    assert main(lost) == 3
    assert "[link-ledger-empty]" in capsys.readouterr().err
    producer = clients.idempotent(broker)
    for second, missing in ((1, [(0, 4)]), (2, [(0, 4), (7, 8)]), (3, [(2, 4), (7, 8)])):
        partition = LedgerPartition(
            topic="flights", partition=1, current=Lineage(topic_id="id", first=0, next=9, gaps=missing)
        )
        for key, value in records(partition, updated=1_700_000_000_000 + second * 1000).items():
            producer.produce(gaps, value, key)
    assert producer.flush(30) == 0
    assert main([*lost, "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["partition"], each["first"], each["last"]) for each in found] == [
        ("missing", 1, 7, 8),
        ("missing", 1, 2, 4),
    ]
    assert [(each["noticed"], each["or_earlier"]) for each in found] == [
        ("2023-11-14T22:13:22.000Z", False),
        ("2023-11-14T22:13:21.000Z", True),
    ]
    assert main([*lost, "--newest", "1"]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "2023-11-14T22:13:22.000Z  missing  flights-1  7 to 8 (2 offsets)"
    ]
    for key, value in records(
        LedgerPartition(topic="flights", partition=1, current=Lineage(topic_id="id", first=0, next=9)),
        updated=9,
    ).items():
        clients.produce(broker, gaps, [{"key": key, "value": value}])
    assert main(lost) == 0
