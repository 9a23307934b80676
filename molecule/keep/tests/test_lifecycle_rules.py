"""Lifecycle rules of the bucket expire old records. The remaining records can be restored."""

from datetime import UTC, datetime, timedelta

import pytest
from backed_up import number
from kept import SITE, Kept

from aqueduct import cli
from aqueduct.common import timestamps
from servers import moto_s3

STORE = "s3://store/pro1"
DAYS = 7


def test_what_expired_is_told_and_the_rest_restores(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bucket is moto's, whose rules are carried out here: versitygw has none."""
    for topic in ("clicks", "orders"):
        kept.make(topic)
        kept.write(topic, (number(each) for each in range(100)))
    with moto_s3.running() as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        s3.client.put_bucket_lifecycle_configuration(
            Bucket="store",
            LifecycleConfiguration={
                "Rules": [
                    {
                        "ID": "logs",
                        "Filter": {"Prefix": "logs/"},
                        "Status": "Enabled",
                        "Expiration": {"Days": 3},
                    }
                ]
            },
        )
        cluster = (
            *("--bootstrap-server", kept.lab.address(SITE)),
            *("--command-config", str(kept.lab.pki / "clients/admin.properties")),
        )
        backup = (
            *("backup", *cluster, "--store", STORE, "--topics", "clicks,orders"),
            *("--lifecycle-days", str(DAYS), "--lifecycle-topics-pattern", "clicks"),
        )
        assert cli.main([*backup]) == 0, capsys.readouterr()
        prefixes = {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in s3.rules()}
        assert prefixes == {"logs/": 3, "pro1/topics/clicks/": DAYS}
        before = s3.written(STORE)
        kept.write("clicks", (number(each) for each in range(100, 150)))
        assert cli.main([*backup]) == 0, capsys.readouterr()

        # Days later the bucket has removed what was written first, and only that.
        now = datetime.now(UTC) + timedelta(days=DAYS + 1)
        monkeypatch.setattr(timestamps, "now", lambda: int(now.timestamp() * 1000))
        gone = s3.expire(before, now)
        assert gone
        assert all(key.startswith("pro1/topics/clicks/") for key in gone)
        capsys.readouterr()
        assert cli.main(["verify", "--store", STORE]) == 3
        said = capsys.readouterr().out
        assert "clicks-0 (g1): offsets 0 to 99 are not in the backup: a lifecycle rule" in said
        assert "No object is damaged." in said
        topics = "clicks:clicks-kept,orders:orders-kept"
        assert cli.main(["restore", *cluster, "--store", STORE, "--topics", topics, "--no-groups"]) == 3
    values = {
        topic: [record.value for record in kept.lab.read(SITE, f"{topic}-kept")[0]]
        for topic in ("clicks", "orders")
    }
    assert values == {
        "clicks": [number(each).value for each in range(100, 150)],
        "orders": [number(each).value for each in range(100)],
    }
