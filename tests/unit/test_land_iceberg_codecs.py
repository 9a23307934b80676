"""PyIceberg unpacks no more of a table than its limits."""

import gzip
from io import BytesIO

import pytest
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.serializers import Compressor

from aqueduct.land import iceberg, iceberg_codecs

CODECS = sorted(name for name, codec in KNOWN_CODECS.items() if codec)


@pytest.mark.parametrize("name", CODECS)
def test_a_block_is_read_up_to_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert iceberg  # which sets the limits
    monkeypatch.setattr(iceberg_codecs, "MOST_BLOCK", 1 << 20)
    codec = KNOWN_CODECS[name]  # type: ignore[index]
    assert codec
    packed, _ = codec.compress(b"entry" * 9)
    assert codec.decompress(packed) == b"entry" * 9
    packed, _ = codec.compress(bytes(64 << 20))
    with pytest.raises(ValueError, match="1,048,576 bytes"):
        codec.decompress(packed)


@pytest.mark.parametrize("name", CODECS)
def test_a_damaged_block_is_refused(name: str) -> None:
    codec = KNOWN_CODECS[name]  # type: ignore[index]
    assert codec
    packed, _ = codec.compress(b"entry" * 99)
    for damaged in (packed[:-9], bytes(30)):
        with pytest.raises((ValueError, OSError)):
            codec.decompress(damaged)


def test_metadata_are_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_codecs, "MOST_METADATA", 1 << 20)
    codec = Compressor.get_compressor("file:/table/metadata/1.gz.metadata.json")
    assert codec.stream_decompressor(BytesIO(gzip.compress(b"{}"))).read() == b"{}"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1,048,576 bytes"):
        codec.stream_decompressor(BytesIO(gzip.compress(bytes(64 << 20))))  # type: ignore[arg-type]
