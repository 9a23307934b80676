import re
from pathlib import Path

import pytest

from aqueduct import cli
from aqueduct.mirror.reconcile import run as reconcile
from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedTopics
from aqueduct.mirror.reconcile.verdict import Verdict
from aqueduct.work.options import SparkOptions
from aqueduct.work.workers import Workers

ENDS = ["--source-bootstrap-server", "pro1:9092", "--target-bootstrap-server", "lake:9092"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (ENDS, "one of the arguments --topics --topics-pattern is required"),
        ([*ENDS, "--topics", "a", "--topics-pattern", "b"], "not allowed with argument --topics"),
        ([*ENDS[:2], "--topics", "a"], "the following arguments are required: --target-bootstrap-server"),
        (
            [*ENDS[:3], "s3://bucket", "--topics", "a"],
            "s3://bucket is a store; pass it as --store, and brokers here",
        ),
        ([*ENDS[:3], "lake", "--topics", "a"], "'lake' is not a broker list; write HOST:PORT,HOST:PORT"),
        ([*ENDS, "--topics", "a", "--header", "origin"], "'origin' is not a header; write NAME=VALUE"),
        ([*ENDS, "--topics", "a b"], "[topic-name-invalid] 'a b' in --topics"),
        ([*ENDS, "--topics-pattern", "a("], "The topics pattern a( is not a valid regular expression"),
        (
            [*ENDS, "--topics", "a", "--command-config", "/none"],
            "/none cannot be read: No such file or directory.",
        ),
        (
            [*ENDS, *ENDS[:2], *ENDS[:2], "--topics", "a", *("--source-command-config", "f") * 2],
            "[option-count-mismatch] --source-command-config is passed 2 times for 3 ends.",
        ),
        (
            [*ENDS, "--topics", "a", "--store", "s3://b/a"],
            "not allowed with argument --source-bootstrap-server",
        ),
        ([*ENDS[2:], "--topics", "a", *("--store", "s3://b/a") * 2], "[option-conflict] A store must be "),
        ([*ENDS, "--topics", "a", "--snapshot", "1"], "[option-required] --snapshot needs --store."),
    ],
)
def test_refusals(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reconcile", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"aqueduct: .*\n", err)
    assert sentence in err


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ComparedFlow, ComparedTopics, Workers]]:
    """Return the list of the application's calls, each with its arguments."""
    calls = []

    def main(flow: ComparedFlow, topics: ComparedTopics, workers: Workers) -> list[Verdict]:
        calls.append((flow, topics, workers))
        return []

    monkeypatch.setattr(reconcile, "reconcile", main)
    return calls


def test_options(asked: list[tuple[ComparedFlow, ComparedTopics, Workers]]) -> None:
    options = [
        "--topics-pattern",
        "a.*",
        "--target-prefix",
        "p.",
        "--header",
        "h=a=b",
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.port=4050",
        "--wait",
        "90s",
    ]
    assert cli.main(["reconcile", *ENDS, *options]) == 3  # no topic was compared
    ((flow, topics, workers),) = asked
    assert [(end.role, end.bootstrap_servers) for end in flow.ends] == [
        ("target", "lake:9092"),
        ("source", "pro1:9092"),
    ]
    assert flow.header == ("h", b"a=b")
    assert topics == ComparedTopics.parse(None, "a.*", "p.")
    assert workers._options == SparkOptions("local[2]", {"spark.ui.port": "4050"}, 90)


def test_client_configs(asked: list[tuple[ComparedFlow, ComparedTopics, Workers]], tmp_path: Path) -> None:
    """Give one for both ends, unless an end has its own; one for all sources, or one for each, in order."""
    files = {}
    for name in "abc":
        (tmp_path / f"{name}.pem").write_text("-----BEGIN CERTIFICATE-----\n")
        (tmp_path / name).write_text(f"ssl.ca.location={tmp_path}/{name}.pem")
        files[name] = str(tmp_path / name)

    def authorities(*arguments: str) -> list[str]:
        three = [*(ENDS[0], "pro2:9092"), *(ENDS[0], "pro3:9092"), "--topics", "a"]
        assert cli.main(["reconcile", *ENDS, *three, *arguments]) == 3  # nothing was compared
        return [Path(end.client_config.ca or "-").stem for end in asked.pop()[0].ends]

    both, target = ["--command-config", files["a"]], ["--target-command-config", files["b"]]
    source = {name: ["--source-command-config", files[name]] for name in files}
    assert authorities() == ["-", "-", "-", "-"]
    assert authorities(*both) == ["a", "a", "a", "a"]
    assert authorities(*both, *target) == ["b", "a", "a", "a"]
    assert authorities(*both, *source["c"]) == ["a", "c", "c", "c"]
    assert authorities(*target, *source["c"], *source["b"], *source["a"]) == ["b", "c", "b", "a"]
