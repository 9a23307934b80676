"""Lifecycle rules of a bucket: put through S3's API, told by manifests, and what they remove is no damage.

moto's server keeps rules and removes nothing; its `expire` here does what they say, as S3's documentation
has it, by another client and by its own reading of them.
"""

import json
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kit import clients, exports
from kit.identifiers import assert_printed, printed

from aqueduct.cli import main
from aqueduct.common import timestamps
from aqueduct.errors import Failed
from aqueduct.snapshots.backup import commit
from aqueduct.snapshots.export import plan
from aqueduct.snapshots.export import run as export_run
from aqueduct.snapshots.export.task import export_share
from aqueduct.snapshots.restore import records
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.lifecycle import LifecycleRules
from servers import moto_s3, object_store
from servers.broker import Broker
from servers.moto_s3 import MotoS3

Said = pytest.CaptureFixture[str]
DAY = timedelta(days=1)
OTHERS = [
    {"ID": "logs", "Filter": {"Prefix": "logs/"}, "Status": "Enabled", "Expiration": {"Days": 3}},
    {
        "ID": "cold",
        "Filter": {"And": {"Prefix": "other/", "Tags": [{"Key": "kind", "Value": "old"}]}},
        "Status": "Disabled",
        "Transitions": [{"Days": 30, "StorageClass": "GLACIER"}],
    },
]


@pytest.fixture(scope="module")
def server() -> Iterator[MotoS3]:
    with moto_s3.running() as started:
        yield started


@pytest.fixture
def s3(server: MotoS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoS3]:
    """Yield the server that the environment tells of, whose bucket has no rules."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.client.delete_bucket_lifecycle(Bucket="store")


@pytest.fixture
def store() -> str:
    return f"s3://store/{secrets.token_hex(4)}"


def back_up(broker: Broker, store: str, topics: str, *more: str) -> int:
    argv = ["backup", "--bootstrap-server", broker.plaintext, "--store", store, "--topics", topics]
    return main([*argv, *more])


def restore(broker: Broker, store: str, topics: str, *more: str) -> int:
    argv = ["restore", "--bootstrap-server", broker.plaintext, "--store", store, "--topics", topics]
    return main([*argv, *more])


def ours(s3: MotoS3) -> dict[str, int]:
    """Return the days of each prefix that Aqueduct's rules have."""
    mine = [rule for rule in s3.rules() if rule["ID"].startswith("aqueduct-")]
    assert all(rule["Status"] == "Enabled" for rule in mine)
    return {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in mine}


def later(monkeypatch: pytest.MonkeyPatch, days: int) -> datetime:
    """Move Aqueduct's clock by some days."""
    now = datetime.now(UTC) + days * DAY
    monkeypatch.setattr(timestamps, "now", lambda: int(now.timestamp() * 1000))
    return now


def test_each_topic_gets_rule_and_other_rules_stay(
    broker: Broker, s3: MotoS3, store: str, capsys: Said
) -> None:
    s3.client.put_bucket_lifecycle_configuration(Bucket="store", LifecycleConfiguration={"Rules": OTHERS})
    before = s3.rules()
    topic = clients.numbered(broker, "old", 1, 10)
    like = clients.create(broker, f"{topic}.more")
    compacted = clients.create(broker, f"{topic}.latest", cleanup_policy="compact")
    chosen = ["--lifecycle-days", "7", "--lifecycle-topics-pattern", f"{topic}(.latest)?"]

    assert back_up(broker, store, f"{topic},{like},{compacted}", *chosen) == 0
    said = capsys.readouterr().out
    assert "a lifecycle rule for each of 1 topic (1 rule changed), and 2 other rules." in said
    assert f"can be the newest one of its key: {compacted}." in said

    prefix = store.removeprefix("s3://store/")
    assert ours(s3) == {f"{prefix}/topics/{topic}/": 7}
    assert [rule for rule in s3.rules() if not rule["ID"].startswith("aqueduct-")] == before

    found = s3.rules()
    assert back_up(broker, store, f"{topic},{like},{compacted}", *chosen) == 0
    assert "(0 rules changed)" in capsys.readouterr().out
    assert s3.rules() == found

    other = f"s3://store/{secrets.token_hex(4)}"
    assert back_up(broker, other, like, "--lifecycle-days", "9") == 0
    assert ours(s3) == {
        f"{prefix}/topics/{topic}/": 7,
        f"{other.removeprefix('s3://store/')}/topics/{like}/": 9,
    }
    capsys.readouterr()

    assert back_up(broker, store, topic) == 2
    assert printed(capsys.readouterr().err)[-1:] == ["backup-option-missing"]
    assert back_up(broker, store, topic, "--lifecycle-days", "9", "--lifecycle-topics-pattern", "typo") == 2
    assert_printed(
        capsys.readouterr().err, "pattern-matches-nothing", "--lifecycle-topics-pattern", "3 topics"
    )
    assert back_up(broker, store, topic, "--lifecycle-days", "0") == 0
    assert list(ours(s3).values()) == [9]
    assert back_up(broker, store, topic) == 0
    assert {each.expires for of in _segments(store).values() for each in of} == {None}


def _segments(store: str) -> Any:
    return Catalog.open(open_store(store)).snapshot().segments


def test_expired_objects_are_gaps_and_earlier_losses_damage(
    broker: Broker,
    target: Broker,
    s3: MotoS3,
    store: str,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = clients.numbered(broker, "old", 1, 100)
    reader = clients.consumer(broker, group := clients.unique("readers"))
    clients.commit(reader, clients.TopicPartition(topic, 0, 30))
    reader.close()
    days = ["--lifecycle-days", "7"]
    later(monkeypatch, -6)
    assert back_up(broker, store, topic, *days) == 0
    written = {key: at - 6 * DAY for key, at in s3.written(store).items()}
    monkeypatch.undo()
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    clients.produce(broker, topic, [f"new-{n}" for n in range(50)])
    assert back_up(broker, store, topic, *days) == 0
    assert main(["verify", "--store", store]) == 0

    # The day before its time, an object that is gone is damage.
    now = later(monkeypatch, 0)
    assert s3.expire(written, now) == []
    [lost] = [key for key in written if key.endswith(".log.zst")]
    content = s3.client.get_object(Bucket="store", Key=lost)["Body"].read()
    s3.client.delete_object(Bucket="store", Key=lost)
    assert main(["verify", "--store", store]) == 1
    assert "DAMAGED" in capsys.readouterr().out
    s3.client.put_object(Bucket="store", Key=lost, Body=content)

    # When its time has come it may still be there, and is used.
    now = later(monkeypatch, 2)
    assert main(["verify", "--store", store]) == 0
    assert restore(target, store, f"{topic}:{topic}.whole", "--no-groups") == 0
    assert len(clients.read(target, f"{topic}.whole", 0)) == 150

    gone = s3.expire(written, now)
    assert len(gone) == 2
    capsys.readouterr()
    assert main(["verify", "--store", store]) == 3
    said = capsys.readouterr().out
    assert f"{topic}-0 (g1): offsets 0 to 99 are not in the backup: a lifecycle rule" in said
    assert "No object is damaged." in said

    assert restore(target, store, topic, "--groups-pattern", group) == 3
    said = capsys.readouterr().out
    assert f"Skipped: [records-expired] offsets 0 to 99 of the backup of {topic}-0: " in said
    assert "its next records have expired in the store" in said
    assert [each.value().decode() for each in clients.read(target, topic, 0)] == [
        f"new-{n}" for n in range(50)
    ]
    assert clients.committed(target, group) == {(topic, 0): 0}

    # What can be restored is what `snapshots` tells.
    assert main(["snapshots", "--store", store]) == 0
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines()[1:]] == ["0", "50"]

    # Prune minds neither what is gone nor what stays, and a full manifest names no more what is gone.
    assert back_up(broker, store, topic, *days, "--lifecycle-topics-pattern", f"{topic}.*") == 0
    later(monkeypatch, 4)
    assert back_up(broker, store, topic, *days) == 0
    newest = Catalog.open(open_store(store)).manifest(4)
    assert newest.full
    assert [(each.start, each.stop) for each in newest.segments] == [(100, 150)]
    assert [(each.start, each.stop) for each in newest.gaps] == [(0, 100)]
    assert main(["prune", "--store", store, "--keep-last", "1", "--execute"]) == 3
    assert "restore " in capsys.readouterr().out  # they hold snapshot 2, by their leases
    assert main(["verify", "--store", store]) == 3


def test_a_rule_holds_for_what_was_there_before(
    broker: Broker, s3: MotoS3, store: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = clients.numbered(broker, "old", 2, 20)
    for _ in range(3):
        assert back_up(broker, store, topic) == 0
        clients.produce(broker, topic, ["more"])
    written = s3.written(store)
    assert back_up(broker, store, topic, "--lifecycle-days", "5") == 0
    assert back_up(broker, store, topic, "--lifecycle-days", "5") == 0

    now = later(monkeypatch, 7)
    assert len(s3.expire(written, now)) == 2 * (2 + 1 + 1)
    assert main(["verify", "--store", store]) == 3
    assert main(["verify", "--store", store, "--snapshot", "4"]) == 3
    # A snapshot of before knows of no rule: to it they are lost.
    assert main(["verify", "--store", store, "--snapshot", "3"]) == 1
    capsys.readouterr()


def test_next_run_records_lifecycle_rules_of_failed_run(
    broker: Broker, s3: MotoS3, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = clients.numbered(broker, "old", 1, 20)
    assert back_up(broker, store, topic) == 0
    written = s3.written(store)

    def dies(*_: Any, **__: Any) -> Any:
        raise Failed("The test breaks it here.")

    clients.produce(broker, topic, ["more"])
    with monkeypatch.context() as broken:
        broken.setattr(commit, "snapshot", dies)
        assert back_up(broker, store, topic, "--lifecycle-days", "5") == 1
    assert len(ours(s3)) == 1
    s3.expire(written, datetime.now(UTC) + 6 * DAY)
    assert back_up(broker, store, topic, "--lifecycle-days", "5") == 0
    assert main(["verify", "--store", store]) == 1
    later(monkeypatch, 6)
    assert main(["verify", "--store", store]) == 3


def test_interrupted_restore_resumes_only_with_same_records(
    broker: Broker,
    target: Broker,
    s3: MotoS3,
    store: str,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = clients.numbered(broker, "old", 1, 20)
    assert back_up(broker, store, topic, "--lifecycle-days", "1") == 0
    written = s3.written(store)
    clients.produce(broker, topic, ["kept"])
    assert back_up(broker, store, topic, "--lifecycle-days", "1") == 0

    def breaks(*_: Any) -> Any:
        raise Failed("The test breaks it here.")

    with monkeypatch.context() as broken:
        broken.setattr(records, "write", breaks)
        assert restore(target, store, topic, "--no-groups") == 1
    now = later(monkeypatch, 3)
    s3.expire(written, now)
    capsys.readouterr()
    assert restore(target, store, topic, "--no-groups") == 2
    assert f"Records of {topic} have expired in {store} since this restore began" in capsys.readouterr().err
    clients.delete(target, topic)
    assert restore(target, store, topic, "--no-groups") == 3
    assert [each.value() for each in clients.read(target, topic, 0)] == [b"kept"]
    assert restore(target, store, topic, "--no-groups") == 3


def test_interrupted_export_resumes_only_with_same_records(
    broker: Broker, s3: MotoS3, store: str, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = clients.numbered(broker, "old", 1, 20)
    assert back_up(broker, store, topic, "--lifecycle-days", "1") == 0
    written = s3.written(store)
    clients.produce(broker, topic, [f"kept-{n}" for n in range(20)])
    assert back_up(broker, store, topic, "--lifecycle-days", "1") == 0

    def breaks(share: plan.ExportShare) -> Any:
        if share.number:
            raise Failed("The test breaks it here.")
        return export_share(share)

    argv = ["export", "--store", store, "--format", "parquet", "--to"]
    to, ended = ((tmp_path / name).as_uri() for name in ("exported", "ended"))
    with monkeypatch.context() as broken:
        broken.setattr(plan, "PART_BYTES", 1)  # a share for each segment
        broken.setattr(export_run, "export_share", breaks)
        assert main([*argv, to]) == 1
    assert main([*argv, ended]) == 0
    s3.expire(written, later(monkeypatch, 3))
    capsys.readouterr()
    assert main([*argv, to]) == 2
    assert_printed(capsys.readouterr().err, "export-folder-taken", to, "expired")
    shutil.rmtree(tmp_path / "exported")
    capsys.readouterr()
    for _ in range(2):
        assert main([*argv, to, "--report", str(tmp_path / "report.json")]) == 3
        said = capsys.readouterr().out
        assert f"{topic}-0: a lifecycle rule of the store deleted offsets 0 to 19 by " in said
        assert "deleted before" not in said
        [gap] = json.loads((tmp_path / "report.json").read_text())["gaps"]
        assert gap.pop("expired").endswith("T00:00:00.000Z")
        assert gap == {"topic": topic, "partition": 0, "from": 0, "to": 20}
    assert [row["value"] for row in exports.rows(tmp_path / "exported" / topic)] == [
        b"kept-%d" % n for n in range(20)
    ]
    assert main([*argv, ended]) == 0


def test_more_rules_than_s3_allows_are_refused(broker: Broker, s3: MotoS3, store: str, capsys: Said) -> None:
    one, other = (clients.numbered(broker, "old", 1, 1) for _ in range(2))
    many = [{**OTHERS[0], "ID": f"r{n}", "Filter": {"Prefix": f"x{n}/"}} for n in range(999)]
    s3.client.put_bucket_lifecycle_configuration(Bucket="store", LifecycleConfiguration={"Rules": many})
    assert back_up(broker, store, f"{one},{other}", "--lifecycle-days", "1") == 2
    said = capsys.readouterr().err
    assert "[lifecycle-rules-exceeded] " in said
    assert "999" in said
    assert [key for key in s3.written(store) if not key.endswith("/store.json")] == []
    assert back_up(broker, store, one, "--lifecycle-days", "1") == 0
    assert len(s3.rules()) == 1000


def test_foreign_rules_written_during_run_are_kept(s3: MotoS3, store: str) -> None:
    rules = LifecycleRules(store)
    s3.client.put_bucket_lifecycle_configuration(Bucket="store", LifecycleConfiguration={"Rules": OTHERS})
    before = s3.rules()
    rules.put("0123456789abcdef", {"flights": 7})
    assert [rule for rule in s3.rules() if not rule["ID"].startswith("aqueduct-")] == before
    assert list(ours(s3).values()) == [7]


def test_foreign_rule_that_covers_segments_is_reported(
    broker: Broker, s3: MotoS3, store: str, capsys: Said
) -> None:
    everything = [{**OTHERS[0], "ID": "everything", "Filter": {"Prefix": ""}}]
    s3.client.put_bucket_lifecycle_configuration(Bucket="store", LifecycleConfiguration={"Rules": everything})
    topic = clients.numbered(broker, "old", 1, 1)
    assert back_up(broker, store, topic, "--lifecycle-days", "1") == 3
    assert (
        "Skipped: [lifecycle-rule-overlaps] the rule everything of the bucket store: "
        in capsys.readouterr().out
    )


def test_store_without_lifecycle_support_is_refused_before_writing(
    broker: Broker, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    with object_store.running(tmp_path, None) as gateway:
        for name, value in gateway.environment.items():
            monkeypatch.setenv(name, value)
        topic = clients.numbered(broker, "old", 1, 1)
        assert back_up(broker, "s3://store/x", topic, "--lifecycle-days", "1") == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "[lifecycle-unsupported] " in said
        assert "NotImplemented" in said
        assert list(gateway.bucket("store").iterdir()) == []
    assert back_up(broker, (tmp_path / "store").as_uri(), topic, "--lifecycle-days", "1") == 2
    assert "[lifecycle-unsupported] " in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
    assert back_up(broker, (tmp_path / "store").as_uri(), topic, "--lifecycle-topics-pattern", "x") == 2
    assert_printed(
        capsys.readouterr().err, "option-required", "--lifecycle-topics-pattern", "--lifecycle-days"
    )
