"""Java's patterns: what they match, against Python's `re`; and which of them Java refuses."""

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.estate.acls import resource
from aqueduct.estate.languages import shortest
from aqueduct.estate.patterns import PatternError, language, names, unmatched

# Patterns that mean the same in Java and in Python, over few characters, so that names often match.
pieces = st.sampled_from(
    ["a", "b", "1", "-", r"\.", ".", "[ab]", "[^a]", "[a-b.]", r"\d", r"\w", r"\W", r"[\w.]", "(a|b1)", "ab"]
)
patterns = st.recursive(
    pieces,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{1,}"])).map(
            "(?:{0[0]}){0[1]}".format
        ),
    ),
    max_leaves=6,
)
candidates = st.text("ab1.-", min_size=1, max_size=6)


def matches(pattern: str, name: str) -> bool:
    """Match as MirrorMaker does with the pattern's ACL: a legal name stands for itself alone."""
    return name == pattern if LEGAL_NAME.fullmatch(pattern) else re.fullmatch(pattern, name) is not None


@given(patterns, candidates)
def test_a_pattern_matches_what_re_matches(pattern: str, name: str) -> None:
    understood = language(pattern)
    assert understood is not None
    assert (name in understood) == matches(pattern, name)


@settings(deadline=None)
@given(patterns, patterns, candidates)
def test_patterns_overlap_exactly_if_common_name_exists(one: str, other: str, name: str) -> None:
    common = shortest(names([one]) & names([other]))
    if common is None:
        assert not (matches(one, name) and matches(other, name))
    else:
        assert matches(one, common)
        assert matches(other, common)


@given(patterns, candidates)
def test_pattern_acl_covers_every_matching_name(pattern: str, name: str) -> None:
    if matches(pattern, name):
        covering = resource(pattern)
        assert covering.name == "*" or name.startswith(covering.name)
        assert covering.pattern == "prefixed" or covering.name in ("*", name)


# Each with what Java 17 says of it.
REFUSED = [
    "a{2",  # Unclosed counted closure
    "a{1 }",
    "{a",  # Illegal repetition
    "a{x}",
    "a{,2}",
    "a{3,2}",  # Illegal repetition range
    "[a",  # Unclosed character class
    "[]",
    "[^]",
    "[a-",
    "[a\\",
    "[z-a]",  # Illegal character range
    "(a",  # Unclosed group
    "(?<n>a",
    "a)",  # Unmatched closing ')'
    "a**",  # Dangling meta character
    "*a",
    "a|+",
    "(?",  # Unknown inline modifier
    "(?P<n>a)",
    "(?#c)a",
    "(?<1>a)",  # capturing group name does not start with a Latin letter
    "\\y",  # Illegal/unsupported escape sequence
    "\\Ea",
    "a\\",
]
TAKEN = [
    *(
        "a]",
        "}a",
        "[]a]",
        "[^]a]",
        "[a-]",
        "[-a]",
        "[+--]",
        r"[\w-]",
        "[a&b]",
        "[^^]",
        r"[a\]b]",
        "()",
        "|a",
        "a||b",
    ),
    *(
        "a*?",
        "a{2}?",
        "a{2}{3}",
        "a*{2}",
        "a{99}",
        "^*",
        "^a$",
        "a$b",
        "(?i)",
        "(?-i)a",
        "(?:)",
        "(?=a)b",
        "(?<!a)b",
    ),
    *(
        r"\Q.\E",
        r"\Qabc",
        r"\p{Alpha}",
        r"\pL",
        r"\p{IsAlphabetic}",
        r"\x41",
        r"\u0041",
        r"(a)\1",
        r"\_",
        r"\R",
        "é",
    ),
    *("a*+", "[a&&[^b]]", "[[a]b]", r"\Qa]\E", r"\cA", "a b", "#", "a{0}", "{1}"),
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        language(pattern)


@pytest.mark.parametrize("pattern", TAKEN)
def test_what_java_takes_is_taken(pattern: str) -> None:
    language(pattern)


@given(st.text("ab.|*+?(){}[]\\^$-,1Qd:=!<", max_size=8))
def test_any_text_is_understood_left_alone_or_refused(pattern: str) -> None:
    with suppress(PatternError):
        language(pattern)


def test_only_what_is_regular_is_understood() -> None:
    for pattern in ("(?=a)a", r"(a)\1", "a*+", "(?i)a", "[a&&b]", "a$b"):
        assert language(pattern) is None


def test_what_can_not_be_told_claims_nothing() -> None:
    assert shortest(names(["(?=a).*"])) is None
    assert shortest(names([".*"], ["(?=a).*"])) is None
    assert shortest(names(["a", "(?=b).*"])) == "a"


def test_excluded_names_are_left_out() -> None:
    assert shortest(names(["flights.*"], ["flights"])) == "flightsa"


def test_patterns_that_match_no_name_are_told_apart() -> None:
    names = {"flights", "eu-flights", "crews"}
    assert unmatched(["flights", r".*-flights", "crew", "cre[v-x]s", r"(?=x)crews"], names) == [
        "crew",
        "(?=x)crews",
    ]
    assert unmatched([], names) == []
    assert unmatched([".*"], []) == [".*"]
    with pytest.raises(PatternError):
        unmatched(["("], names)
