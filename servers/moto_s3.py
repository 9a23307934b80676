"""A server of S3's API with lifecycle rules: moto's, which keeps them and removes nothing by itself."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

REGION = "eu-test-1"


@dataclass(frozen=True)
class MotoS3:
    """A server with the bucket `store`."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment by which an S3 client finds it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def client(self) -> Any:
        keys = {"aws_access_key_id": "tests", "aws_secret_access_key": "tests"}
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION, **keys)

    def rules(self) -> list[dict[str, Any]]:
        """Return the bucket's lifecycle rules."""
        client = self.client
        try:
            return list(client.get_bucket_lifecycle_configuration(Bucket="store")["Rules"])
        except client.exceptions.ClientError:
            return []

    def written(self, store: str) -> dict[str, datetime]:
        """Return when each object of s3://store/... was written, by its key."""
        prefix = store.removeprefix("s3://store/") + "/"
        found = self.client.list_objects_v2(Bucket="store", Prefix=prefix).get("Contents", ())
        return {each["Key"]: each["LastModified"] for each in found}

    def expire(self, written: Mapping[str, datetime], now: datetime) -> list[str]:
        """Remove objects whose time has come by the rules, as S3's documentation has it; their keys."""
        client, rules = self.client, self.rules()
        gone = []
        for key, at in written.items():
            for rule in rules:
                prefix = rule["Filter"].get("Prefix")
                if prefix is None or rule["Status"] != "Enabled" or not key.startswith(prefix):
                    continue
                after = at.astimezone(UTC) + timedelta(days=rule["Expiration"]["Days"])
                midnight = after.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
                if now >= midnight:
                    client.delete_object(Bucket="store", Key=key)
                    gone.append(key)
        return gone


@contextmanager
def running() -> Iterator[MotoS3]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        started = MotoS3(f"http://{host}:{port}")
        started.client.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
        yield started
    finally:
        server.stop()
