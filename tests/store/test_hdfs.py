"""What only HDFS does, on a real one: kills, rights, safe mode, full disks, and what is said of them."""

import os
import pwd
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import hdfs_native
import pytest
from kit.identifiers import raises

from aqueduct.errors import Failed, Refused
from aqueduct.store import hdfs as hdfs_store
from aqueduct.store import retries
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.error_messages import NO_ANSWER, NO_CONNECTION, UNKNOWN_HOST
from aqueduct.store.objects import STALE_SECONDS, EditableObjects
from servers.hdfs import HdfsServer

# Creates objects of its own content; says of which it was the one.
RACER = """
import sys
from aqueduct.store.backends import open_store
from aqueduct.store.objects import Exists
store, own = open_store(sys.argv[1]), sys.argv[2].encode()
sys.stdin.readline()
for number in range(6):
    try:
        store.create(f"commits/{number:02d}", own)
        print(number)
    except Exists:
        pass
"""
WRITER = """
import sys
from aqueduct.store.backends import open_store
open_store(sys.argv[1]).create("a/b", bytes(400 << 20))
"""


@pytest.fixture
def store(hdfs: HdfsServer) -> EditableObjects:
    return open_editable(f"{hdfs.url}/{secrets.token_hex(4)}/deep")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.5)


def run(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def client(hdfs: HdfsServer) -> hdfs_native.Client:
    return hdfs_native.Client(hdfs.url)


def folder(store: EditableObjects, name: str) -> str:
    return f"/{store.url.split('/', 3)[3]}/{name}"


def test_of_two_processes_one_wins_each_name(store: EditableObjects) -> None:
    racers = {own: run(RACER, store.url, own) for own in ("one", "other")}
    time.sleep(1)
    won = {}
    for racer in racers.values():
        assert racer.stdin
        racer.stdin.write("\n")
        racer.stdin.flush()
    for own, racer in racers.items():
        said = racer.communicate()[0]
        assert racer.returncode == 0
        for number in map(int, said.split()):
            assert number not in won
            won[number] = own
    assert len(won) == 6
    for number, own in won.items():
        assert bytes(store.read(f"commits/{number:02d}")) == own.encode()


def test_killed_writer_leaves_no_object(hdfs: HdfsServer, store: EditableObjects) -> None:
    writer = run(WRITER, store.url)
    at = folder(store, ".writing")
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            if [*client(hdfs).list_status(at)]:
                break
        except FileNotFoundError:
            pass
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert writer.returncode == -signal.SIGKILL
    assert [each.isdir for each in client(hdfs).list_status(at)] == [False]  # it was half-way
    assert [*store.list("")] == []
    assert store.head("a/b") is None
    store.create("a/b", b"whole")
    assert [each.path for each in store.list("")] == ["a/b"]


def test_old_files_of_killed_writers_are_removed(hdfs: HdfsServer, store: EditableObjects) -> None:
    at = client(hdfs)
    old = int((time.time() - STALE_SECONDS - 60) * 1000)
    for name in ("old", "new"):
        at.create(folder(store, f".writing/{name}")).close()
    at.set_times(folder(store, ".writing/old"), old, old)
    store.create("a", b"x")
    left = [each.path for each in at.list_status(folder(store, ".writing"))]
    assert left == [folder(store, ".writing/new")]


def test_object_is_synced_before_it_gets_its_name(hdfs: HdfsServer, store: EditableObjects) -> None:
    store.create("a", b"x")
    log = (hdfs.directory / "NameNode.log").read_text()
    events = re.findall(rf"(fsync|completeFile): ({folder(store, '.writing')}/\w+) ", log)
    assert [event for event, _ in events] == ["fsync", "completeFile"]


def test_a_large_folder_is_listed_in_order(hdfs: HdfsServer, store: EditableObjects) -> None:
    at = client(hdfs)
    numbers = [f"a/{number:05d}" for number in range(1_100)]  # a page and a bit
    others = ["a.b", "a/00500.x/y", "a/00500/z", "a0", "a-"]
    wanted = sorted([*(each for each in numbers if each != "a/00500"), *others])
    for path in wanted:
        at.create(folder(store, path)).close()
    assert [each.path for each in store.list("")] == wanted
    for after in ("a.b", "a/00500", "a/00500/z", "a/01098", "a/9"):
        assert [each.path for each in store.list("", after)] == [each for each in wanted if each > after]


def test_a_folder_that_nothing_is_left_in_goes(hdfs: HdfsServer, store: EditableObjects) -> None:
    store.create("a/b/c", b"x")
    store.move("a/b/c", "d/e")
    store.remove("d/e")
    left = [each.path for each in client(hdfs).list_status(folder(store, ""), recursive=True)]
    assert folder(store, "a/b") not in left
    assert folder(store, "d") not in left


@pytest.mark.usefixtures("impatient")
def test_where_no_name_node_is(hdfs: HdfsServer) -> None:
    store = open_store("hdfs://127.0.0.1:1/a")
    with raises(Failed, "store-request-failed", store.url, NO_CONNECTION, "NameNode"):
        store.create("a", b"x")
    with raises(Failed, "store-request-failed", "hdfs://name.invalid:8020/a", UNKNOWN_HOST):
        open_store("hdfs://name.invalid:8020/a").head("a")
    for url, remedy in (
        ("hdfs://cluster/a", "HADOOP_CONF_DIR"),
        ("hdfs://127.0.0.1:99999/a", "hdfs://HOST:PORT/directory"),
    ):
        with raises(Refused, "store-settings-invalid", url, remedy):
            open_store(url)


@pytest.mark.usefixtures("impatient")
def test_a_name_node_that_says_nothing(
    hdfs: HdfsServer, store: EditableObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"x")
    with monkeypatch.context() as patch, hdfs.name_node.silent():
        patch.setattr(hdfs_store, "NAME_SECONDS", 1)
        with raises(Failed, "store-request-failed", store.url, NO_ANSWER):
            store.read("a")
    assert bytes(store.read("a")) == b"x"


def test_create_waits_until_killed_name_node_restarts(
    hdfs: HdfsServer, store: EditableObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "RETRY_SECONDS", 400)  # a slow machine starts a NameNode for a minute
    store.create("before", b"x")
    hdfs.name_node.kill()
    restarted = threading.Timer(2, hdfs.name_node.start)
    restarted.start()
    store.create("after", b"y")
    restarted.join()
    assert [(each.path, each.size) for each in store.list("")] == [("after", 1), ("before", 1)]
    assert bytes(store.read("before")) == b"x"


@pytest.mark.usefixtures("impatient")
def test_safe_mode(hdfs: HdfsServer, store: EditableObjects) -> None:
    store.create("a", b"x")
    with safe_mode(hdfs):
        assert bytes(store.read("a")) == b"x"
        with raises(Failed, "store-request-failed", store.url, "hdfs dfsadmin -safemode leave"):
            store.create("b", b"x")
    store.create("b", b"x")


@contextmanager
def safe_mode(hdfs: HdfsServer) -> Iterator[None]:
    hdfs.admin("-safemode", "enter")
    try:
        yield
    finally:
        hdfs.admin("-safemode", "leave")


def test_without_rights(hdfs: HdfsServer, store: EditableObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("a", b"x")
    client(hdfs).set_permission(folder(store, "a"), 0o600)
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")
    for action, denied in (
        (lambda: open_store(store.url).read("a"), f"to {folder(store, 'a')}: read"),
        (lambda: open_store(store.url).create("b", b"x"), f"to {folder(store, '.writing')}: write"),
    ):
        with raises(Refused, "store-access-refused", store.url, "user nobody", denied):
            action()


def test_whose_files_they_are(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    home = f"/{secrets.token_hex(4)}"
    client(hdfs).mkdirs(home)
    client(hdfs).set_permission(home, 0o777)
    open_store(f"{hdfs.url}{home}").create("own", b"x")
    monkeypatch.setenv("HADOOP_USER_NAME", "lander")
    open_store(f"{hdfs.url}{home}/theirs").create("a", b"x")
    at = client(hdfs)
    assert at.get_file_info(f"{home}/own").owner == pwd.getpwuid(os.geteuid()).pw_name
    assert at.get_file_info(f"{home}/theirs/a").owner == "lander"


def test_names_that_are_taken_otherwise(store: EditableObjects) -> None:
    store.create("a", b"x")
    with raises(Failed, "store-request-failed", store.url, "a/b", "file", "folder"):
        store.create("a/b", b"x")
    store.create("c/d", b"x")
    with raises(Failed, "store-request-failed", store.url, "c", "file", "folder"):
        store.create("c", b"x")
    assert store.head("c") is None


def test_no_room(hdfs: HdfsServer, store: EditableObjects) -> None:
    store.create("a", b"x")
    hdfs.admin("-setSpaceQuota", "1m", folder(store, ""))
    with raises(Failed, "store-request-failed", store.url, "quota"):
        store.create("b", b"x")


def test_no_data_node(hdfs: HdfsServer, store: EditableObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("a", b"x")
    hdfs.data_node.kill()
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(retries, "RETRY_SECONDS", 0.5)
            # Its NameNode still takes the DataNode for one that runs.
            with raises(Failed, "store-request-failed", "write b", NO_CONNECTION, "DataNodes"):
                store.create("b", b"x")
            with raises(Failed, "store-request-failed", "read a"):
                store.read("a")
            hdfs.name_node.kill()
            hdfs.name_node.start()
            hdfs.admin("-safemode", "leave")
            with raises(Failed, "store-request-failed", "write b", "DataNodes"):
                store.create("b", b"x")
    finally:
        hdfs.data_node.start()
    store.create("b", b"x")
    assert [each.path for each in store.list("")] == ["a", "b"]
    assert bytes(store.read("a")) == b"x"
