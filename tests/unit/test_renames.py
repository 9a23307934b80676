import pytest

from aqueduct import renames
from aqueduct.errors import Refused


def test_names_are_taken_as_they_are_or_as_others() -> None:
    assert list(renames.parse("b:c.d,a").items()) == [("a", "a"), ("b", "c.d")]
    assert renames.parse("b:c,a", "p.") == {"a": "p.a", "b": "c"}


@pytest.mark.parametrize(
    "text", ["", ",", "a,", "a:", ":a", "a:b:c", "a b", "a,a", "a,b:a", "..", "a:.", "x" * 250]
)
def test_names_that_can_not_be_meant_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="--topics"):
        renames.parse(text)
