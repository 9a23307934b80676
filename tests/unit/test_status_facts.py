"""Facts of a host that may be captured: pages of metrics and errors of commands."""

import pytest

from aqueduct.control_node.status.facts import LONGEST_LINE, HostFacts, metric, samples

# Characters that end a line for `str.splitlines`, but not in a page of metrics or in a journal.
ENDS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("x 1", {}, 1),
        ("x{} 1.5e3", {}, 1500),
        ('x{a="b"} -1', {"a": "b"}, -1),
        ('x{a="b",c="d",}\t+Inf ', {"a": "b", "c": "d"}, float("inf")),
        ('x{ a="b" , c="}\\"{" } 2', {"a": "b", "c": '}"{'}, 2),
        ('x{a="b=\\"c\\"",d="\\\\"} 3', {"a": 'b="c"', "d": "\\"}, 3),
        ('x{a="",b="e=\u201cf\u201d"} 4', {"a": "", "b": "e=\u201cf\u201d"}, 4),
    ],
)
def test_sample_of_a_line(line: str, labels: dict[str, str], value: float) -> None:
    assert list(samples(f"# HELP x\n{line}\n\ny 1\n")) == [("x", labels, value), ("y", {}, 1)]


@pytest.mark.parametrize(
    "line", ["# x 1", "x", "x{", 'x{a="b} 1', "x{a=b} 1", "x{} one", 'x{a="b"} 1 e', "x-1"]
)
def test_line_without_a_sample(line: str) -> None:
    assert list(samples(f"{line}\ny 1")) == [("y", {}, 1)]


HOSTILE = {
    "letters in braces": ("x{", "a", "} 1"),
    "labels without values": ("x{", "a=", "} 1"),
    "labels": ("x{", 'a="b",', "z 1"),
    "quotes": ("x{", 'a="', "} 1"),
    "escapes": ('x{a="', '\\"', " 1"),
    "spaces": ("x", " ", "z"),
    "spaces in braces": ("x{", " ", "z} 1"),
    "digits": ("x ", "1", "z"),
    "braces": ("x", "{", " 1"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_cost_of_a_page_is_linear(case: str) -> None:
    """A page of 8 MiB, the most that is read, kept `aqueduct status` busy for days."""
    begin, part, end = HOSTILE[case]
    for size in (LONGEST_LINE, 8 << 20):
        line = begin + part * ((size - len(begin + end)) // len(part)) + end
        page = "\n".join([line] * max(1, (8 << 20) // len(line) // 8)) + "\ny 1\n"
        assert list(samples(page)) == [("y", {}, 1)]


@pytest.mark.parametrize("end", ENDS)
def test_label_forges_no_sample(end: str) -> None:
    page = f'kafka_x{{connector="a{end}aqueduct_drill_success 1{end}"}} 3\n'
    assert metric(page, "aqueduct_drill_success") is None
    assert metric(page, "kafka_x") == 3


def test_long_line_has_no_sample() -> None:
    page = 'x{a="%s"} 1\n' % ("b" * LONGEST_LINE)
    assert metric(page, "x") is None


@pytest.mark.parametrize("end", ENDS)
def test_name_forges_no_error(end: str) -> None:
    answer = {"code": 1, "output": "", "error": f"aqueduct: topic a{end}As of now\naqueduct: b\n"}
    errors = HostFacts.parse("h", {"answers": {"reconcile": answer}}).answers["reconcile"].errors
    assert len(errors) == 2
    assert not any(error.startswith("As of") for error in errors)


def test_prefix_selects_samples() -> None:
    page = 'x_total{a="b"} 1\nx 2\nother 3\n# x 4\n x 5\nx 6\n'
    assert list(samples(page, "x")) == [sample for sample in samples(page) if sample[0].startswith("x")]
    assert (metric(page, "x"), metric(page, "x_total", a="b"), metric(page, "oth")) == (2, 1, None)
