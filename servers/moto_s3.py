"""A server of S3's API with lifecycle rules: moto's, which keeps them and removes nothing by itself."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
