"""What the module host_addresses makes of names, addresses and networks."""

import importlib.util
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/modules/host_addresses.py"
KNOWN = {
    "own": ["127.0.1.1", "10.1.0.1"],
    "other": ["10.1.0.2", "fd00::2"],
    "linked": ["fe80::1%eth0"],
}


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("host_addresses", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def resolved(name: str, *_: Any, **__: Any) -> list[Any]:
        if name not in KNOWN:
            raise socket.gaierror(name)
        return [(0, 0, 0, "", (address, 0)) for address in KNOWN[name]]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return module


def test_hosts_have_the_addresses_of_all_their_names(plugin: ModuleType) -> None:
    assert plugin.addresses([["own"], ["alias", "other"], ["linked"]], []) == {
        "ipv4": ["10.1.0.1", "10.1.0.2"],
        "ipv6": ["fd00::2", "fe80::1"],
        "unknown": [],
    }


def test_overlapping_addresses_and_networks_are_merged(plugin: ModuleType) -> None:
    """nftables refuses a set whose networks overlap."""
    found = plugin.addresses([["10.1.0.9"], ["own"]], ["10.1.0.0/24", "10.2.0.7/24", "fd00::/64", "fd00::1"])
    assert found == {"ipv4": ["10.1.0.0/24", "10.2.0.0/24"], "ipv6": ["fd00::/64"], "unknown": []}


def test_unknown_host_is_reported_and_others_are_allowed(plugin: ModuleType) -> None:
    found = plugin.addresses([["gone", "too"], ["other"], [""]], ["nobody; accept"])
    assert found == {"ipv4": ["10.1.0.2"], "ipv6": ["fd00::2"], "unknown": ["gone", "", "nobody; accept"]}
