"""The kernel sizes the buffers of connections between sites: a fixed one limits a long line."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BUFFERS = {
    ("kafka", "_kafka_node_properties"): ("socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
    ("connect", "_connect_role_properties"): tuple(
        f"{client}.{direction}.buffer.bytes"
        for client in ("consumer", "producer")
        for direction in ("send", "receive")
    ),
}


@pytest.mark.parametrize(("role", "variable"), BUFFERS)
def test_kernel_sizes_buffers(role: str, variable: str) -> None:
    properties = yaml.safe_load((ROOT / "roles" / role / "vars/main.yml").read_text())[variable]
    assert {name: properties.get(name) for name in BUFFERS[role, variable]} == dict.fromkeys(
        BUFFERS[role, variable], "-1"
    )
