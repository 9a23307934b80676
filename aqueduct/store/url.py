"""The URL of an object store."""

import re
from dataclasses import dataclass

from aqueduct.errors import Refused

CLOUDS = {"s3": "bucket", "gs": "bucket", "az": "container"}
_NAMED = {**CLOUDS, "hdfs": "NameNode"}
SCHEMES = tuple(f"{scheme}://" for scheme in ("file", *_NAMED))


@dataclass(frozen=True)
class Location:
    """A store's URL: `s3://bucket/prefix`, `gs://`, `az://container/prefix`, `hdfs://host:port/dir`, `file:///dir`."""

    scheme: str
    bucket: str  # or container, or NameNode; empty for file
    path: str  # of file: absolute; else the prefix, without slashes at its ends

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (
            self.path if self.scheme == "file" else f"/{self.path}" if self.path else ""
        )


_URL = re.compile(r"(?P<scheme>\w+)://(?P<name>[^/]*)(?P<path>.*)")


def parse(url: str) -> Location:
    """Parse a store's URL. Refused if it is invalid; the error does not repeat possible secrets."""
    if any(sign in url for sign in "@?#"):
        raise Refused(
            "store-url-invalid",
            "The URL of the store must not contain a user, password, query or fragment. Pass credentials in "
            "environment variables.",
        )
    match = _URL.fullmatch(url)
    if match is None or match["scheme"] not in ("file", *_NAMED):
        raise Refused(
            "store-url-invalid",
            f"The URL of the store, {url}, must begin with s3://, gs://, az://, hdfs:// or file:///.",
        )
    scheme, name, path = match["scheme"], match["name"], _unquote(match["path"]).strip("/")
    if any(part in (".", "..") for part in path.split("/")):
        raise Refused("store-url-invalid", f"The URL of the store, {url}, must not have . or .. in its path.")
    if scheme == "file":
        if name or not match["path"]:
            raise Refused(
                "store-url-invalid",
                f"The URL of the store, {url}, must be file:/// and an absolute path, with three slashes.",
            )
        return Location("file", "", f"/{path}")
    if not name:
        raise Refused(
            "store-url-invalid",
            f"The URL of the store, {url}, has no {_NAMED[scheme]}. Write {scheme}://NAME/prefix.",
        )
    return Location(scheme, name, path)


def _unquote(text: str) -> str:
    return re.sub(
        "(?:%[0-9a-fA-F]{2})+",
        lambda run: bytes.fromhex(run[0].replace("%", "")).decode("utf-8", "replace"),
        text,
    )
