"""Prune beside backups and restores of real clusters, in a real object store whose users have few rights."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit.identifiers import assert_printed, printed

from aqueduct.cli import main
from aqueduct.snapshots.restore import records
from aqueduct.store.backends import open_store
from aqueduct.store.bucket_admin import BucketAdmin, S3Server
from aqueduct.store.bucket_policy import bucket_policy
from aqueduct.store.catalog import Catalog
from aqueduct.store.retries import Attempts
from servers.broker import Broker
from servers.object_store import ACCESS_KEY, REGION, SECRET_KEY, Gateway, running
from servers.pki import Authority

Said = pytest.CaptureFixture[str]
As = Callable[[str], None]
SECRET = "secret-of-a-user"  # noqa: S105
USERS = ("reader", "writer", "pruner")
ALL_GENERATIONS = ["--compacted-generation-hours", "0.000001"]


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a server with a user who may only read, one who may create, too, and one who may delete."""
    directory = tmp_path_factory.mktemp("gateway")
    accounts = {user: {"access": user, "secret": SECRET, "role": "user"} for user in USERS}
    (directory / "iam").mkdir()
    (directory / "iam/users.json").write_text(json.dumps({"accessAccounts": accounts}))
    with running(directory, Authority(directory / "authority")) as started:
        assert started.authority
        endpoint = S3Server(
            address=f"127.0.0.1:{started.port}",
            region=REGION,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            ca_file=str(started.authority.certificate),
        )
        rights = bucket_policy("backup", read=["reader"], write=["writer"], delete=["pruner"])
        BucketAdmin(endpoint).ensure("backup", rights)
        yield started


@pytest.fixture
def become(users: Gateway, monkeypatch: pytest.MonkeyPatch) -> As:
    for name, value in users.environment.items():
        monkeypatch.setenv(name, value)

    def become(user: str) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", user)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    become("writer")
    return become


@pytest.fixture
def store() -> str:
    return f"s3://backup/{secrets.token_hex(4)}"


def back_up(broker: Broker, store: str, *topics: str, more: tuple[str, ...] = ()) -> int:
    argv = ["backup", "--bootstrap-server", broker.plaintext, "--store", store]
    return main([*argv, "--topics", ",".join(topics), *more])


def restore(broker: Broker, store: str, topics: str, *more: str) -> int:
    argv = ["restore", "--bootstrap-server", broker.plaintext, "--store", store, "--topics", topics]
    return main([*argv, "--no-groups", *more])


def prune(store: str, *more: str) -> int:
    return main(["prune", "--store", store, "--execute", "--orphan-hours", "0.0001", *more])


def numbers(store: str) -> list[int]:
    return Catalog.open(open_store(store)).numbers()


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [message.value() for message in clients.read(broker, topic)]


def keyed(*numbers: int) -> list[dict[str, bytes]]:
    return [{"key": b"%d" % each, "value": b"%d" % each} for each in numbers]


def test_each_snapshot_that_stays_restores(
    source: Broker, target: Broker, store: str, become: As, capsys: Said
) -> None:
    plain = clients.create(source, clients.unique("plain"))
    compacted = clients.create(source, clients.unique("compacted"), cleanup_policy="compact")
    seen = {}
    for number in range(1, 8):
        for topic in (plain, compacted):
            clients.produce(source, topic, keyed(*range(number * 10, number * 10 + 10)))
        assert _back_up_all(source, store, plain, compacted) == 0
        seen[number] = [b"%d" % each for each in range(10, number * 10 + 10)]
    folders = _generations(store, compacted)
    become("pruner")
    assert prune(store, "--keep-last", "3") == 0
    become("writer")
    assert numbers(store)[-3:] == [5, 6, 7]
    assert len(numbers(store)) < 7
    assert len(_generations(store, compacted)) < len(folders)
    for number in numbers(store):
        assert main(["verify", "--store", store, "--snapshot", str(number)]) == 0
        renamed = f"{plain}:{plain}-{number},{compacted}:{compacted}-{number}"
        assert restore(target, store, renamed, "--snapshot", str(number)) == 0
        for topic in (plain, compacted):
            assert values(target, f"{topic}-{number}") == seen[number]
    clients.produce(source, plain, keyed(1))
    assert _back_up_all(source, store, plain, compacted) == 0
    assert main(["snapshots", "--store", store]) == 0
    assert main(["verify", "--store", store]) == 0
    become("pruner")
    capsys.readouterr()
    assert prune(store, "--keep-last", "1") == 3  # the restores have just ended
    assert "read it in the last 3 hours" in capsys.readouterr().out
    assert {f"g{each}" for each in (6, 7)} <= _generations(store, compacted)  # nothing came to it since


def _back_up_all(broker: Broker, store: str, *topics: str) -> int:
    return back_up(broker, store, *topics, more=tuple(ALL_GENERATIONS))


def _generations(store: str, topic: str) -> set[str]:
    return {each.path.split("/")[2] for each in open_store(store).list(f"topics/{topic}")}


def test_writers_cannot_prune_and_pruners_cannot_write(
    source: Broker, store: str, become: As, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    topic = clients.create(source, clients.unique("rights"))
    wait = Attempts.wait
    waits: list[float] = []

    def counted(self: Attempts) -> bool:
        waits.append(self.seconds)
        return wait(self)

    monkeypatch.setattr(Attempts, "wait", counted)
    for number in range(5):
        clients.produce(source, topic, keyed(number))
        assert back_up(source, store, topic) == 0
    before = [each.path for each in open_store(store).list("")]
    capsys.readouterr()
    for user in ("reader", "writer"):
        become(user)
        assert main(["prune", "--store", store, "--keep-last", "1"]) == 0  # a plan needs no more than to read
        waits.clear()
        assert prune(store, "--keep-last", "1") == 1
        assert len(waits) < 8  # what waiting does not repair is told at once
        assert_printed(capsys.readouterr().err, "store-access-refused", store, "remove (AccessDenied)")
        assert [each.path for each in open_store(store).list("")] == before
    become("pruner")
    assert back_up(source, store, topic) != 0
    assert prune(store, "--keep-last", "1") == 0
    assert len(numbers(store)) < 5


# A backup that suspends itself when it has written four objects.
SUSPENDED = """
import os, signal, sys
from itertools import count
from aqueduct.cli import main
from aqueduct.store.backends import _Cloud
create, objects = _Cloud.create, count(1)
def suspending(store, path, data):
    create(store, path, data)
    if path.startswith("topics/") and next(objects) == 4:
        os.kill(os.getpid(), signal.SIGSTOP)
_Cloud.create = suspending
sys.exit(main(sys.argv[1:]))
"""


def test_beside_a_backup_that_runs(source: Broker, target: Broker, store: str, become: As) -> None:
    """Its segments are named by nobody until it commits."""
    topic = clients.create(source, clients.unique("beside"), 4)
    every = [b"%d" % each for each in range(3_000)]
    for number in range(3):
        clients.produce(source, topic, keyed(number), 0)
        assert back_up(source, store, topic) == 0
    for partition in range(4):
        clients.produce(source, topic, every, partition)
    command = ["backup", "--bootstrap-server", source.plaintext, "--store", store, "--topics", topic]
    command += ["--segment-bytes", "4000"]
    known = {each.path for each in open_store(store).list("topics")}
    slow = subprocess.Popen(
        [sys.executable, "-c", SUSPENDED, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        os.waitid(os.P_PID, slow.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        written = {each.path for each in open_store(store).list("topics")} - known
        assert len(written) >= 4
        become("pruner")
        for _ in range(3):
            assert prune(store, "--keep-last", "1") == 0
            assert written <= {each.path for each in open_store(store).list("topics")}
        assert slow.poll() is None, slow.communicate()
        slow.send_signal(signal.SIGCONT)
        assert slow.wait(clients.SECONDS) == 0
    finally:
        slow.kill()
        slow.communicate()
    become("writer")
    assert numbers(store)[-1] == 4
    assert main(["verify", "--store", store]) == 0
    assert restore(target, store, topic) == 0
    assert values(target, topic)[:3] == [b"0", b"1", b"2"]
    assert len(clients.read(target, topic, 0, 1, 2, 3)) == 12_003


@pytest.mark.parametrize("user", ["writer", "reader"])
def test_beside_a_restore(
    source: Broker,
    target: Broker,
    store: str,
    become: As,
    user: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    """The records are written after the prune. Who may not create has no lease, and is told."""
    topic = clients.create(source, clients.unique("leased"), cleanup_policy="compact")
    for number in range(4):
        clients.produce(source, topic, keyed(number))
        assert back_up(source, store, topic, more=tuple(ALL_GENERATIONS)) == 0
    write = records.write
    told: list[Any] = []

    def late(*arguments: Any) -> Any:
        if not told:
            become("pruner")
            told.append(prune(store, "--keep-last", "1"))
            told.append(numbers(store))
            become(user)
        return write(*arguments)

    monkeypatch.setattr(records, "write", late)
    become(user)
    capsys.readouterr()
    code = restore(target, store, topic, "--snapshot", "1")
    said = capsys.readouterr().err
    if user == "writer":
        assert (code, told[0], told[1][0]) == (0, 3, 1)
        assert values(target, topic) == [b"0"]
        assert "snapshot-not-leased" not in printed(said)
    else:
        assert (code, told[0]) == (1, 0)
        assert 1 not in told[1]
        assert "snapshot-not-leased" in printed(said)
        assert "Give these credentials the right to create objects in it" in said
    become("writer")
    assert main(["verify", "--store", store]) == 0


def test_restore_of_pruned_snapshot_is_refused(
    source: Broker, target: Broker, store: str, become: As, capsys: Said
) -> None:
    topic = clients.create(source, clients.unique("gone"))
    for number in range(5):
        clients.produce(source, topic, keyed(number))
        assert back_up(source, store, topic) == 0
    become("pruner")
    assert prune(store, "--keep-last", "1") == 0
    become("writer")
    capsys.readouterr()
    assert restore(target, store, topic, "--snapshot", "1") == 2
    assert_printed(capsys.readouterr().err, "snapshot-missing", "snapshot 1")
    assert topic not in clients.topics(target)


def test_killed_restore_cannot_resume_after_snapshot_was_pruned(
    source: Broker,
    target: Broker,
    store: str,
    become: As,
    users: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    topic = clients.create(source, clients.unique("late"))
    clients.produce(source, topic, keyed(0))
    assert back_up(source, store, topic) == 0

    def killed(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(records, "write", killed)
        assert restore(target, store, topic) == 130
    for number in range(1, 5):
        clients.produce(source, topic, keyed(number))
        assert back_up(source, store, topic) == 0
    for lease in (users.bucket("backup") / store.removeprefix("s3://backup/") / "leases").iterdir():
        lease.unlink()  # as three hours later
    become("pruner")
    assert prune(store, "--keep-last", "1") == 0
    become("writer")
    capsys.readouterr()
    assert restore(target, store, topic) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "[resumed-snapshot-missing] " in said
    clients.delete(target, topic)
    assert restore(target, store, topic) == 0
    assert values(target, topic) == [b"%d" % each for each in range(5)]


def test_leases_are_no_snapshots_for_anybody(
    source: Broker, target: Broker, store: str, become: As, tmp_path: Path
) -> None:
    topic = clients.create(source, clients.unique("folder"))
    clients.produce(source, topic, keyed(1))
    assert back_up(source, store, topic) == 0
    assert restore(target, store, topic, "--dry-run") == 0
    assert list(open_store(store).list("leases")) == []
    assert restore(target, store, topic) == 0
    assert len(list(open_store(store).list("leases"))) == 1
    assert back_up(source, store, topic) == 0
    for verb in ("verify", "snapshots"):
        assert main([verb, "--store", store]) == 0
    become("reader")
    assert main(["verify", "--store", store]) == 0
