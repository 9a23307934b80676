"""python -m bench.zookeeper [--znodes N] [--runs N] [--what NAME]... [--against DIRECTORY]

Backup, restore and diff of what a ZooKeeper ensemble keeps.
"""

import argparse
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from bench.measured import CommandFailed, Usage, cpu_seconds, measured
from bench.rounds import rounds
from bench.tell import machine, say, table
from servers import zookeeper
from servers.process import FAST
from servers.zookeeper import ZooKeeper

HERE = Path(__file__).resolve().parents[1]
TOPIC = b'{"partitions":{%s},"topic_id":"h7KRlvUtTTeTXJVfEVVuFw","version":3}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'
PARTITIONS = 49  # of each topic, whose znodes are twice as many and two more
SESSION_SECONDS = 0.5  # after which another one begins and ends
HEAD = ["what", "by", "znodes", "s", "CPU s", "Python MB", "server's CPU s"]


def fill(client: KazooClient, znodes: int) -> None:
    """Make znodes as Kafka does."""
    client.create("/cluster/id", b'{"version":"1","id":"of-the-benchmark-------"}', makepath=True)
    client.ensure_path("/brokers/topics")
    partitions = b",".join(b'"%d":[1,2,3]' % number for number in range(PARTITIONS))
    topics = [f"/brokers/topics/events-{number:05}" for number in range(znodes // (2 * PARTITIONS + 2))]
    folders = [f"{topic}/partitions/{number}" for topic in topics for number in range(PARTITIONS)]
    _make(client, ((topic, TOPIC % partitions) for topic in topics))
    _make(client, ((f"{topic}/partitions", None) for topic in topics))
    _make(client, ((folder, None) for folder in folders))
    _make(client, ((f"{folder}/state", STATE) for folder in folders))


def _make(client: KazooClient, znodes: Iterable[tuple[str, bytes | None]]) -> None:
    for made in [client.create_async(path, data) for path, data in znodes]:
        made.get()


class Sessions(threading.Thread):
    """Sessions that come and go, each of which changes the ensemble's zxid."""

    def __init__(self, connect: str) -> None:
        super().__init__(daemon=True)
        self.connect, self.over = connect, threading.Event()

    def run(self) -> None:
        while not self.over.wait(SESSION_SECONDS):
            client = KazooClient(self.connect)
            client.start()
            client.stop()
            client.close()


class Bench:
    """An ensemble with znodes, and what is done with it."""

    def __init__(self, server: ZooKeeper, directory: Path) -> None:
        self.server, self.directory = server, directory
        self.client = KazooClient(server.connect)
        self.client.start()

    def run(self, tree: Path, what: str, server: ZooKeeper | None = None) -> Usage:
        """Run a command of a work tree."""
        server = server or self.server
        store = (self.directory / "store").as_uri()
        command = [sys.executable, "-P", "-m", "aqueduct.cli", "zookeeper", what, "--store", store]
        before = cpu_seconds(server.process.id)
        usage = measured([*command, "--connect", server.connect], {"PYTHONPATH": str(tree)})
        return replace(usage, servers_cpu_seconds=cpu_seconds(server.process.id) - before)

    def backup(self, tree: Path) -> Usage:
        shutil.rmtree(self.directory / "store", ignore_errors=True)
        return self.run(tree, "backup")

    def backup_among_sessions(self, tree: Path) -> Usage:
        sessions = Sessions(self.server.connect)
        sessions.start()
        usage = self.backup(tree)
        sessions.over.set()
        sessions.join()
        return usage

    def diff(self, tree: Path) -> Usage:
        return self.run(tree, "diff")

    def restore(self, tree: Path) -> Usage:
        """Restore to an ensemble of its own, which is empty."""
        with (
            tempfile.TemporaryDirectory(dir=self.directory) as name,
            zookeeper.running(Path(name), jvm=FAST) as other,
        ):
            return self.run(tree, "restore", other)


WHAT: dict[str, Callable[[Bench, Path], Usage]] = {
    "backup": Bench.backup,
    "backup among sessions": Bench.backup_among_sessions,
    "diff": Bench.diff,
    "restore": Bench.restore,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/zookeeper")
    parser.add_argument("--znodes", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--what", action="append", choices=WHAT)
    args = parser.parse_args()
    trees = {"this": HERE} | ({"before": args.against.resolve()} if args.against else {})
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name)
        (folder / "zookeeper").mkdir()
        say("Starting ZooKeeper")
        with zookeeper.running(folder / "zookeeper", jvm=FAST) as server:
            bench = Bench(server, folder)
            say(f"Making {args.znodes:,} znodes")
            fill(bench.client, args.znodes)
            bench.backup(HERE)  # nobody's first: the server's compiler has done its work
            commands = {
                (what, by): partial(WHAT[what], bench, tree)
                for what in args.what or WHAT
                for by, tree in trees.items()
            }
            say("Measuring")
            found = zip(commands, rounds(args.runs, commands.values()), strict=True)
            lines = [line(*what, args.znodes, usage) for what, usage in found]
    print(f"{machine()} Median of {args.runs}.\n\n{table(HEAD, lines)}")


def line(what: str, by: str, znodes: int, of: Usage) -> list[str]:
    return [
        what,
        by,
        f"{znodes:,}",
        f"{of.seconds:.1f}",
        f"{of.cpu_seconds:.1f}",
        f"{of.python_bytes / 1e6:.0f}",
        f"{of.servers_cpu_seconds:.1f}",
    ]


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as error:
        say(f"This failed: {error}")
        sys.exit(1)
