"""The behaviour that every store shares: a directory, S3 over TLS, and HDFS."""

import hashlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.objects import EditableObjects, Exists, MissingObject, Objects


@pytest.fixture(params=["file", "s3", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EditableObjects:
    if request.param == "s3":
        request.getfixturevalue("s3")
        return open_editable(f"s3://store/{secrets.token_hex(4)}/deep")
    if request.param == "hdfs":
        return open_editable(f"{request.getfixturevalue('hdfs').url}/{secrets.token_hex(4)}/deep")
    return open_editable(f"file://{tmp_path}/store")


def test_what_was_created_is_read(store: Objects) -> None:
    assert store.head("a/b.c") is None
    with raises(MissingObject, "object-missing", store.url, "a/b.c"):
        store.read("a/b.c")
    with pytest.raises(MissingObject):
        list(store.stream("a/b.c"))
    for path, content in (("a/b.c", b"content"), ("a/empty", b"")):
        store.create(path, content)
        assert bytes(store.read(path)) == content
        assert b"".join(store.stream(path)) == content
        assert store.head(path) == len(content)


def test_nothing_is_overwritten(store: Objects) -> None:
    store.create("a", b"one")
    store.create("a", b"one")
    with raises(Exists, "object-exists", store.url, "a"):
        store.create("a", b"two")
    assert bytes(store.read("a")) == b"one"


def test_of_many_at_once_one_wins(store: Objects) -> None:
    def create(number: int) -> bool:
        try:
            store.create("race", b"%d" % number)
        except Exists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(16)))
    assert won.count(True) == 1
    assert bytes(store.read("race")) == b"%d" % won.index(True)


def test_large_objects(store: Objects) -> None:
    content = secrets.token_bytes(20 << 20)  # obstore would send more than 5 MiB in parts
    store.create("large", memoryview(content))
    with pytest.raises(Exists):
        store.create("large", content[:-1])
    assert store.read("large") == content
    digest, chunks = hashlib.sha256(), 0
    for chunk in store.stream("large", 1 << 20):
        digest.update(chunk)
        chunks += 1
    assert digest.digest() == hashlib.sha256(content).digest()
    assert chunks > 5


def test_list(store: Objects) -> None:
    assert list(store.list("a")) == []
    paths = [f"a/{number:04d}" for number in range(30)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: store.create(path, path.encode()), [*paths, "ab/x", "a/0003.d/y"]))
    assert [each.path for each in store.list("a")] == sorted([*paths, "a/0003.d/y"])
    assert [each.path for each in store.list("a/")] == [each.path for each in store.list("a")]
    assert [each.path for each in store.list("a", after="a/0027")] == paths[28:]
    assert [each.size for each in store.list("ab")] == [4]
    assert len(list(store.list(""))) == 32


def test_names_that_topics_have(store: Objects) -> None:
    for topic in ("a" * 249, "...", "_a-b.c", "A"):
        store.create(f"topics/{topic}/0/x", topic.encode())
        assert [each.path for each in store.list(f"topics/{topic}")] == [f"topics/{topic}/0/x"]
        assert bytes(store.read(f"topics/{topic}/0/x")) == topic.encode()


def test_an_object_gets_another_name(store: EditableObjects) -> None:
    store.create("staged/1", b"content")
    for _ in range(2):  # whoever does it again has nothing left to do
        store.move("staged/1", "a/b/c")
        assert [each.path for each in store.list("")] == ["a/b/c"]
        assert bytes(store.read("a/b/c")) == b"content"
    with raises(MissingObject, "object-missing", store.url, "staged/2"):
        store.move("staged/2", "a/d")


def test_many_objects_are_moved_at_once(store: EditableObjects) -> None:
    for round_ in range(10):
        paths = [f"staged/{round_}/{number}" for number in range(16)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda path: store.create(path, path.encode()), paths))
            list(pool.map(lambda path: store.move(path, f"moved/{path}"), paths))
    assert [*store.list("staged")] == []
    assert len([*store.list("moved")]) == 160


def test_an_object_is_removed(store: EditableObjects) -> None:
    store.create("a/b", b"content")
    for _ in range(2):
        store.remove("a/b")
        assert store.head("a/b") is None


def test_many_objects_are_removed_at_once(store: EditableObjects) -> None:
    # S3 lists and removes 1,000 objects with one request; from other stores, they are removed one by one.
    removed, stay = (1_000, 200) if store.url.startswith("s3:") else (150, 50)
    paths = [f"a/{number % 7}/{number:04d}" for number in range(removed + stay)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda path: store.create(path, b"x"), paths))
    listed = store.list("a")
    assert next(listed).path == "a/0/0000"
    for _ in range(2):  # of two who do it at once, neither finds fault
        store.remove_many(paths[:removed])
    store.remove_many([])
    assert {each.path for each in listed} <= set(paths)  # a listing that is under way meanwhile ends
    assert [each.path for each in store.list("a")] == sorted(paths[removed:])


def test_when_an_object_was_written(store: Objects) -> None:
    before = time.time()
    store.create("a/b", b"x")
    [entry] = store.list("a")
    assert before - 2 <= entry.written <= time.time() + 2  # a server may tell whole seconds


def test_a_catalog(store: Objects) -> None:
    catalog = Catalog.open_or_make(store)
    assert Catalog.open_or_make(open_store(store.url)).id == catalog.id
    assert catalog.numbers() == []
