"""Somebody who may create objects, and nothing else, makes prune remove the backups."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grown_store
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from grown_store import BEGAN, HOURS, Grown
from kit.identifiers import raises
from made_store import batch

from aqueduct.cli import main
from aqueduct.common import timestamps
from aqueduct.common.keys import ReceiverKey
from aqueduct.errors import ExitCode, Refused
from aqueduct.snapshots.prune.policy import KeepPolicy
from aqueduct.snapshots.prune.run import PruneOrder, prune
from aqueduct.snapshots.prune.sample import Samples
from aqueduct.store import names
from aqueduct.store.encryption import DataKind
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import Instance, InstanceState, Manifest, Segment, StoredPartition, pack
from aqueduct.store.segments import SegmentLimits, Writer
from aqueduct.store.signing import SigningKey, Trust
from servers.object_store import Gateway

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


def test_back_dated_snapshots_in_bucket_take_no_days(
    s3: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """The server says when each object was written: now."""
    monkeypatch.setattr(grown_store, "BEGAN", now := timestamps.now())
    monkeypatch.setattr(grown_store, "HOURS", 0)
    made = Grown("s3://store/back-dated")
    made.run(4)
    for days in range(40, 0, -1):
        nothing = replace(made.read(), positions={}, starts={}, topics=(), segments=())
        made.catalog.commit(replace(nothing, created=now - days * DAY))
    before = [entry.path for entry in made.objects.list("")]
    assert len(before) > 44
    assert command(made) == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert "[snapshot-time-backwards] Snapshot 5 of " in said
    assert [entry.path for entry in made.objects.list("")] == before


def test_signatures_of_a_captured_host_change_nothing(store: Grown) -> None:
    key = SigningKey(ed25519.Ed25519PrivateKey.generate())
    for created in [*back_dates()][-12:]:
        plant(store, created, key=key)
    before = everything(store)
    trust = Trust(frozenset({key.public}), unsigned_before=RUNS + 1)
    with raises(Refused, "snapshot-time-backwards", f"Snapshot {RUNS + 1}", f"--wrong-clock {RUNS + 1}"):
        prune(PruneOrder(store=store.url, keep=USUAL, execute=True, trust=trust))
    assert everything(store) == before


def test_snapshots_with_disagreeing_times_stay_outside_policy(store: Grown, capsys: Said) -> None:
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


def test_copied_store_keeps_all_until_declared_as_copy(store: Grown, capsys: Said) -> None:
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


def test_planted_snapshots_replace_none_in_copied_store(store: Grown, capsys: Said) -> None:
    """Numbers of pruned snapshots are free, and a copy has times of its own only."""
    assert command(store, "--keep-last", "12") == ExitCode.DONE
    real = store.catalog.numbers()
    free = [number for number in range(1, RUNS) if number not in real]
    for number in real:
        written(store, number, NOW)
    store.run()  # by a backup that goes on in the copy
    written(store, RUNS + 1, NOW + DAY)
    own = {number: store.catalog.manifest(number).created for number in store.catalog.numbers()}
    order = PruneOrder(
        store=store.url, keep=KeepPolicy(daily=30), copied_through=RUNS, allow_less=True, sample_bytes=0
    )
    before = prune(order)
    # Of each day that has a real one the newest, by a minute.
    empty = replace(store.catalog.manifest(real[0]), positions={}, starts={}, topics=(), segments=())
    for number in free:
        chain = replace(
            empty.chain, number=number, base=number, parent=None, parent_sha256=None, base_bytes=0
        )
        forged = replace(empty, chain=chain, created=min(own.values()))
        (folder(store) / names.snapshot(number)).write_bytes(pack(forged))
        written(store, number, NOW + 2 * DAY)
    planned = prune(order)
    assert planned.plan.go == before.plan.go
    assert set(free) <= planned.plan.stay.keys()
    assert {skipped.id for skipped in planned.left_out} == {"snapshot-times-disagree"}
    assert "attacker" in planned.left_out[0].why


@pytest.mark.parametrize("count", [1, 5])
def test_prune_refuses_if_newest_snapshot_is_much_smaller(store: Grown, count: int, capsys: Said) -> None:
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
        assert "Nothing was removed." in out
        assert everything(store) == before
    assert command(store, "--keep-last", str(count), "--allow-less") == ExitCode.DONE
    assert not named & store.paths()


def test_wrong_clock_stops_prune_until_snapshot_is_named(store: Grown, capsys: Said) -> None:
    wrong = store.commit(replace(store.read(), created=BEGAN - 400 * DAY)).number
    written(store, wrong, NOW)
    store.run()
    written(store, wrong + 1, NOW)
    assert command(store, "--keep-last", "1") == ExitCode.REFUSED
    assert f"--wrong-clock {wrong}" in capsys.readouterr().err
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


def random_bytes(store: Grown, topic: str, size: int, *, upload: bool = True) -> Segment:
    """Upload random bytes as a segment of a new instance of a topic; return how a manifest names them."""
    content, index = secrets.token_bytes(size), secrets.token_bytes(100)
    segment = Segment(
        topic,
        99,
        0,
        start=0,
        stop=200,
        first_offset=0,
        last_offset=199,
        records=200,
        unpacked_bytes=size,
        stored_bytes=size,
        sha256=hashlib.sha256(content).hexdigest(),
        index_bytes=len(index),
        index_sha256=hashlib.sha256(index).hexdigest(),
        min_time=None,
        max_time=BEGAN,
        run="planted",
        compressed=False,
        generation=topic == "planes",
    )
    if upload:
        store.objects.create(segment.path, content)
        store.objects.create(segment.index_path, index)
    return segment


def of_segments(store: Grown, *segments: Segment) -> Manifest:
    """Return a full manifest of nothing but these segments, each all of its topic, which was re-created."""
    template = store.catalog.manifest(store.catalog.numbers()[-1])
    chain = store.catalog.parent().follow()
    positions = {(segment.topic, segment.instance): (segment.stop,) for segment in segments}
    return replace(
        template,
        chain=replace(chain, base=chain.number, base_bytes=0, increments_bytes=0, base_created=0),
        starts=dict.fromkeys(positions, (0,)),
        positions=positions,
        topics=tuple(
            replace(
                template.topics[0],
                name=segment.topic,
                compacted=segment.generation,
                instances=(Instance(99, "YWZ0", InstanceState.ACTIVATE, BEGAN),),
            )
            for segment in segments
        ),
        segments=segments,
    )


def replace_all(store: Grown, count: int, *segments: Segment, key: SigningKey | None = None) -> None:
    """Commit as many snapshots of these segments as `--keep-last` keeps."""
    for minutes in range(count):
        created = NOW - (count - minutes) * 60_000
        number = store.catalog.commit(replace(of_segments(store, *segments), created=created), key).number
        written(store, number, NOW)


def stored(store: Grown, topic: str) -> int:
    return sum(entry.size for entry in store.objects.list(f"topics/{topic}"))


@pytest.mark.parametrize("execute", [(), ("--execute",)])
def test_prune_refuses_random_bytes_of_same_size(
    store: Grown, execute: tuple[str, ...], tmp_path: Path, capsys: Said
) -> None:
    """Their digests are right: whoever plants them has the signing key."""
    named = store.named()
    planted = [random_bytes(store, topic, stored(store, topic)) for topic in ("flights", "planes")]
    replace_all(store, 3, *planted)
    before, report = everything(store), tmp_path / "report.json"
    argv = ["prune", "--store", store.url, "--keep-last", "3", "--report", str(report), *execute]
    assert main(argv) == ExitCode.REFUSED
    assert everything(store) == before
    assert named <= store.paths()
    out = capsys.readouterr().out
    assert "1 to 20" in out  # the plan
    assert "Refused: [remaining-snapshot-damaged] topics/flights/" in out
    refused = json.loads(report.read_text())["refused"]
    assert {(entry["id"], entry["topic"]) for entry in refused} == {
        ("remaining-snapshot-damaged", "flights"),
        ("remaining-snapshot-damaged", "planes"),
    }


def test_other_bytes_than_the_manifest_names_are_refused(store: Grown) -> None:
    planted = [random_bytes(store, topic, stored(store, topic)) for topic in ("flights", "planes")]
    replace_all(store, 2, *(segment._replace(sha256="0" * 64, index_sha256="0" * 64) for segment in planted))
    before = everything(store)
    assert command(store, "--keep-last", "2") == ExitCode.REFUSED
    assert everything(store) == before


def test_objects_larger_than_manifest_says_do_not_count(store: Grown, capsys: Said) -> None:
    """A sample takes large segments rather than small ones, by the sizes of manifests."""
    planted = [random_bytes(store, topic, stored(store, topic)) for topic in ("flights", "planes")]
    replace_all(store, 2, *(segment._replace(stored_bytes=1, index_bytes=1) for segment in planted))
    before = everything(store)
    assert command(store, "--keep-last", "2") == ExitCode.REFUSED
    assert "Refused: [newest-snapshot-smaller] topic flights: " in capsys.readouterr().out
    assert everything(store) == before


def test_objects_that_were_never_uploaded_are_refused(store: Grown) -> None:
    planted = [random_bytes(store, topic, stored(store, topic)) for topic in ("flights", "planes")]
    missing = random_bytes(store, "airports", 1_000, upload=False)
    replace_all(store, 2, *planted, missing)
    before = everything(store)
    assert command(store, "--keep-last", "2", "--allow-less") == ExitCode.REFUSED
    assert everything(store) == before


def test_with_past_damage_prune_continues_and_reports_it(store: Grown, capsys: Said) -> None:
    """The objects are lost for good, and every snapshot that is left names them."""
    for object_path in (folder(store) / "topics/flights").rglob("*.log*"):
        object_path.unlink()
    before = everything(store)
    assert command(store, "--keep-last", "1") == ExitCode.REFUSED
    assert everything(store) == before
    assert command(store, "--keep-last", "1", "--past-damage") == ExitCode.INCOMPLETE
    assert "Skipped: [remaining-snapshot-damaged] topics/flights/0/" in capsys.readouterr().out
    assert store.catalog.numbers() == [17, 18, 19, 20]


@pytest.mark.parametrize("damaged", [False, True])
def test_prune_opens_encrypted_segments_with_recipient_key(store: Grown, damaged: bool) -> None:
    """A host has no such key: its prune compares digests, and says of how many."""
    recipient, host = ReceiverKey.generate(), ReceiverKey.generate()
    key = Keyring(store.objects).create(DataKind.RECORDS, [recipient.public])
    writer = Writer(
        store.objects,
        StoredPartition("flights", 99, 0),
        key.id,
        0,
        generation=False,
        limits=SegmentLimits(),
        key=key,
    )
    writer.add((batch(range(200)),), 200)
    segment = writer.finish()
    assert segment
    if damaged:  # the digests are right: the signer made them
        content = secrets.token_bytes(segment.stored_bytes)
        (folder(store) / segment.path).write_bytes(content)
        segment = segment._replace(sha256=hashlib.sha256(content).hexdigest())
    replace_all(store, 2, segment)
    order = PruneOrder(
        store=store.url,
        keep=KeepPolicy(last=2),
        allow_less=True,
        copied_through=RUNS + 2,
        private_keys=(host,),
    )
    by_host = prune(order)
    assert (by_host.opened.segments, by_host.opened.digests_only, by_host.damaged) == (1, 1, ())
    by_recipient = prune(replace(order, private_keys=(recipient,)))
    assert by_recipient.opened.digests_only == 0
    assert [fault.path for fault in by_recipient.damaged] == [segment.path] * damaged


def test_a_segment_whose_key_is_lost_is_refused(store: Grown) -> None:
    planted = random_bytes(store, "flights", stored(store, "flights"))
    segment = planted._replace(run="0" * 32, encrypted=True)
    for former, path in ((planted.path, segment.path), (planted.index_path, segment.index_path)):
        store.objects.move(former, path)
    replace_all(store, 2, segment)
    assert command(store, "--keep-last", "2", "--allow-less") == ExitCode.REFUSED


def test_sample_is_limited_and_starts_with_losing_topics() -> None:
    template = Segment(
        "t", 1, 0, 0, 9, 0, 8, 9, 100, 100, "", 10, "", None, 0, "run", compressed=False, generation=False
    )
    topics = [f"topic-{number}" for number in range(300)]
    samples = Samples()
    for topic in topics:
        some = [template._replace(topic=topic, start=start) for start in range(50)]
        samples.newest.add(some)
        samples.newest.add(some)  # as a full manifest repeats them
        samples.others.add(some)
    losing = set(topics[:20])
    chosen = samples.chosen(losing, 1 << 40)
    assert len(chosen) == len(set(chosen)) == 1_000
    assert {segment.topic for segment in chosen[:20]} == losing
    first = [segment for segment in chosen if segment.topic in losing]
    assert chosen[: len(first)] == first
    assert sum(segment.topic == "topic-0" for segment in chosen) in range(10, 21)
    few = samples.chosen(losing, 1_100)
    assert (len(few), {segment.topic for segment in few} <= losing) == (10, True)
    assert samples.chosen(losing, 0) == []


def test_large_segments_are_drawn_rather_than_small_ones() -> None:
    template = Segment(
        "t", 1, 0, 0, 9, 0, 8, 9, 100, 1, "", 1, "", None, 0, "run", compressed=False, generation=False
    )
    samples = Samples()
    samples.newest.add(template._replace(start=start) for start in range(1_000))
    large = template._replace(start=1_000, stored_bytes=1 << 30)
    samples.newest.add([large])
    assert large in samples.chosen((), 1 << 40)
