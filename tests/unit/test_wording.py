from hypothesis import given
from hypothesis import strategies as st

from aqueduct.wording import shortened


def test_names_that_fit_stay() -> None:
    assert shortened("orders", 6) == "orders"


def test_others_keep_their_beginning_and_their_end() -> None:
    assert shortened("orders.of.the.north", 12) == "order...orth"


@given(st.text(), st.integers(10, 300))
def test_none_is_wider(name: str, columns: int) -> None:
    assert len(shortened(name, columns)) == min(len(name), columns)
