"""`aqueduct health` at its time limit."""

import pytest

from aqueduct.cli import health
from aqueduct.errors import Failed
from aqueduct.kafka import addresses


def test_time_limit_names_addresses_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_reported", {})
    with pytest.raises(Failed) as raised:
        health._end(0, None)
    assert raised.value.id != "broker-address-unreachable"
    addresses.report(1, "nobody.invalid:9092", "the host name is unknown")
    with pytest.raises(Failed) as raised:
        health._end(0, None)
    assert raised.value.id == "broker-address-unreachable"
    assert "nobody.invalid:9092" in str(raised.value)
