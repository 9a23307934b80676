"""A receiving end survives every datagram; `script/fuzz-link` throws a million, here are few."""

from pathlib import Path

from fuzz_link import fuzz

from servers.broker import Broker


def test_a_receiver_outlives_every_datagram_and_counts_it(brokers: list[Broker], tmp_path: Path) -> None:
    outcome = fuzz(brokers[0], tmp_path, 20_000, seed=1, tell=print)
    assert sum(outcome.sent.values()) == 20_000
    assert outcome.faults == ()
