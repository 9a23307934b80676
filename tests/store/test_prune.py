"""A store is pruned: what stays is whole, restores, and is gone on with; of the rest nothing is left."""

import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from grown_store import Grown
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import clients
from kit.identifiers import assert_printed, raises
from kit.interruption import EITHER, Interruption, steps

from aqueduct.cli import main
from aqueduct.common.keys import ReceiverKey
from aqueduct.errors import Failed, Refused
from aqueduct.snapshots.backup import verify
from aqueduct.snapshots.prune import run as prune_run
from aqueduct.snapshots.prune.policy import KeepPolicy
from aqueduct.snapshots.prune.run import PruneOrder, PruneOutcome, prune
from aqueduct.store import leases, names, signing
from aqueduct.store.backends import _Directory
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKind
from aqueduct.store.keyring import Keyring, Locked
from aqueduct.store.signing import SigningKey, Trust

Said = pytest.CaptureFixture[str]
HOUR = 3600
LAST = KeepPolicy(last=1)


@pytest.fixture(params=["file", "s3", pytest.param("hdfs", marks=pytest.mark.long)])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Grown:
    if request.param == "s3":
        request.getfixturevalue("s3")
        return Grown(f"s3://store/{secrets.token_hex(4)}/pruned")
    if request.param == "hdfs":
        return Grown(f"{request.getfixturevalue('hdfs').url}/{secrets.token_hex(4)}")
    return Grown(f"file://{tmp_path}/store")


@pytest.fixture
def store(tmp_path: Path) -> Grown:
    return Grown(f"file://{tmp_path}/store")


# Grown's manifests say times of their own, as those of a copied store do.
COPIED = 1_000_000
COPY = ("--copied-through", str(COPIED))


def pruned(store: Grown, keep: KeepPolicy = LAST, *, execute: bool = True, **more: Any) -> PruneOutcome:
    return prune(
        PruneOrder(store=store.url, keep=keep, execute=execute, **{"copied_through": COPIED, **more})
    )


def folder(store: Grown) -> Path:
    return Path(store.url.removeprefix("file://"))


def everything(store: Grown) -> dict[str, bytes]:
    return {
        path.relative_to(folder(store)).as_posix(): path.read_bytes()
        for path in folder(store).rglob("*")
        if path.is_file()
    }


def age(store: Grown, path: str, hours: float) -> None:
    """Let an object be so much older than the newest snapshot."""
    newest = (folder(store) / names.snapshot(store.catalog.numbers()[-1])).stat().st_mtime
    os.utime(folder(store) / path, (newest - hours * HOUR,) * 2)


def test_prune_leaves_whole_snapshots_and_no_other_objects(any_store: Grown) -> None:
    store = any_store
    store.run(14)  # full are 1, 5, 9, 13; generations begin at 1, 4, 7, 10, 13
    before = store.paths()
    told = pruned(store, KeepPolicy(last=1, days=1), execute=False)
    assert (store.paths(), store.catalog.numbers()) == (before, [*range(1, 15)])
    done = pruned(store, KeepPolicy(last=1, days=1))
    assert (told.plan, told.swept) == (done.plan, done.swept)
    assert store.check() == [9, 10, 11, 12, 13, 14]
    assert (store.paths(), done.left_out) == (store.named(), ())
    gone = {path for path in before if path not in store.paths()}
    assert {path.split("/")[2] for path in gone} == {
        "g1"
    }  # 9 has g2 and g3, and each later one all of flights
    assert {name: each.count for name, each in done.swept.gone.items()} == {"planes": len(gone)}
    again = pruned(store, KeepPolicy(last=1, days=1))
    assert (again.plan.go, again.swept.gone, again.swept.orphans.count) == ((), {}, 0)
    store.run(3)
    assert store.check() == [*range(9, 18)]
    assert main(["snapshots", "--store", store.url]) == 0
    assert pruned(store).plan.go == tuple(range(9, 17))
    assert store.check() == [17]
    assert store.paths() == store.named()


def test_generations_stay_few_over_many_periods(store: Grown) -> None:
    """Prune runs after each run: at most two generations are there, and one is always complete."""
    for number in range(1, 31):
        store.run()
        pruned(store, KeepPolicy(last=1))
        generations = {path.split("/")[2] for path in store.paths() if path.startswith("topics/planes/")}
        newest = 1 + (number - 1) // 3
        assert f"g{newest}" in generations
        assert len(generations) <= 3  # two are live, and what the newest builds on has one more at most
        store.check([store.catalog.numbers()[-1]])
        assert len(store.catalog.numbers()) <= 4


@pytest.mark.parametrize("after", EITHER)
def test_prune_killed_at_any_step_resumes_without_damage(
    store: Grown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    store.run(15)
    store.objects.create("topics/flights/0/00000000000000000150.dead.log", b"of a run that was killed")
    for path in store.paths():
        age(store, path, 100)
    (folder(store) / "leases").mkdir()
    (folder(store) / names.lease(3, "old", "0" * 8)).write_bytes(b"{}")
    age(store, names.lease(3, "old", "0" * 8), 4)
    whole = tmp_path / "whole"
    shutil.copytree(folder(store), whole)
    keep = KeepPolicy(last=2, days=1)
    outcome = pruned(store, keep)
    assert (len(outcome.plan.go), outcome.swept.gone.keys(), outcome.swept.orphans.count) == (
        8,
        {"planes"},
        1,
    )
    expected = everything(store)
    for at in steps():
        shutil.rmtree(folder(store))
        shutil.copytree(whole, folder(store))
        with monkeypatch.context() as patch:
            stopped = Interruption(patch, _Directory, at, after=after)
            try:
                pruned(store, keep)
            except KeyboardInterrupt:
                assert stopped.calls >= at
            else:
                break
        Grown(store.url).check()
        pruned(store, keep)
        assert everything(store) == expected
    assert at > 10


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.integers(1, 14),
    keep=st.builds(
        KeepPolicy,
        last=st.integers(0, 3),
        daily=st.integers(0, 3),
        weekly=st.integers(0, 2),
        days=st.integers(0, 2),
    ),
    then=st.integers(0, 3),
)
def test_whatever_the_policy_all_that_stays_is_whole(
    tmp_path: Path, runs: int, keep: KeepPolicy, then: int
) -> None:
    store = Grown(f"file://{tmp_path}/{secrets.token_hex(4)}")
    store.run(runs)
    outcome = pruned(store, keep)
    assert store.check() == list(outcome.plan.stay)
    assert store.paths() == store.named()
    for _ in range(then):
        store.run()
    assert store.check()[-1] == runs + then


def test_snapshot_with_future_time_does_not_shift_policy(store: Grown) -> None:
    """Its snapshot would be the newest by years, and all others too old."""
    store.run(6)
    store.commit(replace(store.read(), created=4_102_444_800_000))  # 2100
    assert pruned(store, KeepPolicy(days=200)).plan.go == ()
    assert pruned(store, KeepPolicy(days=1)).plan.go == (1, 2, 3, 4)


# --- what nobody names ---


def test_prune_keeps_running_backup_objects_and_removes_orphans(any_store: Grown) -> None:
    store = any_store
    store.run(2)
    dead = store.read()  # this one is killed before it commits, and the same offsets are read again
    left = {path for each in dead.segments for path in (each.path, each.index_path)}
    _rename_run(store, left)
    time.sleep(1.1)  # S3 tells whole seconds
    store.run(1)
    running = store.read()
    young = {path for each in running.segments for path in (each.path, each.index_path)}
    told = pruned(store, orphan_hours=48)
    assert (told.swept.orphans.count, told.swept.young.count) == (0, 2 + len(young))
    done = pruned(store, orphan_hours=0.0001)
    assert (done.swept.orphans.count, done.swept.young.count) == (2, len(young))
    assert store.paths() == store.named() | young
    store.commit(running)
    assert store.check([4])[-1] == 4
    assert store.paths() == store.named()


def _rename_run(store: Grown, paths: set[str]) -> None:
    for path in paths:
        store.objects.move(path, path.replace(".00000003.", ".dead."))


@pytest.mark.parametrize(("hours", "stays"), [(47.9, True), (48.1, False)])
def test_an_orphan_goes_by_the_store_s_clock(store: Grown, hours: float, stays: bool) -> None:
    """Ours may be wrong by years."""
    store.run(2)
    orphan = "topics/flights/0/00000000000000000020.dead.log"
    store.objects.create(orphan, b"x")
    age(store, orphan, hours)
    for path in everything(store):
        if path != orphan:
            os.utime(folder(store) / path, (time.time() - 5 * 365 * 24 * HOUR,) * 2)
    age(store, orphan, hours)
    outcome = pruned(store)
    assert (orphan in store.paths()) == stays
    assert (outcome.swept.orphans.bytes, outcome.swept.young.bytes) == ((0, 1) if stays else (1, 0))


def test_objects_of_topic_in_no_snapshot_are_orphans(store: Grown) -> None:
    store.run(2)
    orphan = "topics/gone/g3/17/00000000000000000020.dead.log.zst.enc"
    store.objects.create(orphan, b"x")
    age(store, orphan, 49)
    pruned(store)
    assert orphan not in store.paths()


@pytest.mark.parametrize(
    "path",
    ["topics/README", "topics/flights/0/notes.log", "topics/flights/0/00000000000000000000.log", "other/x"],
)
def test_what_no_backup_writes_stays(store: Grown, path: str, capsys: Said) -> None:
    store.run(2)
    store.objects.create(path, b"x")
    age(store, path, 1_000)
    assert main(["prune", "--store", store.url, "--keep-last", "1", "--execute", *COPY]) == 0
    assert (folder(store) / path).exists()
    assert ("Kept: 1 object below topics/" in capsys.readouterr().out) == (path.startswith("topics/"))


# --- what can't be judged ---


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("number", [1, 3, 6])
@pytest.mark.parametrize("harm", [cut, Path.unlink])
def test_damaged_or_lost_manifest_prevents_any_removal(
    store: Grown, number: int, harm: Callable[[Path], None], capsys: Said
) -> None:
    store.run(7)
    if harm is Path.unlink and number == 3:
        number = 2  # 4 builds on it; 4 itself could have been pruned
    harm(folder(store) / names.snapshot(number))
    reason = "is lost" if harm is Path.unlink else names.snapshot(number)
    _nothing_goes(store, capsys, "snapshot-unusable", f"Snapshot {number}", reason)


def _nothing_goes(store: Grown, capsys: Said, id_: str, *facts: str, more: Sequence[str] = ()) -> None:
    before = everything(store)
    argv = [
        "prune",
        "--store",
        store.url,
        "--keep-last",
        "1",
        "--execute",
        *COPY,
        "--orphan-hours",
        "0.0001",
        *more,
    ]
    assert main(argv) == 1
    assert_printed(capsys.readouterr().err.splitlines()[-1], id_, *facts)
    assert everything(store) == before


def test_nothing_goes_where_a_snapshot_is_nobody_s(store: Grown, capsys: Said) -> None:
    store.run(3)
    planted = folder(store) / names.snapshot(900_000_000)
    shutil.copy(folder(store) / names.snapshot(3), planted)
    _nothing_goes(store, capsys, "snapshot-unusable", "Snapshot 900000000", "snapshot 3")
    planted.unlink()
    shutil.copy(folder(store) / names.snapshot(3), folder(store) / names.snapshot(4))
    _nothing_goes(store, capsys, "snapshot-unusable", "Snapshot 4", "snapshot 3")


def test_nothing_goes_where_a_snapshot_is_not_believed(store: Grown, tmp_path: Path, capsys: Said) -> None:
    ours, other = (SigningKey(ed25519.Ed25519PrivateKey.generate()) for _ in range(2))
    for key in (ours, ours, ours, ours, other):
        store.run(signing_key=key)
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    trusted = tmp_path / "ours.pem"
    trusted.write_bytes(ours.private.public_key().public_bytes(*form))
    both = ["--trusted-key", str(trusted)]
    _nothing_goes(store, capsys, "snapshot-not-trusted", "Snapshot 5", signing.name(other.public), more=both)
    assert pruned(store, trust=Trust(frozenset({ours.public, other.public}))).plan.go == (1, 2, 3, 4)
    store.run(signing_key=None)
    _nothing_goes(store, capsys, "snapshot-not-trusted", signing.name(other.public), more=both)
    with raises(Failed, "snapshot-not-trusted", "Snapshot 6", "--unsigned-before"):
        pruned(store, trust=Trust(frozenset({ours.public, other.public})))


def test_manifest_encrypted_for_others_prevents_any_removal(store: Grown) -> None:
    mine, theirs = ReceiverKey.generate(), ReceiverKey.generate()
    keys = Keyring(store.objects, [mine, theirs])
    catalog = Catalog.open_or_make(store.objects, keys=keys)
    for each in (mine, mine, mine, mine, theirs):
        store.run(catalog=catalog, encrypting=keys.create(DataKind.MANIFEST, [each.public]))
    before = everything(store)
    for private, recipient in (((), mine), ((mine,), theirs), ((theirs,), mine)):
        with raises(Locked, "decryption-key-missing", store.url, recipient.public.fingerprint.hex()):
            pruned(store, private_keys=private)
    assert everything(store) == before
    assert pruned(store, private_keys=(mine, theirs)).plan.go == (1, 2, 3, 4)
    assert {names.key_number(path) is not None for path in everything(store) if "keys" in path} == {True}


def test_a_store_without_a_snapshot_and_no_store(store: Grown, tmp_path: Path) -> None:
    with raises(Refused, "backup-missing", store.url, names.STORE):
        pruned(store)
    assert store.catalog.numbers() == []
    store.objects.create("topics/flights/0/00000000000000000020.dead.log", b"x")
    with raises(Refused, "snapshot-missing", store.url):
        pruned(store)
    assert len(store.paths()) == 1


# --- restores ---


@pytest.mark.parametrize(("hours", "stays"), [(2.9, True), (3.1, False)])
def test_leased_snapshot_and_its_base_stay(store: Grown, hours: float, stays: bool) -> None:
    store.run(11)
    path = names.lease(6, "some-restore", "0123abcd")
    store.objects.create(path, b"{}")
    age(store, path, hours)
    outcome = pruned(store)
    assert store.check() == ([5, 6, 9, 10, 11] if stays else [9, 10, 11])
    assert (folder(store) / path).exists() == stays
    assert outcome.plan.leased == ((5, 6) if stays else ())
    assert [each.what for each in outcome.left_out] == (["snapshot 5", "snapshot 6"] if stays else [])
    if stays:
        assert {skipped.id for skipped in outcome.left_out} == {"snapshot-leased"}
        assert "some-restore" in outcome.left_out[1].why
        assert store.paths() == store.named()


def test_only_valid_lease_names_cause_exit_code_3(store: Grown, capsys: Said) -> None:
    store.run(6)
    for name in ("leases/notes.txt", "leases/0000000001-x.json", "leases/x/0000000001-x-01234567.json"):
        store.objects.create(name, b"{}")
    argv = ["prune", "--store", store.url, "--keep-last", "1", *COPY]
    assert main(argv) == 0
    store.objects.create(names.lease(1, "r", "01234567"), b"{}")
    assert main(argv) == 3
    said = capsys.readouterr().out
    assert "Skipped: [snapshot-leased] snapshot 1: " in said
    assert main(["snapshots", "--store", store.url]) == 0
    store.check()


def test_lease_in_idle_store_ends_one_day_later(store: Grown) -> None:
    store.run(6)
    path = names.lease(1, "r", "01234567")
    store.objects.create(path, b"{}")
    now = time.time()
    for hours, stays in ((26, True), (28, False)):
        for each in [*everything(store)]:
            os.utime(folder(store) / each, (now - 400 * HOUR,) * 2)
        os.utime(folder(store) / path, (now - hours * HOUR,) * 2)
        assert (1 in pruned(store, execute=False).plan.stay) == stays


def test_restore_starting_during_removal_keeps_all_objects(
    store: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leases before it looks whether the manifest is there; prune looks for leases after it removed it."""
    store.run(11)
    before = store.paths()
    remove_many = _Directory.remove_many

    def late(objects: _Directory, paths: Any) -> None:
        if names.snapshot(2) in paths:
            store.objects.create(names.lease(2, "late", "01234567"), b"{}")
        remove_many(objects, paths)

    with monkeypatch.context() as patch:
        patch.setattr(_Directory, "remove_many", late)
        outcome = pruned(store)
    assert [each.what for each in outcome.left_out] == ["all objects"]
    assert "(2)" in outcome.left_out[0].why
    assert store.check() == [9, 10, 11]
    assert store.paths() == before
    again = pruned(store, orphan_hours=0.0001)
    assert store.paths() == before
    assert [each.what for each in again.left_out] == ["all objects"]
    (folder(store) / names.lease(2, "late", "01234567")).unlink()
    for path in before:
        age(store, path, 49)
    assert pruned(store).left_out == ()
    assert store.paths() == store.named()


def test_restore_starting_during_prune_planning_is_noticed(
    store: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.run(11)
    planned = prune_run.plan

    def late(*arguments: Any) -> Any:
        made = planned(*arguments)
        if not list(store.objects.list("leases")):
            store.objects.create(names.lease(2, "late", "01234567"), b"{}")
        return made

    monkeypatch.setattr(prune_run, "plan", late)
    pruned(store)
    assert store.check() == [1, 2, 9, 10, 11]


def test_a_lease_is_repeated_until_its_restore_ends(store: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "REPEATED_SECONDS", 0.05)
    store.run(2)
    said: list[str] = []
    others = {*threading.enumerate()}
    with leases.leased(store.objects, 2, "mine", said.append):
        clients.wait_for("four leases", lambda: len(list(store.objects.list("leases"))) >= 4)
        [repeating] = [each for each in {*threading.enumerate()} - others if "(repeat)" in each.name]
    clients.wait_for("the end of the repetition", lambda: not repeating.is_alive())
    assert {names.lease_of(each.path) for each in store.objects.list("leases")} == {(2, "mine")}
    assert said == []
    with raises(Failed, "snapshot-removed", "Snapshot 7", store.url):
        leases.leased(store.objects, 7, "mine", said.append).__enter__()


# --- two at once ---


def test_verify_reports_snapshot_as_pruned_not_damaged(
    store: Grown, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    store.run(12)
    verify_segments = verify.verify_segments

    def prunes(*asked: Any, **more: Any) -> Any:
        monkeypatch.undo()
        pruned(store)
        return verify_segments(*asked, **more)

    monkeypatch.setattr(verify, "verify_segments", prunes)
    assert main(["verify", "--store", store.url, "--snapshot", "3"]) == 1
    said = capsys.readouterr()
    assert_printed(said.err, "snapshot-removed", "Snapshot 3", store.url)
    assert "DAMAGED" not in said.out


def test_two_prunes_at_once(any_store: Grown) -> None:
    store = any_store
    store.run(18)
    policies = [KeepPolicy(last=1), KeepPolicy(daily=3), KeepPolicy(last=1), KeepPolicy(last=5)]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda keep: pruned(store, keep), policies))
    assert store.check() == [17, 18]
    assert [each.left_out for each in outcomes] == [()] * 4
    pruned(store, orphan_hours=0.0001)
    assert store.paths() == store.named()


def test_another_one_removes_what_this_one_is_reading(
    store: Grown, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    store.run(11)
    planned = prune_run.plan
    others = [KeepPolicy(last=1), KeepPolicy(last=3)]

    def meanwhile(*arguments: Any) -> Any:
        made = planned(*arguments)
        if others:
            pruned(store, others.pop())
        return made

    monkeypatch.setattr(prune_run, "plan", meanwhile)
    pruned(store, KeepPolicy(last=6))
    assert store.check() == [9, 10, 11]
    assert capsys.readouterr().err.count("Reading ") > 3


def test_a_backup_commits_meanwhile(store: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    store.run(7)
    planned = prune_run.plan

    def meanwhile(*arguments: Any) -> Any:
        store.run(2)  # the second one is full
        return planned(*arguments)

    monkeypatch.setattr(prune_run, "plan", meanwhile)
    pruned(store, orphan_hours=0.0001)
    assert store.check() == [5, 6, 7, 8, 9]
    assert store.named() <= store.paths()


# --- the command ---


def test_the_report(store: Grown, tmp_path: Path, capsys: Said) -> None:
    store.run(9)
    report = tmp_path / "report.json"
    argv = ["prune", "--store", store.url, "--keep-last", "1", *COPY, "--report", str(report)]
    assert main(argv) == 0
    told = json.loads(report.read_text())
    out = capsys.readouterr().out.splitlines()
    assert out[1].split() == ["1", "to", "8", "2026-09-03T00:00:00.000Z", "remove"]
    assert out[2].split() == ["9", "2026-09-03T06:00:00.000Z", "keep:", "newest,", "last"]
    assert out[4].split()[0] == "planes"
    assert out[-1].startswith(
        "Would remove 8 snapshots (0.0 MB), 2 objects (0.0 MB) that only these snapshots use, and 0 orphans"
    )
    assert (
        out[-1].endswith("1 snapshot kept; 0.0 s. Nothing was removed. To remove them, pass --execute.")
        or " s. N" in out[-1]
    )
    assert main([*argv, "--execute"]) == 0
    done = json.loads(report.read_text())
    assert capsys.readouterr().out.splitlines()[-1].startswith("Removed 8 snapshots (0.0 MB), 2 objects")
    assert (told["verb"], told["exit_code"], told["executed"], done["executed"]) == ("prune", 0, False, True)
    for each in (told, done):
        assert each["snapshot"] == 9
        assert [shot["id"] for shot in each["snapshots"] if shot["stays"]] == [9]
        assert each["snapshots"][-1]["why"] == "newest, last"
        assert [(topic["topic"], topic["objects"]) for topic in each["topics"]] == [("planes", 2)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "[option-required] "),
        (["--keep-last", "0"], "is not a whole number from 1"),
        (["--keep-daily", "-1"], "is not a whole number from 1"),
        (["--keep-last", "1", "--orphan-hours", "0"], "is not a number of hours"),
        (["--keep-last", "1", "--unsigned-before", "3"], "--unsigned-before needs --trusted-key"),
        (["--keep-last", "1"], " has no backup"),
    ],
)
def test_refusals(tmp_path: Path, arguments: list[str], sentence: str, capsys: Said) -> None:
    assert main(["prune", "--store", f"file://{tmp_path}/none", "--execute", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err.splitlines()[-1]
