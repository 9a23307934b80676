from contextlib import suppress
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.common import strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.acls import Acl
from aqueduct.store.manifest import (
    Chain,
    Gap,
    GroupAhead,
    GroupOffset,
    Instance,
    InstanceState,
    Manifest,
    OpenTransaction,
    Quota,
    Segment,
    StoredGroup,
    StoredTopic,
    pack,
    unpack,
)

number = st.integers(0, 2**63 - 1)
text = st.text(max_size=20)


def many(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(each, max_size=3).map(tuple)


texts = st.dictionaries(text, text, max_size=3)
instances = st.builds(Instance, number, text, st.sampled_from(InstanceState), number)
positions = st.dictionaries(st.tuples(text, number), many(st.integers(-1, 2**63 - 1)), max_size=3)
manifests = st.builds(
    Manifest,
    chain=st.builds(
        Chain,
        number=number,
        parent=st.none() | number,
        parent_sha256=st.none() | text,
        base=number,
        base_bytes=number,
        increments_bytes=number,
    ),
    options=st.dictionaries(text, text | st.lists(text) | st.none(), max_size=3),
    starts=positions,
    positions=positions,
    topics=many(
        st.builds(
            StoredTopic,
            name=text,
            topic_id=text,
            partitions=number,
            replication_factor=number,
            compacted=st.booleans(),
            settings=texts,
            instances=many(instances),
        )
    ),
    segments=many(st.builds(Segment)),
    gaps=many(st.builds(Gap)),
    groups=many(st.builds(StoredGroup, text, text, many(st.builds(GroupOffset)))),
    acls=many(st.builds(Acl)),
    quotas=many(
        st.builds(
            Quota,
            st.dictionaries(text, st.none() | text),
            st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False)),
        )
    ),
    open_transactions=many(st.builds(OpenTransaction)),
    groups_ahead=many(st.builds(GroupAhead)),
)

SMALL = Manifest(
    chain=Chain(number=1, parent=None, parent_sha256=None, base=1, base_bytes=0, increments_bytes=0),
    store="s",
    run="r",
    created=3,
    started=1,
    ended=2,
    cluster="c",
    version="0.1.0",
    options={},
    starts={("a", 1): (0, -1)},
    positions={("a", 1): (5, -1)},
    topics=(
        StoredTopic(
            name="a",
            topic_id="id",
            partitions=2,
            replication_factor=1,
            compacted=False,
            settings={},
            instances=(Instance(1, "id", InstanceState.ACTIVATE, 1),),
        ),
    ),
    segments=(Segment("a", 1, 0, 0, 5, 0, 4, 5, 500, 100, "0" * 64, 90, "1" * 64, 7, 8, "r", True, False),),
    gaps=(),
    groups=(),
    acls=(),
    quotas=(),
    open_transactions=(),
    groups_ahead=(),
)


@given(manifests)
def test_comes_back(manifest: Manifest) -> None:
    assert unpack(pack(manifest), "it") == manifest


@given(st.data())
def test_damage_is_told(data: st.DataObject) -> None:
    whole = pack(SMALL)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    # One bit of the frame's header has no meaning: what comes is then the same.
    with suppress(Failed):
        assert unpack(bytes(damaged), "store/x") == SMALL


@given(st.data())
def test_a_cut_or_longer_object_is_told(data: st.DataObject) -> None:
    whole = pack(SMALL)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for damaged in (cut, whole + data.draw(st.binary(min_size=1))):
        with raises(Failed, "object-damaged", "store/x"):
            unpack(damaged, "store/x")


def changed(**content: Any) -> bytes:
    parsed = strict_json.parse(zstandard.ZstdDecompressor().decompress(pack(SMALL)))
    return zstandard.ZstdCompressor().compress(strict_json.dumps({**parsed, **content}))


def test_a_newer_format_is_refused() -> None:
    with raises(Refused, "store-format-unsupported", "store/x", "format 2", 1):
        unpack(changed(format=2, new={"of": "whatever kind"}, segments=7), "store/x")


@pytest.mark.parametrize(
    "content",
    [
        {"format": 0},
        {"format": "1"},
        {"format": True},
        {"format": None},
        {"more": 1},
        {"columns": {}},
        {"positions": {"a": {"x": [1]}}},
        {"positions": {"a": {"1": [None]}}},
        {"positions": 1},
        {"starts": {"a": {"x": [1]}}},
        {"starts": None},
        {"store": None},
        {"topics": [{"name": "a"}]},
        {"segments": [[1]]},
    ],
    ids=str,
)
def test_content_of_no_known_kind_is_damage(content: dict[str, Any]) -> None:
    assert unpack(changed(), "store/x") == SMALL
    with raises(Failed, "object-damaged", "store/x"):
        unpack(changed(**content), "store/x")


def test_paths_of_a_segment() -> None:
    segment = SMALL.segments[0]
    assert segment.path == "topics/a/0/00000000000000000000.r.log.zst"
    assert segment.index_path == "topics/a/0/00000000000000000000.r.index"
    kept = segment._replace(generation=True, instance=4, compressed=False)
    assert kept.path == "topics/a/g4/0/00000000000000000000.r.log"
    assert kept.index_path == "topics/a/g4/0/00000000000000000000.r.index"
