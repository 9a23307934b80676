"""Prune limits the size of a store, also after faults and kills. Each remaining snapshot is restorable."""

import random
import re
import time

import pytest
from backed_up import NUMBERS_SINCE, number
from kept import ALL, EACH_TIME_A_GENERATION, SEEDS, SITE, STORE, Kept
from lab import Record, wait_until

PERIODS = 10
KEPT = 3
KEYS = 40


def url(name: str) -> str:
    return f"s3://scratch/{name}"


def rewritten(period: int) -> list[Record]:
    return [Record(b"%d" % key, b"%d of %d" % (key, period), (), NUMBERS_SINCE) for key in range(KEYS)]


def test_ten_periods_of_backup_and_prune_at_once(kept: Kept) -> None:
    """The backup does not pause for prune. Generations are bounded, and one is complete at each moment."""
    kept.make("plain")
    kept.make("compacted", cleanup_policy="compact")
    store = url("periods")
    kept.write("plain", (number(each) for each in range(100)))
    kept.write("compacted", rewritten(0))
    backup = kept.start(
        *("backup", "--store", store, "--topics", "plain,compacted", "--every", "1s"), *EACH_TIME_A_GENERATION
    )
    seen: set[int] = set()
    try:
        wait_until("a first snapshot", lambda: kept.aqueduct("snapshots", "--store", store)[0] == 0)
        for period in range(1, PERIODS + 1):
            kept.write("plain", (number(period * 100 + each) for each in range(100)))
            kept.write("compacted", rewritten(period))
            code, said = kept.prune(store, "--keep-last", str(KEPT), "--orphan-hours", "1")
            assert code == 0, said
            there = kept.generations("periods", "compacted")
            # Each snapshot that stays has a generation of its own at most, and the passive one before it; and
            # what is newer than all of them the backup has written meanwhile.
            seen |= there
            print(f"period {period}: generations {sorted(there)}")
            assert len(there) <= 2 * KEPT + 2
        newest = kept.snapshots(store)[-1]
        states = [each["state"] for each in newest["generations"] if each["topic"] == "compacted"]
        assert states.count("ACTIVATE") == 1
    finally:
        backup.terminate()
        said, _ = backup.communicate(timeout=900)
    assert "Traceback" not in said, said
    kept.back_up(store, "plain", "compacted")
    code, said = kept.prune(store, "--keep-last", str(KEPT), "--orphan-hours", "0.0001")
    assert code == 0, said
    assert len(seen) > len(kept.generations("periods", "compacted")), "no generation ever went"

    every = [record.value for record in kept.lab.read(SITE, "plain")[0]]
    assert len(every) == 100 * (PERIODS + 1)
    left = [each["id"] for each in kept.snapshots(store)]
    assert len(left) >= KEPT
    for snapshot in left if ALL else (left[0], left[-1]):
        assert kept.aqueduct("verify", "--store", store, "--snapshot", str(snapshot))[0] == 0
        found = kept.restored(store, snapshot, "plain", f"plain-{snapshot}")
        assert found == every[: len(found)]
        found = kept.restored(store, snapshot, "compacted", f"compacted-{snapshot}")
        assert (
            len(set(found) & {record.value for record in rewritten(PERIODS)}) == KEYS or snapshot != left[-1]
        )
    assert kept.end(f"plain-{left[-1]}") >= len(every)


@pytest.fixture(scope="module")
def numbers(kept: Kept) -> str:
    kept.make("numbers")
    return "numbers"


# Runs in the store's host: ends the server as a power cut would, when so many of a folder's files have gone.
POWER_CUT = """
import os, signal, subprocess, sys, time
folder, number = sys.argv[1], int(sys.argv[2])
def files(): return sum(len(names) for _, _, names in os.walk(folder))
shown = ["systemctl", "show", "--property=MainPID", "--value", "object_store"]
server = int(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)
before, deadline = files(), time.monotonic() + 600
print("watching", flush=True)
while before - files() < number and time.monotonic() < deadline: pass
os.kill(server, signal.SIGKILL)
print(before - files(), "of", before, flush=True)
"""


def would_remove(kept: Kept, *prune: str) -> int:
    """Return the number of objects that a prune would remove."""
    code, said = kept.aqueduct(*prune, user="pruner")
    assert code == 0, said
    [total] = [line for line in said.splitlines() if line.startswith("Would remove ")]
    found = re.findall(r"([\d,]+) (?:object|orphan)s? \(", total)
    return sum(int(each.replace(",", "")) for each in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_prune_that_is_killed_in_the_middle(kept: Kept, seed: int) -> None:
    """Its store is killed with it, amid a request that removes many objects."""
    chance = random.Random(seed)  # noqa: S311
    topic, store = f"killed-{seed}", url(f"killed-{seed}")
    kept.make(topic, 8, cleanup_policy="compact")
    kept.write(topic, rewritten(0))
    many = ("--store", store, "--topics", topic, "--every", "1s", *EACH_TIME_A_GENERATION)
    backup = kept.start("backup", *many)
    try:
        for period in range(1, 10):
            before = kept.generations(topic, topic)
            kept.write(topic, rewritten(period))
            wait_until("another generation", lambda before=before: kept.generations(topic, topic) > before)
    finally:
        backup.terminate()
        backup.communicate(timeout=900)
    kept.write(topic, rewritten(10))
    kept.back_up(store, topic)
    newest = kept.snapshots(store)[-1]["id"]
    objects = len(kept.written(topic))
    prune = ("prune", "--store", store, "--keep-last", "1", "--orphan-hours", "0.0001")
    for most in (3, 60):  # what the first one leaves has no manifest any more, perhaps
        goes = would_remove(kept, *prune)
        if goes == 0:  # the store was killed late, with nothing left for a second one
            print("the first prune removed all")
            break
        cut = kept.lab.start(
            STORE,
            "python3",
            "-c",
            POWER_CUT,
            f"/var/lib/object_store/scratch/{topic}",
            str(chance.randint(1, min(most, goes))),
        )
        assert cut.stdout
        assert cut.stdout.readline() == "watching\n"
        process = kept.start(*prune, "--execute", user="pruner")
        removed = cut.stdout.readline().strip()
        process.kill()
        process.communicate()
        cut.communicate(timeout=900)
        wait_until("the store", lambda: kept.snapshots(store))
        left = [each["id"] for each in kept.snapshots(store)]
        print(f"killed when {removed} files were gone; {left} stay, {len(kept.written(topic))} of {objects}")
        assert not removed.startswith("0 "), "it was killed before it began"
        assert left[-1] == newest
        for snapshot in (left[0], left[-1]):
            code, said = kept.aqueduct("verify", "--store", store, "--snapshot", str(snapshot))
            assert code == 0, said
    code, said = kept.prune(store, "--keep-last", "1", "--orphan-hours", "0.0001")
    assert code == 0, said
    assert len(kept.written(topic)) < objects
    code, said = kept.aqueduct("verify", "--store", store)
    assert code == 0, said
    name = f"{topic}-again"
    code, said = kept.aqueduct("restore", "--store", store, "--topics", f"{topic}:{name}", "--no-groups")
    assert code == 0, said
    found = {record.value for records in kept.lab.read(SITE, name).values() for record in records}
    assert found >= {record.value for record in rewritten(10)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restore_keeps_what_it_uses_from_prune(kept: Kept, seed: int) -> None:
    """The snapshot that is being restored is not one of those that are kept."""
    chance = random.Random(seed)  # noqa: S311
    store, topic, target = url(f"leased-{seed}"), f"leased-{seed}", f"leased-{seed}-again"
    kept.make(topic, cleanup_policy="compact")
    for start in (0, 4_000):  # each generation is one of its own: the first goes with its snapshot
        kept.write(topic, (number(start + each) for each in range(4_000)))
        kept.back_up(store, topic)
    kept.write(topic, [number(9_000)])
    kept.back_up(store, topic)
    kept.quota("--alter", "--add-config", "producer_byte_rate=10000", user="admin")
    try:
        restore = kept.start(
            *("restore", "--store", store, "--snapshot", "1", "--topics", f"{topic}:{target}", "--no-groups")
        )
        wait_until("something restored", lambda: kept.end(target))
        time.sleep(chance.uniform(0, 1))
        code, said = kept.prune(store, "--keep-last", "1", "--orphan-hours", "0.0001")
        assert restore.poll() is None, "the restore ended before"
        assert (code, "[snapshot-leased] snapshot 1: " in said) == (3, True), said
    finally:
        kept.quota("--alter", "--delete-config", "producer_byte_rate", user="admin")
    said, _ = restore.communicate(timeout=900)
    assert restore.returncode == 0, said
    found = [record.value for record in kept.lab.read(SITE, target)[0]]
    assert found == [number(each).value for each in range(4_000)]


def test_prune_leaves_other_estate_in_bucket_unchanged(kept: Kept, numbers: str) -> None:
    """The name of one begins with the other's, which a listing by prefix alone would take for one."""
    stores = ("estate", "estate-2")
    for name in stores:
        for _ in range(3):
            kept.write(numbers, (number(each) for each in range(500)))
            kept.back_up(url(name), numbers)
    ours, others = (kept.written(f"/{name}") for name in stores)
    assert len(ours) > 0
    assert len(others) > 0
    manifests = "find /var/lib/object_store -path '*/estate-2/*' -type f -printf '%p %T@\n' | sort"
    before = kept.lab.run(STORE, "sh", "-c", manifests).stdout
    code, said = kept.prune(url("estate"), "--keep-last", "1", "--orphan-hours", "0.0001")
    assert code == 0, said
    assert kept.lab.run(STORE, "sh", "-c", manifests).stdout == before != ""
    for name in stores:
        assert kept.aqueduct("verify", "--store", url(name))[0] == 0
    assert len(kept.snapshots(url("estate-2"))) == 3
