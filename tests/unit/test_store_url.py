import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.store.url import Location, parse


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3://bucket/a/b/", Location("s3", "bucket", "a/b")),
        ("gs://bucket/a", Location("gs", "bucket", "a")),
        ("az://container/a", Location("az", "container", "a")),
        ("hdfs://name:8020/a/b/", Location("hdfs", "name:8020", "a/b")),
        ("file:///srv/a%20b/", Location("file", "", "/srv/a b")),
    ],
)
def test_parse(url: str, location: Location) -> None:
    assert parse(url) == location


def test_a_location_is_written_as_a_url() -> None:
    for url in ("s3://bucket", "s3://bucket/a/b", "file:///srv/a"):
        assert str(parse(url)) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bucket/prefix",
        "/srv/backup",
        "s3:///prefix",
        "hdfs:///a",
        "S4://bucket",
        "file://srv/backup",
        "file:srv",
        "s3://bucket/a/../b",
        "https://a.example.com/x",
    ],
)
def test_no_store(url: str) -> None:
    with raises(Refused, "store-url-invalid") as refusal:
        parse(url)
    assert url in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["s3://key:hidden@bucket/a", "az://container/a?sig=hidden", "s3://bucket#hidden"]
)
def test_a_secret_is_not_repeated(url: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse(url)
    assert "hidden" not in str(refusal.value)
