"""A drill restores the newest backup into a scratch cluster of its own, or fails with an error."""

import json
import random
import re
import time
from typing import Any

import pytest
import sandboxes
from backed_up import number
from kept import DRILL, SEEDS, SITE, Kept
from lab import WAIT_SECONDS, wait_until

from aqueduct.cli.drill import ANSWER_SECONDS

BROKER_FOLDER = "/var/lib/aqueduct-drill-broker"
METRICS = "/var/lib/aqueduct-drill-metrics/aqueduct_drill.prom"


@pytest.fixture(scope="module")
def backed_up(kept: Kept) -> int:
    """How many records there are in the topics that were backed up."""
    kept.write("flights", (number(each) for each in range(5_000)))
    kept.commit("billing", "flights", 7, 2)
    done = kept.lab.play("backup")
    assert done.returncode == 0, done.stdout
    topics = [name for name in kept.lab.admin(SITE).list_topics().topics if not name.startswith("__")]
    return sum(len(records) for name in topics for records in kept.lab.read(SITE, name).values())


def figures(kept: Kept) -> dict[str, float]:
    """The figures of the last drill, as a user of no service reads them."""
    text = kept.lab.run(DRILL, "runuser", "-u", "nobody", "--", "cat", METRICS).stdout
    return {name: float(value) for name, value in re.findall(r"^aqueduct_drill_(\S+) (\S+)$", text, re.M)}


def report(kept: Kept) -> dict[str, Any]:
    return dict(json.loads((kept.lab.reports / "drill-pro1.json").read_text()))


def state(kept: Kept, unit: str) -> str:
    return kept.lab.run(DRILL, "systemctl", "is-active", unit, check=False).stdout.strip()


def wiped(kept: Kept) -> bool:
    """Tell whether nothing is left of the scratch cluster."""
    return state(kept, "drill_broker") == "inactive" and content(kept) == ""


def content(kept: Kept) -> str:
    """Return the paths below the scratch cluster's folder, also while files come and go there."""
    return kept.lab.run(DRILL, "find", BROKER_FOLDER, "-ignore_readdir_race", "-mindepth", "1").stdout


def test_every_service_is_in_its_sandbox(kept: Kept) -> None:
    sandboxes.check(kept.lab)


def test_a_timer_drills(kept: Kept) -> None:
    assert state(kept, "drill.timer") == "active"
    enabled = kept.lab.run(DRILL, "systemctl", "is-enabled", "drill_broker", check=False).stdout.strip()
    assert enabled == "static", "the scratch cluster would start with its host"


def test_a_good_drill_restores_all_and_leaves_nothing(kept: Kept, backed_up: int) -> None:
    done = kept.lab.play("drill")
    assert done.returncode == 0, done.stdout
    found = report(kept)
    assert (found["exit_code"], found["left_out"]) == (0, [])
    assert found["records"] == backed_up > 0
    assert found["reconciled"]["unequal"] == found["live"]["unequal"] == []
    assert found["reconciled"]["records"] == backed_up
    assert (found["consumed"]["group"], found["consumed"]["right"]) == ("billing", True)
    assert (found["consumed"]["topic"], found["consumed"]["partition"]) == ("flights", 2)
    assert all(
        found["seconds"][phase] > 0 for phase in ("start", "verify", "restore", "reconcile", "consume")
    )
    assert figures(kept)["exit_code"] == 0
    assert figures(kept)["records"] == backed_up
    wait_until("a scratch cluster that is stopped and wiped", lambda: wiped(kept))


# Prune would leave alone what the newest snapshot builds on; whoever has the credentials needs no prune.
DELETING = """
import boto3, botocore.config
style = botocore.config.Config(s3={"addressing_style": "path"})
s3 = boto3.client("s3", region_name="us-east-1", config=style)
[first, *_] = s3.list_objects_v2(Bucket="backup", Prefix="pro1/snapshots/")["Contents"]
s3.delete_object(Bucket="backup", Key=first["Key"])
"""


def test_a_drill_s_rights_are_to_read(kept: Kept, backed_up: int) -> None:
    """Whoever has captured the drill host can neither delete a backup nor write to the live cluster."""
    assert backed_up
    unit = (
        "systemd-run",
        "--pipe",
        "--wait",
        "--quiet",
        "--property=EnvironmentFile=/etc/aqueduct/drill/environment",
    )
    program = (*unit, "/opt/aqueduct/spark/bin/aqueduct")
    store = ("--store", "s3://backup/pro1")
    done = kept.lab.run(DRILL, *program, "snapshots", *store, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    before = kept.written("backup/pro1")
    kept.lab.play("backup")
    done = kept.lab.run(DRILL, *unit, "/opt/aqueduct/spark/bin/python", "-c", DELETING, check=False)
    assert (done.returncode, "AccessDenied" in done.stderr) == (1, True), done.stdout + done.stderr
    assert before <= kept.written("backup/pro1")
    live = (
        "--bootstrap-server",
        f"{SITE}:9092",
        "--command-config",
        "/etc/aqueduct/drill/tls/client.properties",
    )
    done = kept.lab.run(DRILL, *program, "restore", *store, *live, "--topics", "flights:stolen", check=False)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "stolen" not in kept.lab.admin(SITE).list_topics().topics
    done = kept.lab.run(DRILL, *program, "drill", *store, *live, check=False)
    assert (done.returncode, "[scratch-cluster-wrong]" in done.stderr) == (2, True), done.stdout + done.stderr


def test_drill_fails_only_while_stored_byte_is_flipped(kept: Kept, backed_up: int) -> None:
    assert backed_up
    good = figures(kept)["succeeded_time"]
    # Not of a passive generation, which no restore of the newest takes: verify reads those.
    damaged = next(path for path in kept.objects("backup/pro1") if "/topics/flights/" in str(path))
    kept.flip(damaged)
    try:
        done = kept.lab.play("drill")
        assert done.returncode != 0, done.stdout
        assert "[checksum-mismatch]" in done.stdout
        found = report(kept)
        assert (found["exit_code"], damaged.name in found["error"]["message"]) == (1, True)
        assert state(kept, "drill") == "failed"
        assert figures(kept)["exit_code"] == 1
        assert figures(kept)["succeeded_time"] == good
        wait_until("a scratch cluster that is stopped and wiped", lambda: wiped(kept))
    finally:
        kept.flip(damaged)
    done = kept.lab.play("drill")
    assert done.returncode == 0, done.stdout
    assert figures(kept)["succeeded_time"] > good


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drill_that_is_killed_leaves_nothing(kept: Kept, backed_up: int, seed: int) -> None:
    assert backed_up
    chance = random.Random(seed)  # noqa: S311
    seconds = report(kept)["seconds"]  # of a drill that nobody killed
    whole = sum(seconds.values()) - seconds["start"]  # most of that is over when systemd says that it runs
    pause, victim = chance.uniform(0, 0.8) * whole, chance.choice(["drill", "drill_broker"])
    blow = ("systemctl", "kill", "--signal=KILL", "--kill-whom=main", victim)
    for _ in range(8):
        kept.lab.run(DRILL, "systemctl", "start", "drill")
        assert not wiped(kept)
        time.sleep(pause)
        if kept.lab.run(DRILL, *blow, check=False).returncode == 0:
            break
        pause /= 2  # this drill was quicker than the one before, and has ended
        wait_until("a scratch cluster that is stopped and wiped", lambda: wiped(kept))
    else:
        pytest.fail(f"no drill still ran after {pause * 2:.1f} s")
    print(f"kill -9 of {victim}")
    # It waits for as long for a cluster that was killed while it started.
    wait_until(
        "an end of the drill",
        lambda: state(kept, "drill") in ("failed", "inactive"),
        ANSWER_SECONDS + WAIT_SECONDS,
    )
    wait_until("a scratch cluster that is stopped and wiped", lambda: not content(kept))
