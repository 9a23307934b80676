"""Values that can't be meant are refused before anything is done, by a sentence that names the option."""

import os
import tempfile
from pathlib import Path

import pytest

from aqueduct import cli
from aqueduct.cli import selection

VERBS = {
    "backup": ["--bootstrap-server", "b:9092", "--store", "file:///s", "--topics", "a"],
    "restore": ["--bootstrap-server", "b:9092", "--store", "file:///s"],
    "verify": ["--store", "file:///s"],
    "reconcile": [
        *("--source-bootstrap-server", "b:9092"),
        *("--target-bootstrap-server", "b:9092"),
        *("--topics", "a"),
    ],
    "mirror": [
        *("--flow", "s", "--source-bootstrap-server", "b:9092"),
        *("--target-bootstrap-server", "b:9092"),
    ],
    "drill": ["--bootstrap-server", "b:9092", "--store", "file:///s"],
    "health": ["--bootstrap-server", "b:9092"],
}
NUMBERS = ["", "-1", "1.5", "1e3", "nan", "inf", "9" * 20, "9" * 5000, "\u0661"]
DURATIONS = ["", "5", "-5s", "1.5h", "nan", "infh", "99999h", "9" * 5000 + "s"]
HOURS = ["", "0", "-0.0", "-1", "nan", "inf", "-inf", "1e400", "1e99", "24h"]
SERVERS = [
    *("", "b", "b:", ":9092", "b:0", "b:65536", "b:99999", "b:-1", "b:9092,", ",b:9092", "b:9092,b:0"),
    *(
        "b :9092",
        "b: 9092",
        "[fe80::1%]:9092",
        "[fe80::1%eth0 ]:9092",
        "b:1:2",
        "SSL://b:9092",
        "::1:9092",
        "[::1]",
        "[]:9092",
        "b:" + "9" * 5000,
    ),
]


def refused(capsys: pytest.CaptureFixture[str], verb: str, option: str, value: str) -> str:
    """Return the sentence."""
    assert cli.main([verb, *VERBS[verb], f"{option}={value}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"aqueduct: [usage-error] argument {option}: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("verb", "option", "values"),
    [
        ("backup", "--segment-bytes", [*NUMBERS, "0", str(1 << 31)]),
        ("backup", "--segment-records", [*NUMBERS, "0"]),
        ("backup", "--rate-limit-bytes", [*NUMBERS, "0"]),
        ("backup", "--every", [*DURATIONS, "0s"]),
        ("backup", "--compacted-generation-hours", HOURS),
        ("verify", "--rate-limit-bytes", [*NUMBERS, "0"]),
        ("verify", "--snapshot", [*NUMBERS, "0"]),
        ("restore", "--snapshot", [*NUMBERS, "0"]),
        ("drill", "--answers-within", [*DURATIONS, "0s"]),
        ("mirror", "--wait", DURATIONS),
        ("health", "--node-id", [*NUMBERS, str(1 << 31)]),
    ],
)
def test_numbers(capsys: pytest.CaptureFixture[str], verb: str, option: str, values: list[str]) -> None:
    for value in values:
        refused(capsys, verb, option, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" b:9092", "b:9092"),
        ("a:9092, b:9093 ,\tc:9094 ", "a:9092,b:9093,c:9094"),
        ("KAFKA-1.Example.COM:9092", "KAFKA-1.Example.COM:9092"),
        ("[fe80::1%eth0]:9092,[::1]:9092", "[fe80::1%eth0]:9092,[::1]:9092"),
    ],
)
def test_servers_as_kafkas_tools_take_them(text: str, expected: str) -> None:
    assert selection.servers(text) == expected


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        ("backup", "--bootstrap-server"),
        ("restore", "--bootstrap-server"),
        ("drill", "--bootstrap-server"),
        ("drill", "--live-bootstrap-server"),
        ("health", "--bootstrap-server"),
        ("mirror", "--source-bootstrap-server"),
        ("mirror", "--target-bootstrap-server"),
        ("reconcile", "--source-bootstrap-server"),
        ("reconcile", "--target-bootstrap-server"),
    ],
)
def test_servers(capsys: pytest.CaptureFixture[str], verb: str, option: str) -> None:
    for value in SERVERS:
        refused(capsys, verb, option, value)


def test_servers_of_mirrors(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("", "pro1", "=b:9092", *(f"pro1={each}" for each in SERVERS)):
        refused(capsys, "restore", "--mirror", value)


def test_what_is_meant_is_taken() -> None:
    options = [
        *("--bootstrap-server", "b:1,10.0.0.1:65535,[2001:db8::1]:9092"),
        *("--compacted-generation-hours", ".5", "--segment-bytes", "1"),
        *("--rate-limit-bytes", str((1 << 63) - 1), "--every", "87600h"),
    ]
    args = cli.build_parser(["backup"]).parse_args(["backup", *VERBS["backup"], *options])
    assert args.bootstrap_server.endswith("[2001:db8::1]:9092")
    assert (args.compacted_generation_hours, args.segment_bytes) == (0.5, 1)
    assert (args.rate_limit_bytes, args.every) == ((1 << 63) - 1, 87600 * 3600)


@pytest.mark.parametrize("verb", ["backup", "restore", "drill", "verify", "reconcile", "mirror"])
def test_reports_that_can_not_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    (tmp_path / "file").touch()
    for value, why in (
        ("", "is not a file"),
        (tmp_path, "is not a file"),
        ("/dev/null", "is not a file"),
        (tmp_path / "none" / "report.json", "No such file or directory"),
        (tmp_path / "file" / "report.json", "Not a directory"),
        (tmp_path / ("x" * 250), "File name too long"),
    ):
        assert why in refused(capsys, verb, "--report", str(value))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_report_in_read_only_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        before = os.geteuid()
        if before == 0:
            os.seteuid(65534)  # root may write everywhere
        try:
            assert "Permission denied" in refused(capsys, "verify", "--report", f"{folder}/report.json")
        finally:
            os.seteuid(before)


def test_option_check_leaves_existing_report_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("an old one")
    arguments = ["verify", *VERBS["verify"], "--report", str(path)]
    assert cli.build_parser(["verify"]).parse_args(arguments).report == path
    assert path.read_text() == "an old one"
    assert list(tmp_path.iterdir()) == [path]
