"""What script/demo refuses before it makes anything."""

import socket
import subprocess

PORT = 19091  # inventories/lab gives it to pro1


def test_demo_reports_taken_port_before_creating_containers() -> None:
    subprocess.run(["script/lab-down"], check=True)
    with socket.create_server(("127.0.0.1", PORT)):
        run = subprocess.run(["script/demo"], capture_output=True, text=True)
    assert run.returncode == 1
    sentence = f"Port {PORT} of this machine (lab_published_port of pro1-kafka-1) is in use."
    assert sentence in " ".join(run.stderr.split())
    assert not made("ps", "--all", "--quiet")
    assert not made("network", "ls", "--quiet")


def made(*listing: str) -> str:
    """List what is there of the lab."""
    filtered = ["docker", *listing, "--filter", "label=aqueduct.lab=aqueduct-lab"]
    return subprocess.run(filtered, check=True, capture_output=True, text=True).stdout
