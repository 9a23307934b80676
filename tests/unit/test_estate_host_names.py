"""Names and addresses that an inventory may have, and that clients cannot use."""

import pytest

from aqueduct.estate.check.host_names import fault, server_fault


@pytest.mark.parametrize(
    "name",
    ["kafka-1", "KAFKA-1.Example.COM", "10.0.0.1", "1and1.example", "xn--bcher-kva.example", "a" * 63, ""],
)
def test_names_that_can_be_used(name: str) -> None:
    assert fault(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kafka-1.example.com.", "dot"),
        ("10.0.0.256", "IPv4"),
        ("10.0.0.01", "IPv4"),
        ("10.0.0", "IPv4"),
        ("1234", "IPv4"),
        ("fe80::1%eth0", "IPv6"),
        ("[::1]", "IPv6"),
        ("kafka_1.", "underscore"),
        ("kafka..example", "RFC 1123"),
        ("-kafka", "RFC 1123"),
        ("kafka-1 ", "RFC 1123"),
        ("b\u00fccher.example", "RFC 1123"),
        ("a" * 64, "RFC 1123"),
    ],
)
def test_names_that_cannot_be_used(name: str, reason: str) -> None:
    unusable = fault(name)
    assert unusable is not None
    assert unusable.id == "host-name-unusable"
    assert reason in unusable.sentence


@pytest.mark.parametrize(
    ("address", "with_tls", "id_", "fact"),
    [
        ("kafka-1:9092", True, "", ""),
        ("[fe80::1%eth0]:9092", True, "", ""),
        ("[::1]:9092", True, "", ""),
        ("old_1.example.:9092", False, "", ""),
        ("kafka-1.:9092", True, "host-name-unusable", "dot"),
        ("kafka-1", True, "address-form-wrong", "host:port"),
        ("kafka-1:", True, "address-form-wrong", "host:port"),
        ("kafka-1:0", True, "number-out-of-range", "65535"),
        ("kafka-1:65536", True, "number-out-of-range", "65535"),
        ("kafka-1:\u0669\u0660", True, "number-out-of-range", "65535"),
        ("::1:9092", True, "host-name-unusable", "brackets"),
    ],
)
def test_addresses(address: str, with_tls: bool, id_: str, fact: str) -> None:
    unusable = server_fault(address, with_tls=with_tls)
    assert (unusable.id if unusable else "") == id_
    assert fact in (unusable.sentence if unusable else "")
