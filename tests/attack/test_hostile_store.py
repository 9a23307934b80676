"""Somebody who may write into the store: names, numbers and sizes lead nowhere, and memory has an end."""

import hashlib
import os
import shutil
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import stores
import zstandard
from fuzz_bytes import frame_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import clients
from kit.identifiers import assert_printed

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.store import names, validation
from servers.broker import Broker

Said = pytest.CaptureFixture[str]
FAR = 9_999_999_999
MEGABYTES = 200  # that a run may take
SECONDS = 20  # of a processor
NOWHERE = ["--bootstrap-server", "localhost:1", "--topics", "flights"]  # a cluster that is never asked


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return stores.copied(tmp_path / "store")


def verify(store: Path, *more: str) -> int:
    return main(["verify", "--store", store.as_uri(), *more])


def back_up(store: Path, *more: str) -> int:
    return main(["backup", "--store", store.as_uri(), *NOWHERE, *more])


@contextmanager
def bounded() -> Iterator[None]:
    """Hold that what is done takes little memory, and little work."""
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTES << 20
    assert time.process_time() - began < SECONDS


def sentence(capsys: Said) -> str:
    """Return the one sentence that a failure is."""
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("aqueduct: ")]
    assert len(said) == 1
    return said[0]


@pytest.mark.parametrize("number", [FAR, 500_000_000, 0])
@pytest.mark.parametrize("planted", ["nothing", "a manifest"])
def test_planted_snapshot_number_is_reported_and_stops_backup(
    store: Path, capsys: Said, number: int, planted: str
) -> None:
    path = stores.snapshot(store, number)
    if planted == "nothing":
        path.write_bytes(b"")
    else:
        stores.forge(store, lambda told: told["chain"].update(number=number, base=number), number, of=3)
    before = stores.files(store)
    for command in (back_up, verify):
        assert command(store) == ExitCode.FAILED
        said = sentence(capsys)
        assert f"Snapshot {number} " in said
        assert f"move {names.snapshot(number)} out of the store" in said
    assert back_up(store, "--past-damage") == ExitCode.FAILED
    assert main(["snapshots", "--store", store.as_uri()]) == ExitCode.FAILED
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed[1:5]] == ["1", "2", "3", str(number)]
    assert verify(store, "--snapshot", "3") == ExitCode.DONE
    assert stores.files(store) == before
    path.unlink()
    assert verify(store) == ExitCode.DONE


def test_a_restore_takes_no_older_snapshot_by_itself(store: Path, target: Broker, capsys: Said) -> None:
    stores.snapshot(store, FAR).write_bytes(b"")
    argv = ["restore", "--store", store.as_uri(), "--bootstrap-server", target.plaintext]
    # Other tests have topics of these names there.
    argv += ["--topics", f"flights:{clients.unique('flights')}"]
    assert main(argv) == ExitCode.FAILED
    assert_printed(sentence(capsys), "snapshot-forged", f"Snapshot {FAR}")
    assert main([*argv, "--dry-run", "--snapshot", "3"]) == ExitCode.DONE


def test_digits_of_other_scripts_are_no_number(store: Path) -> None:
    (store / "snapshots/٠٠٠٠٠٠٠٠٠٩.json.zst").write_bytes(b"")
    assert verify(store) == ExitCode.DONE


OUTSIDE = "../../outside"


@pytest.mark.parametrize("verb", ["verify", "restore"])
def test_no_name_leads_out_of_the_store(store: Path, target: Broker, capsys: Said, verb: str) -> None:
    # There is what a reader would look for: who believes the name reads it, and calls the snapshot whole.
    shutil.copytree(store / names.TOPICS / "flights", store.parent / "outside")

    def rename(told: dict[str, Any]) -> None:
        for topic in told["topics"]:
            topic["name"] = OUTSIDE if topic["name"] == "flights" else topic["name"]
        for of in ("starts", "positions"):
            told[of][OUTSIDE] = told[of].pop("flights")
        for segment in told["segments"]:
            segment[0] = OUTSIDE if segment[0] == "flights" else segment[0]
        told["chain"].update(number=3, base=3)

    stores.forge(store, rename, of=1)  # full, so that it is judged by itself
    more = ["--bootstrap-server", target.plaintext] if verb == "restore" else []
    assert main([verb, "--store", store.as_uri(), *more]) == ExitCode.FAILED
    assert "the topic name '../../outside' is invalid" in sentence(capsys)


def of_chain(**values: Any) -> stores.Change:
    return lambda told: told["chain"].update(values)


def of_segment(name: str, value: Any) -> stores.Change:
    def change(told: dict[str, Any]) -> None:
        told["segments"][0][stores.column(told, name)] = value

    return change


LIES: dict[str, stores.Change] = {
    "base": of_chain(base=-(10**12)),
    "base that is later": of_chain(base=10**9, number=3),
    "base at the beginning": of_chain(base=-1, parent=2),
    "parent": of_chain(parent=10**12),
    "sizes": of_chain(base_bytes=-(10**12)),
    "time of the base": of_chain(base_created=10**18),
    "time": lambda told: told.update(created=10**30),
    "position": lambda told: told["positions"]["flights"].update({"1": [10**30, 9, 5]}),
    "start": lambda told: told["starts"]["flights"].update({"1": [-5, 0, 5]}),
    "factor": lambda told: told["topics"][0].update(replication_factor=-1),
    "run": of_segment("run", "../../../outside"),
    "partition": of_segment("partition", -1),
    "many partitions": of_segment("partition", 10**12),
    "instance": of_segment("instance", -1),
    "stored bytes": of_segment("stored_bytes", 10**18),
    "index bytes": of_segment("index_bytes", -1),
    "unpacked bytes": of_segment("unpacked_bytes", 10**18),
    "records": of_segment("records", -(10**18)),
    "group": lambda told: told["groups"][0]["offsets"][0].__setitem__(2, 10**30),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("full", [False, True])
def test_numbers_that_no_backup_writes_are_a_sentence(
    store: Path, capsys: Said, lie: str, full: bool
) -> None:
    whole = stores.content(store, 1)

    def change(told: dict[str, Any]) -> None:
        if full:
            told.update({name: whole[name] for name in ("segments", "starts", "positions", "topics", "gaps")})
            told["chain"].update(base=3, base_bytes=0, increments_bytes=0)
        LIES[lie](told)

    stores.forge(store, change)
    for command in (verify, back_up):
        with bounded():
            assert command(store) == ExitCode.FAILED
        assert "Snapshot 3 " in sentence(capsys)
    with bounded():
        assert main(["snapshots", "--store", store.as_uri()]) == ExitCode.FAILED
    assert "         3  " in capsys.readouterr().out


def bomb(size: int, *, header: str) -> bytes:
    """Return some KB that become so many bytes; whether their header tells that, or lies, or says nothing."""
    if header == "silent":
        return zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size))
    return frame_of(size, states=16 << 20 if header == "lying" else None)


HEADERS = "honest", "lying", "silent"


@pytest.mark.parametrize("header", HEADERS)
def test_a_manifest_that_inflates_is_a_sentence(store: Path, capsys: Said, header: str) -> None:
    content = bomb(1 << 30, header=header)
    assert len(content) < 200_000
    stores.snapshot(store, 3).write_bytes(content)
    for command in (verify, back_up):
        with bounded():
            assert command(store) == ExitCode.FAILED
        assert "Snapshot 3 cannot be read" in sentence(capsys)


def sparse(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def test_a_manifest_of_any_size_is_a_sentence(store: Path, capsys: Said) -> None:
    sparse(stores.snapshot(store, 3), 10 << 30)
    for command in (verify, back_up):
        with bounded():
            assert command(store) == ExitCode.FAILED
        assert "Snapshot 3 has 10,737,418,240 bytes" in sentence(capsys)


def test_large_upload_does_not_raise_manifest_size_limit(store: Path, capsys: Said) -> None:
    """It would be 30 times as large as stored, which any manifest may be, and have 1.5 GB."""
    path = stores.snapshot(store, 3)
    path.write_bytes(large_manifest(random_bytes=60 << 20, zeros=1_440 << 20))
    for command in (verify, back_up):
        with bounded():
            assert command(store) == ExitCode.FAILED
        assert "Snapshot 3 " in sentence(capsys)


def large_manifest(*, random_bytes: int, zeros: int) -> bytes:
    """Return a frame that states its size, whose content is never in memory as a whole."""
    frame = zstandard.ZstdCompressor(level=1).compressobj(size=random_bytes + zeros)
    parts = [frame.compress(os.urandom(1 << 20)) for _ in range(random_bytes >> 20)]
    parts += [frame.compress(bytes(1 << 20)) for _ in range(zeros >> 20)]
    return b"".join([*parts, frame.flush()])


@pytest.mark.parametrize("kind", ["log.zst", "index"])
def test_an_object_of_any_size_is_named(store: Path, capsys: Said, kind: str) -> None:
    changed = next(store.rglob(f"*.{kind}"))
    sparse(changed, 10 << 30)
    with bounded():
        assert verify(store) == ExitCode.FAILED
    assert f"{changed.name} is damaged: it has more than " in capsys.readouterr().out


def test_store_json_of_any_size_is_a_sentence(store: Path, capsys: Said) -> None:
    sparse(store / "store.json", 10 << 30)
    with bounded():
        assert verify(store) == ExitCode.FAILED
    assert "store.json is damaged: it has 10,737,418,240 bytes" in sentence(capsys)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("kind", ["log.zst", "index"])
def test_an_object_that_inflates_is_named(store: Path, capsys: Said, kind: str, header: str) -> None:
    """The manifest tells its digest and sizes, for who plants one can plant the other."""
    changed = next(path for path in store.rglob(f"*.{kind}") if "g2" in path.parts)
    content = bomb(1 << 30, header=header)
    content = (b"AQI1" + content) if kind == "index" else content
    changed.write_bytes(content)
    size, digest = ("index_bytes", "index_sha256") if kind == "index" else ("stored_bytes", "sha256")

    def change(told: dict[str, Any]) -> None:
        for segment in told["segments"]:
            start, run = (segment[stores.column(told, name)] for name in ("start", "run"))
            if changed.name.startswith(f"{start:020d}.{run}."):
                segment[stores.column(told, size)] = len(content)
                segment[stores.column(told, digest)] = hashlib.sha256(content).hexdigest()
                segment[stores.column(told, "unpacked_bytes")] = validation.MOST_OBJECT_BYTES

    stores.forge(store, change)
    with bounded():
        assert verify(store) == ExitCode.FAILED
    assert "DAMAGED" in capsys.readouterr().out


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value of parsed JSON."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield from leaves(each, (*path, key))


PLACES = [path for path in leaves(stores.content(stores.FORMAT_1)) if path]
ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        7,
        10**5,
        10**12,
        -(10**12),
        2**63,
        10**30,
        1.5,
        "",
        "x",
        "../x",
        "/",
        "\0",
        "a" * 300,
        [],
        {},
    ]
)


@settings(
    max_examples=3 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_arbitrary_manifest_values_never_cause_traceback(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    store = stores.copied(tmp_path_factory.mktemp("hostile") / "store")

    def change(told: dict[str, Any]) -> None:
        for path, value in changes:
            at: Any = told
            try:
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = value
            except (KeyError, IndexError, TypeError):
                pass  # an earlier change took it away

    stores.forge(store, change)
    with bounded():
        for command in (["snapshots", "--json"], ["verify"]):
            code = main([*command, "--store", store.as_uri()])
            assert code in (ExitCode.DONE, ExitCode.FAILED, ExitCode.REFUSED)  # 2: of a newer format
