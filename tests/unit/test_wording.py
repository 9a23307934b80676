import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.wording import PrintableStream, shortened, shown, write_controls


def test_names_that_fit_stay() -> None:
    assert shortened("orders", 6) == "orders"


def test_others_keep_their_beginning_and_their_end() -> None:
    assert shortened("orders.of.the.north", 12) == "order...orth"


@given(st.text(), st.integers(10, 300))
def test_none_is_wider(name: str, columns: int) -> None:
    assert len(shortened(name, columns)) == min(len(name), columns)


def test_printable_name_stays_unchanged() -> None:
    assert shown("tls/key of ä.pem") == "tls/key of ä.pem"


@given(st.lists(st.binary(), min_size=2, max_size=2, unique=True))
def test_names_of_any_bytes_become_distinct_printable_lines(names: list[bytes]) -> None:
    one, other = (shown(each.decode("utf-8", "surrogateescape")) for each in names)
    assert one != other
    assert (one + other).isprintable()


def test_stream_escapes_controls_but_write_controls_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", PrintableStream(sys.stderr))
    print("group \x1b]0;all is well\x07\tä\n\x9b2J", file=sys.stderr)
    assert capsys.readouterr().err == "group \\x1b]0;all is well\\x07\tä\n\\u009b2J\n"
    write_controls("\r\x1b[K1 of 2")
    assert capsys.readouterr().err == "\r\x1b[K1 of 2"
