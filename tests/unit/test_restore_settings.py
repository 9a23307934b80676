import pytest

from aqueduct.snapshots.restore import settings

HOLDING = {
    "cleanup.policy": "compact",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "min.insync.replicas": "2",
    "segment.bytes": "1000",
}


def test_only_obstructing_settings_change_during_restore() -> None:
    meanwhile = settings.while_restoring(HOLDING, replication_factor=1)
    assert meanwhile == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "message.timestamp.after.max.ms": "9223372036854775807",
        "min.insync.replicas": "1",
    }
    assert settings.while_restoring(HOLDING | meanwhile, replication_factor=1) == {}
    assert settings.meanwhile(meanwhile, replication_factor=1) == meanwhile


def test_broker_settings_are_not_restored_from_backup() -> None:
    backed_up = {
        "leader.replication.throttled.replicas": "0:1",
        "min.insync.replicas": "3",
        "retention.ms": "5",
    }
    assert settings.of_backup(backed_up, 2) == {"min.insync.replicas": "2", "retention.ms": "5"}
    assert settings.of_backup(backed_up, 5)["min.insync.replicas"] == "3"


@pytest.mark.parametrize(
    ("policy", "retention", "most", "held"),
    [
        ("delete", "100", "-1", {"retention.ms"}),
        ("compact,delete", "100", "10", {"retention.ms", "retention.bytes"}),
        ("compact", "100", "10", set()),
        ("delete", "-1", "-1", set()),
        ("delete", "200", "5000", set()),
    ],
)
def test_retention_is_held_if_it_would_delete_immediately(
    policy: str, retention: str, most: str, held: set[str]
) -> None:
    holds = {"cleanup.policy": policy, "retention.ms": retention, "retention.bytes": most}
    back = {"retention.ms": retention, "retention.bytes": None}
    assert settings.to_hold(back, holds, oldest=1_000, size=2_000, now=1_150) == held
    assert settings.to_hold({}, holds, oldest=1_000, size=2_000, now=1_150) == set()
    assert settings.to_hold(back, holds, oldest=None, size=0, now=1_150) == set()


RETENTION = {"cleanup.policy": "compact", "retention.ms": "604800000", "retention.bytes": "-1"}


def test_own_and_requested_settings_are_set_back() -> None:
    own = {"cleanup.policy": "compact", "segment.bytes": "1000"}
    back, holds = settings.to_set_back(own, HOLDING, {"retention.ms": "7"}, 2, {}, {})
    assert back == {
        "cleanup.policy": "compact",
        "retention.ms": "7",
        "message.timestamp.after.max.ms": None,  # the cluster's
    }
    assert holds == {**RETENTION, "retention.ms": "7"}


def test_pending_settings_of_earlier_run_are_kept() -> None:
    first, holds = settings.to_set_back({"cleanup.policy": "compact"}, HOLDING, {}, 2, {}, {})
    changed = settings.meanwhile(first, 2)
    again, holds_again = settings.to_set_back(changed, HOLDING | changed, {}, 2, first, holds)
    assert (again, holds_again) == (first, holds)
    wanted = {"retention.ms": "7"}
    later, holds_later = settings.to_set_back(changed, HOLDING | changed, wanted, 2, first, holds)
    assert (later, holds_later) == (first | wanted, holds | wanted)
