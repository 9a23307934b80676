"""Withheld records leave no byte in the frame, and the frame covers their offsets all the same."""

from pathlib import Path
from uuid import UUID

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body, key_and_value
from aqueduct.kafka.batches.records import Record, Records, build, records
from aqueduct.link import options
from aqueduct.link.filter import Filter
from aqueduct.link.options import Upstream
from aqueduct.link.wire.frame import Frame

ID = UUID(int=1)


def rules(text: str | None, default: str = "allow", timeout: str = "100") -> Filter:
    given = {
        "bootstrapServers": "b:1", "targetIP": "t", "topic": "x", "publicKeyFile": "p", "signingKeyFile": "s",
        "inputFilterDefaultAction": default, "inputFilterTimeout": timeout,
    }  # fmt: skip
    return Filter.of(
        options.build(Upstream, None, {}, given | ({"inputFilterRules": text} if text else {}), pytest.fail)
    )


def frame(*values: bytes | None, codec: str = "gzip") -> Frame:
    rows = [Record(1000 + offset, offset, body(b"k", value)) for offset, value in enumerate(values)]
    return Frame(
        topic="t",
        topic_id=ID,
        partition=0,
        first=0,
        last=len(values) - 1,
        batches=bytes(build(Records.listed(rows), codec=codec)),
    )


def kept(of: Frame) -> list[tuple[int, bytes | None]]:
    return [
        (each.offset, key_and_value(each.body)[1]) for batch in walk(of.batches) for each in records(batch)
    ]


def test_the_first_rule_that_matches_wins() -> None:
    one = rules("deny:secret,allow:^a,deny:.")
    found = one.apply(frame(b"a secret", b"an a", b"b", None, b""))
    assert kept(found) == [(1, b"an a"), (3, None), (4, b"")]
    assert (found.first, found.last, one.withheld) == (0, 4, 2)


def test_without_rules_the_default_decides() -> None:
    one = frame(b"a", b"b")
    assert rules(None).apply(one) is one
    found = rules(None, "deny").apply(one)
    assert (found.batches, found.first, found.last) == (b"", 0, 1)


def test_what_no_rule_matches_is_the_defaults() -> None:
    one = frame(b"a", b"b", None, b"no a")
    assert kept(rules("allow:^a,deny:b", "deny").apply(one)) == [(0, b"a")]
    assert kept(rules("allow:^a,deny:b", "allow").apply(one)) == [(0, b"a"), (2, None), (3, b"no a")]


def test_batch_without_withheld_records_stays_unchanged() -> None:
    one = frame(b"a", b"b")
    assert rules("deny:c").apply(one).batches == one.batches


def test_commas_in_brackets_or_quantifiers_separate_no_rules() -> None:
    one = rules(r"deny:a{2,3}[x,y],deny:\(b,allow:.")
    assert kept(one.apply(frame(b"aa,", b"aa-", b"aax", b"(b"))) == [(1, b"aa-")]


def test_a_match_that_takes_too_long_is_denied() -> None:
    one = rules(r"allow:(a|aa)+$", timeout="1")
    assert kept(one.apply(frame(b"a" * 60 + b"b", b"c"))) == [(1, b"c")]
    assert (one.timeouts, one.withheld) == (1, 1)


def test_rules_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("# what may cross\nallow:^flight,\n\ndeny:.\n")
    assert kept(rules(str(file)).apply(frame(b"flight, 1", b"flight 2"))) == [(0, b"flight, 1")]


@pytest.mark.parametrize(
    ("text", "fact"),
    [("allow:(", "'('"), ("allow:a,b", "'b'"), ("nofile", "'nofile'")],
)
def test_what_is_no_rule(text: str, fact: str) -> None:
    with raises(Refused, "filter-rules-invalid") as refused:
        rules(text)
    assert fact in str(refused.value)
