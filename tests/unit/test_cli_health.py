"""`aqueduct health` at its time limit."""

import pytest
from kit.identifiers import raises

from aqueduct.cli import health
from aqueduct.errors import Failed
from aqueduct.kafka import addresses


def test_time_limit_names_addresses_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_reported", {})
    with raises(Failed, "cluster-not-responding", f"{health.LIMIT_SECONDS} s"):
        health._end(0, None)
    addresses.report(1, "nobody.invalid:9092", "the host name is unknown")
    with raises(Failed, "broker-address-unreachable") as raised:
        health._end(0, None)
    assert "nobody.invalid:9092" in str(raised.value)
