"""Somebody who may create objects, and nothing else, makes prune remove the backups."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from grown_store import BEGAN, HOURS, Grown
from identifiers import raises

from aqueduct.cli import main
from aqueduct.errors import ExitCode, Refused
from aqueduct.snapshots.prune.policy import KeepPolicy
from aqueduct.snapshots.prune.run import PruneOrder, prune
from aqueduct.store import names
from aqueduct.store.signing import SigningKey, Trust

Said = pytest.CaptureFixture[str]
DAY = 86_400_000
RUNS = 20  # of which four are of one day
USUAL = KeepPolicy(days=2, daily=14, weekly=8, monthly=12)


@pytest.fixture
def store(tmp_path: Path) -> Grown:
    """Return a store of backups, which its server wrote when their manifests say."""
    made = Grown(f"file://{tmp_path}/store")
    made.run(RUNS)
    for number in made.catalog.numbers():
        written(made, number, made.catalog.manifest(number).created)
    return made


def folder(store: Grown) -> Path:
    return Path(store.url.removeprefix("file://"))


def written(store: Grown, number: int, at: int) -> None:
    """Let the store's clock have been at a time, in milliseconds, when it wrote a snapshot."""
    os.utime(folder(store) / names.snapshot(number), (at / 1000,) * 2)


NOW = BEGAN + RUNS * HOURS * 3_600_000 + DAY // 2  # by the store's clock, when somebody plants


def plant(store: Grown, created: int, *, key: SigningKey | None = None, **more: Any) -> int:
    """Commit a snapshot of nothing, as the backup's own credentials can; return its number."""
    planted = replace(store.read(), created=created, positions={}, starts={}, topics=(), segments=(), **more)
    number = store.catalog.commit(planted, key).number
    written(store, number, NOW)
    return number


def everything(store: Grown) -> dict[str, bytes]:
    return {
        path.relative_to(folder(store)).as_posix(): path.read_bytes()
        for path in folder(store).rglob("*")
        if path.is_file()
    }


def command(store: Grown, *more: str) -> int:
    usual = ("--keep-days", "2", "--keep-daily", "14", "--keep-weekly", "8", "--keep-monthly", "12")
    return main(["prune", "--store", store.url, "--execute", *(more or usual)])


def back_dates() -> Iterator[int]:
    """Yield a time of each day of a year, the oldest first: each would be the newest of its day."""
    yield from (NOW - days * DAY for days in range(363, -1, -1))


def test_back_dated_snapshots_take_no_days(store: Grown, capsys: Said) -> None:
    real = everything(store)
    for created in [*back_dates()][-12:]:
        plant(store, created)
    before = everything(store)
    assert command(store) == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert "[snapshot-time-backwards] Snapshot 21 of " in said
    assert "Nothing was removed." in said
    assert everything(store) == before
    assert real.items() <= before.items()


def test_signatures_of_a_captured_host_change_nothing(store: Grown) -> None:
    key = SigningKey(ed25519.Ed25519PrivateKey.generate())
    for created in [*back_dates()][-12:]:
        plant(store, created, key=key)
    before = everything(store)
    trust = Trust(frozenset({key.public}), unsigned_before=RUNS + 1)
    with raises(Refused, "snapshot-time-backwards", f"Snapshot {RUNS + 1}", f"--wrong-clock {RUNS + 1}"):
        prune(PruneOrder(store=store.url, keep=USUAL, execute=True, trust=trust))
    assert everything(store) == before


def test_snapshots_of_another_time_than_the_store_s_stay_and_take_no_place(
    store: Grown, capsys: Said
) -> None:
    """Nothing was backed up for a while, so that what is planted runs forwards."""
    real = store.catalog.numbers()
    last = store.catalog.manifest(real[-1]).created
    late = last + 30 * DAY
    planted = [plant(store, last + days * DAY) for days in range(1, 28)]
    for number in planted:
        written(store, number, late)
    outcome = prune(PruneOrder(store=store.url, keep=KeepPolicy(daily=2), execute=True, allow_less=True))
    assert set(planted) <= outcome.plan.stay.keys()
    assert {real[-1], real[-2]} <= outcome.plan.stay.keys()  # the newest of the last two days
    assert store.check([real[-1]])
    [skipped] = outcome.left_out
    assert (skipped.id, skipped.what) == (
        "snapshot-times-disagree",
        f"snapshots {planted[0]} to {planted[-1]}",
    )
    assert command(store, "--keep-daily", "2", "--allow-less") == ExitCode.INCOMPLETE
    assert "[snapshot-times-disagree] snapshots 21 to 47: they stay: " in capsys.readouterr().out


def test_a_copied_store_keeps_all_until_it_is_known_for_a_copy(store: Grown, capsys: Said) -> None:
    """To its server all of it is new."""
    for number in store.catalog.numbers():
        written(store, number, NOW + 10 * DAY)
    before = everything(store)
    assert command(store) == ExitCode.INCOMPLETE
    assert "[snapshot-times-disagree] snapshots 1 to 20: " in capsys.readouterr().out
    assert everything(store) == before
    assert command(store, "--keep-last", "1", "--copied-through", str(RUNS)) == ExitCode.DONE
    assert store.check()[-1] == RUNS
    assert everything(store).items() < before.items()


@pytest.mark.parametrize("count", [1, 5])
def test_data_of_which_the_newest_snapshot_has_far_less_stay(store: Grown, count: int, capsys: Said) -> None:
    """Whoever plants as many as a policy keeps would make all others go."""
    named = store.named()
    for minutes in range(count):
        plant(store, NOW - (count - minutes) * 60_000)
    before = everything(store)
    for more in ((), ("--execute",)):
        argv = ["prune", "--store", store.url, "--keep-last", str(count), *more]
        assert main(argv) == ExitCode.REFUSED
        out = capsys.readouterr().out
        assert "1 to 20" in out  # the plan
        assert "Refused: [newest-snapshot-smaller] topic flights: " in out
        assert "Nothing was removed. Check that the newest snapshot is yours" in out
        assert everything(store) == before
    assert command(store, "--keep-last", str(count), "--allow-less") == ExitCode.DONE
    assert not named & store.paths()


def test_a_clock_that_was_wrong_once_stops_prune_until_it_is_known(store: Grown, capsys: Said) -> None:
    wrong = store.commit(replace(store.read(), created=BEGAN - 400 * DAY)).number
    written(store, wrong, NOW)
    store.run()
    written(store, wrong + 1, NOW)
    assert command(store, "--keep-last", "1") == ExitCode.REFUSED
    assert f"keep it with --wrong-clock {wrong}." in capsys.readouterr().err
    assert command(store, "--keep-last", "1", "--wrong-clock", "999") == ExitCode.REFUSED
    assert "[snapshot-missing] --wrong-clock 999: " in capsys.readouterr().err
    assert command(store, "--keep-last", "1", "--wrong-clock", str(wrong)) == ExitCode.INCOMPLETE
    assert store.check()[-2:] == [wrong, wrong + 1]


def test_without_an_attack_prune_removes_what_it_did(store: Grown, tmp_path: Path) -> None:
    copy = Grown(f"file://{tmp_path}/copy")
    shutil.copytree(folder(store), tmp_path / "copy")
    mine = prune(PruneOrder(store=store.url, keep=KeepPolicy(last=1, daily=2), execute=True))
    same = prune(
        PruneOrder(store=copy.url, keep=KeepPolicy(last=1, daily=2), execute=True, copied_through=RUNS)
    )
    assert (mine.plan, mine.left_out, mine.refused) == (same.plan, (), ())
    assert mine.plan.go
    assert everything(store) == everything(copy)
