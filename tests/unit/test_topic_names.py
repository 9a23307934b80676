import pytest
from kit.identifiers import raises

from aqueduct.common.topic_names import alternatives, parse_renames, pattern_parts, unmatched_parts
from aqueduct.errors import Refused


def test_renames_map_topics_to_same_or_new_names() -> None:
    assert list(parse_renames("b:c.d,a").items()) == [("a", "a"), ("b", "c.d")]
    assert parse_renames("b:c,a", "p.") == {"a": "p.a", "b": "c"}


@pytest.mark.parametrize("text", ["", ",", "a,", "a:", ":a", "a:b:c", "a b", "..", "a:.", "x" * 250])
def test_names_that_can_not_be_meant_are_refused(text: str) -> None:
    with raises(Refused, "topic-name-invalid", "--topics"):
        parse_renames(text)


@pytest.mark.parametrize("text", ["a,a", "a,b:a"])
def test_a_name_that_is_listed_twice_is_refused(text: str) -> None:
    with raises(Refused, "topic-listed-twice", "--topics"):
        parse_renames(text)


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("a", ["a"]),
        ("a|b.*|c", ["a", "b.*", "c"]),
        ("(a|b)c|d", ["(a|b)c", "d"]),
        (r"a\|b|[|]c|[]|]d|[^]|]e", [r"a\|b", "[|]c", "[]|]d", "[^]|]e"]),
        (r"[\]|]a|b", [r"[\]|]a", "b"]),
        ("(?i)a|b", ["(?i)a|b"]),
        ("(?i:a|b)|c", ["(?i:a|b)", "c"]),
    ],
)
def test_pattern_is_split_at_top_level_bars(pattern: str, parts: list[str]) -> None:
    assert alternatives(pattern) == parts


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (r"a|b\.c|", ["a", r"b\.c"]),
        (r"(?!(?:x|__.*)$)(?:a|b[)|]|(c|d))", ["a", "b[)|]", "(c|d)"]),
        ("(a|b)", ["a", "b"]),
        ("(a|b)c", ["(a|b)c"]),
        ("(a|b)(c|d)", ["(a|b)(c|d)"]),
        ("(?i)(?:a|b)", ["(?i)(?:a|b)"]),
        (r"(a)|\1", [r"(a)|\1"]),
        ("", []),
    ],
)
def test_pattern_parts_keep_their_written_form(pattern: str, parts: list[str]) -> None:
    assert list(pattern_parts(pattern)) == parts


def test_each_part_that_matches_no_name_is_returned() -> None:
    names = {"a", "b.c", "x"}
    assert unmatched_parts(r"a|b\.c|d|a.+", names) == ["d", "a.+"]
    assert unmatched_parts(r"(?!(?:x)$)(?:a|b\.c|x|d)", names) == ["x", "d"]
    assert unmatched_parts("", names) == []
