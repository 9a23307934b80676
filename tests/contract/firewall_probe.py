"""Packets between two network namespaces, of which one has the firewall rules of a host.

`unshare --net python firewall_probe.py < REQUEST`: REQUEST is JSON with `rules` (a file of nftables), the
host's own `addresses`, its TCP `ports`, and the addresses that others have as `permitted` and `refused`. It
prints as JSON which source reached which port, the packets that rules dropped, and those that left the host.
"""

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

SECONDS = 60.0  # in which permitted connections are made, and packets of the others counted
OTHERS, HOST = "va", "vb"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def configure(device: str, addresses: list[str]) -> None:
    run("ip", "link", "set", "lo", "up")
    for address in addresses:
        length = "64" if ":" in address else "8"
        run("ip", "address", "add", f"{address}/{length}", "dev", device, *["nodad"] * (":" in address))
    run("ip", "link", "set", device, "up")


def serve(request: dict[str, Any]) -> None:
    """Be the host: configure it when its device is there, listen, and count the dropped packets."""
    print("started", flush=True)
    sys.stdin.readline()
    if request["rules"]:
        run("nft", "--file", request["rules"])
    configure(HOST, request["addresses"])
    listeners = []
    for family, everywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104
        for port in request["ports"]:
            listener = socket.socket(family)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((everywhere, port))
            listener.listen(50)
            listeners.append(listener)
    print("listening", flush=True)
    for line in sys.stdin:
        if target := line.strip():  # the host sends something itself
            sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with suppress(OSError):
                sent.sendto(b"anything", (target, 9))
        ruleset = json.loads(run("nft", "--json", "list", "ruleset"))["nftables"]
        rules = (entry["rule"]["expr"] for entry in ruleset if "rule" in entry)
        dropped = [rule[-2]["counter"]["packets"] for rule in rules if "drop" in rule[-1]]
        print(json.dumps(sum(dropped)), flush=True)


class Attempt:
    """A connection from one of the others' addresses to a port of the host, which is begun at once."""

    def __init__(self, source: str, host: str, port: int) -> None:
        self.source, self.port = source, port
        self._client = socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET)
        self._client.setblocking(False)
        self._client.bind((source, 0))
        self._client.connect_ex((host, port))

    @property
    def connected(self) -> bool:
        try:
            self._client.getpeername()
        except OSError:
            return False
        return True


def main(request: dict[str, Any]) -> dict[str, Any]:
    run("ip", "link", "add", "name", OTHERS, "type", "veth", "peer", "name", HOST)
    command = ["unshare", "--net", sys.executable, __file__, json.dumps(request)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin
        assert host.stdout

        def ask(line: str) -> str:
            assert host.stdin
            assert host.stdout
            host.stdin.write(line + "\n")
            host.stdin.flush()
            return host.stdout.readline()

        assert host.stdout.readline() == "started\n"
        run("ip", "link", "set", HOST, "netns", str(host.pid))
        assert ask("") == "listening\n"
        configure(OTHERS, [*request["permitted"], *request["refused"]])
        own = {":" in address: address for address in request["addresses"]}
        sources = [*request["permitted"], *request["refused"]]
        attempts = [
            Attempt(source, own[":" in source], port) for source in sources for port in request["ports"]
        ]
        permitted = [attempt for attempt in attempts if attempt.source in request["permitted"]]
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            dropped = int(ask(request.get("sends_to", "")))
            # The control has no rule that drops a packet, so it waits for its connections.
            is_decided = 0 < request["drops"] <= dropped or all(attempt.connected for attempt in attempts)
            if is_decided and all(attempt.connected for attempt in permitted):
                break
            time.sleep(0.1)
        reached = {
            source: [attempt.port for attempt in attempts if attempt.source == source and attempt.connected]
            for source in sources
        }
        left = json.loads(run("ip", "-json", "-statistics", "link", "show", OTHERS))[0]["stats64"]["rx"]
        host.stdin.close()
        return {"reached": reached, "dropped": dropped, "left": left["packets"]}


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(json.loads(sys.argv[1]))
    else:
        print(json.dumps(main(json.load(sys.stdin))))
