"""Names and addresses that an inventory may have, and that clients cannot use."""

import pytest

from aqueduct.estate.check.host_names import fault, server_fault


@pytest.mark.parametrize(
    "name",
    ["kafka-1", "KAFKA-1.Example.COM", "10.0.0.1", "1and1.example", "xn--bcher-kva.example", "a" * 63, ""],
)
def test_names_that_can_be_used(name: str) -> None:
    assert fault(name) == ""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("kafka-1.example.com.", "ends with a dot, which names in certificates do not; remove the dot"),
        ("10.0.0.256", "neither an IPv4 address nor a host name"),
        ("10.0.0.01", "neither an IPv4 address nor a host name"),
        ("10.0.0", "neither an IPv4 address nor a host name"),
        ("1234", "neither an IPv4 address nor a host name"),
        ("fe80::1%eth0", "is an IPv6 address"),
        ("[::1]", "is an IPv6 address"),
        ("kafka_1.", "underscore"),
        ("kafka..example", "is not a host name"),
        ("-kafka", "is not a host name"),
        ("kafka-1 ", "is not a host name"),
        ("b\u00fccher.example", "is not a host name"),
        ("a" * 64, "is not a host name"),
    ],
)
def test_names_that_cannot_be_used(name: str, sentence: str) -> None:
    assert sentence in fault(name)


@pytest.mark.parametrize(
    ("address", "with_tls", "sentence"),
    [
        ("kafka-1:9092", True, ""),
        ("[fe80::1%eth0]:9092", True, ""),
        ("[::1]:9092", True, ""),
        ("old_1.example.:9092", False, ""),
        ("kafka-1.:9092", True, "ends with a dot"),
        ("kafka-1", True, "add the port"),
        ("kafka-1:", True, "add the port"),
        ("kafka-1:0", True, "has no port from 1 to 65535"),
        ("kafka-1:65536", True, "has no port from 1 to 65535"),
        ("kafka-1:\u0669\u0660", True, "has no port from 1 to 65535"),
        ("::1:9092", True, "put the IPv6 address in brackets"),
    ],
)
def test_addresses(address: str, with_tls: bool, sentence: str) -> None:
    found = server_fault(address, with_tls=with_tls)
    assert sentence in found if sentence else found == ""
