"""Sets of names: the algebra against Python's sets, over all short names of a small alphabet."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.estate.languages import EMPTY_NAME, EVERYTHING, NOTHING, Language, repeat, shortest, words

LONGEST = 3
ALL = {"".join(name) for length in range(LONGEST + 1) for name in product("ab.", repeat=length)}

some_words = st.sets(st.text("ab.", max_size=LONGEST), max_size=6)


def members(language: Language) -> set[str]:
    return {name for name in ALL if name in language}


@given(some_words)
def test_words_are_exactly_themselves(names: set[str]) -> None:
    assert members(words(names)) == names


@given(some_words, some_words)
def test_sets_combine_as_sets_do(one: set[str], other: set[str]) -> None:
    assert members(words(one) | words(other)) == one | other
    assert members(words(one) & words(other)) == one & other
    assert members(words(one) - words(other)) == one - other
    assert members(EVERYTHING - words(one)) == ALL - one


@given(some_words, some_words)
def test_concatenation(one: set[str], other: set[str]) -> None:
    assert members(words(one) + words(other)) == {a + b for a in one for b in other} & ALL


@given(some_words)
def test_repetition_is_its_own_continuation(names: set[str]) -> None:
    repeated = repeat(words(names))
    expected = {""}
    for _ in range(LONGEST):
        expected |= {a + b for a in expected for b in names}
    assert members(repeated) == expected & ALL


@given(some_words, some_words)
def test_shortest_is_shortest_common_name_or_none(one: set[str], other: set[str]) -> None:
    common = (one & other) - {""}
    found = shortest(words(one) & words(other))
    assert (found is None) == (not common)
    assert found is None or (found in common and len(found) == min(map(len, common)))


def test_equal_expressions_are_one_object() -> None:
    assert words(["ab", "cd"]) is words(["cd", "ab"])
    assert (words(["a"]) + words(["b"])) + words(["c"]) is words(["a"]) + (words(["b"]) + words(["c"]))
    assert words([]) is NOTHING
    assert words([""]) is EMPTY_NAME


def test_name_with_illegal_character_is_in_no_set() -> None:
    assert "a b" not in EVERYTHING


def test_ten_thousand_names_are_no_burden() -> None:
    even = words(f"topic-{number}.events" for number in range(0, 20_000, 2))
    odd = words(f"topic-{number}.events" for number in range(1, 20_000, 2))
    assert shortest(even & odd) is None
    assert shortest(even & (words(["topic-1"]) + EVERYTHING)) == "topic-10.events"
