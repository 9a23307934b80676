"""A run that ends with an error says so to programs, too: in its report, and on stdout with --json."""

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kit.identifiers import printed

from aqueduct import cli
from aqueduct.cli import report_file
from aqueduct.errors import Failed, Refused

CLUSTER = ("--bootstrap-server", "127.0.0.1:1", "--command-config", "{tmp}/gone")
STORE = ("--store", "file://{tmp}/store")
# Each command that has a report, with options by which it ends before it reaches anything.
COMMANDS = {
    "backup": (*CLUSTER, *STORE, "--topics", "a"),
    "dlq replay": (*CLUSTER, "--dlq", "a"),
    "doctor cluster": CLUSTER,
    "doctor connect": ("--worker-config", "{tmp}/gone"),
    "drill": (*CLUSTER, *STORE),
    "export": (*STORE, "--to", "file://{tmp}/to", "--format", "avro"),
    "files backup": ("--backups", "{tmp}/store", "--name", "a", "--source", "{tmp}/gone"),
    "files verify": ("--backups", "{tmp}/store", "--name", "a"),
    "files restore": ("--backups", "{tmp}/store", "--name", "a", "--to", "{tmp}/to"),
    "files prune": ("--backups", "{tmp}/store", "--keep-last", "1", "--name", "a"),
    "import": ("--from", "file://{tmp}/gone", "--format", "s3-binary", *STORE),
    "land": (*CLUSTER, "--declarations", "{tmp}/gone", "--location", "file://{tmp}/store"),
    "mirror": (
        *("--flow", "a", "--source-bootstrap-server", "127.0.0.1:1", "--source-command-config", "{tmp}/gone"),
        *("--target-bootstrap-server", "127.0.0.1:1"),
    ),
    "prune": (*STORE, "--keep-last", "1"),
    "quorum backup": (*STORE, "--data-folder", "{tmp}/gone"),
    "reconcile": (
        *("--store", "file://{tmp}/store", "--target-bootstrap-server", "127.0.0.1:1", "--topics", "a"),
        *("--command-config", "{tmp}/gone"),
    ),
    "replicate": (
        *("--flow", "a", "--topics-pattern", "a", "--source-bootstrap-server", "127.0.0.1:1"),
        *("--source-command-config", "{tmp}/gone", "--target-bootstrap-server", "127.0.0.1:1"),
    ),
    "restore": (*CLUSTER, *STORE),
    "switch": (
        *("--flow", "a", "--to", "mm2", "--topics-pattern", "a", "--source-bootstrap-server", "127.0.0.1:1"),
        *("--source-command-config", "{tmp}/gone", "--target-bootstrap-server", "127.0.0.1:1"),
    ),
    "transactions find-hanging": CLUSTER,
    "verify": STORE,
    "zookeeper backup": (*STORE, "--connect", "127.0.0.1:1", "--command-config", "{tmp}/gone"),
    "zookeeper restore": (*STORE, "--connect", "127.0.0.1:1", "--command-config", "{tmp}/gone"),
    "zookeeper diff": (*STORE, "--connect", "127.0.0.1:1", "--command-config", "{tmp}/gone"),
}
NO_STORE = {
    "dlq replay",
    "doctor cluster",
    "doctor connect",
    "mirror",
    "replicate",
    "switch",
    "transactions find-hanging",
}


def arguments(command: str, tmp: Path) -> list[str]:
    return [*command.split(), *(each.format(tmp=tmp) for each in COMMANDS[command])]


def reporting(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the commands that have --report."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from reporting(each)
        elif "--report" in action.option_strings:
            yield parser.prog.removeprefix("aqueduct ")


def test_every_command_that_reports_is_tested_here() -> None:
    assert sorted(reporting(cli.build_parser())) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_failed_run_writes_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (tmp_path / "store").mkdir()
    report = tmp_path / "report.json"
    report.write_text("that of a former run")
    began = datetime.now(UTC)
    code = cli.main([*arguments(command, tmp_path), "--report", str(report)])
    assert code in (1, 2)
    found = json.loads(report.read_text())
    assert (found["verb"], found["exit_code"]) == (command, code)
    started, ended = (datetime.fromisoformat(found[name]) for name in ("started", "ended"))
    assert began.replace(microsecond=began.microsecond // 1000 * 1000) <= started <= ended
    error = found["error"]
    label = f"[{error['id']}] " if error["id"] else ""
    assert f"aqueduct: {label}{error['message']}\n" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["report.json"]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_is_the_report_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "store").mkdir()
    report = tmp_path / "report.json"
    code = cli.main([*arguments(command, tmp_path), "--json", "--report", str(report)])
    out, err = capsys.readouterr()
    printed_report, stored_report = (
        {name: field for name, field in json.loads(text).items() if name != "ended"}
        for text in (out, report.read_text())
    )
    assert printed_report == stored_report
    assert (printed_report["verb"], printed_report["exit_code"]) == (command, code)
    assert printed_report["error"]["message"] in err


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - NO_STORE))
def test_an_error_is_never_reported_into_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "store").mkdir()
    object_ = tmp_path / "store/object"
    object_.write_text("of the store")
    assert cli.main([*arguments(command, tmp_path), "--report", str(object_)]) in (1, 2)
    assert object_.read_text() == "of the store"
    assert "report-inside-store" in printed(capsys.readouterr().err)


def test_reconcile_never_writes_report_into_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").mkdir()
    assert cli.main([*arguments("reconcile", tmp_path), "--report", f"{tmp_path}/store/object"]) == 2
    assert printed(capsys.readouterr().err) == ["report-inside-store"]


def test_errors_of_restore_have_identifiers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    command = ["restore", "--bootstrap-server", "127.0.0.1:1", "--store", f"file://{tmp_path}/store"]
    for options, id_ in (
        (["--command-config", str(config)], "client-config-unreadable"),
        ([], "backup-missing"),
        (["--from-time", "2026-02-01T00:00:00Z", "--to-time", "2026-01-31T00:00:00Z"], "time-window-empty"),
        (["--unsigned-before", "2"], "option-required"),
        (["--trusted-key", str(config)], "key-file-unreadable"),
        (["--private-key", str(config)], "key-file-unreadable"),
        (["--restore-id", "a b"], "restore-id-invalid"),
        (["--instance", "newest"], "instance-invalid"),
        (["--topics", "a b"], "topic-name-invalid"),
        (["--topics", "a,a"], "topic-listed-twice"),
        (["--groups-pattern", "("], "pattern-invalid"),
        (["--groups-only", "--append"], "option-conflict"),
        (["--groups-only", "--instance", "passivate"], "option-conflict"),
        (["--acls-within", str(config)], "option-required"),
        (["--acls", "--acls-within", str(config)], "acl-file-unreadable"),
        (["--acls", "--acls-of", "a"], "option-required"),
        (["--mirror-command-config", str(config)], "option-required"),
        (["--task-principal", "restore-pro1"], "option-required"),
        (["--task-command-config", str(config)], "client-config-unreadable"),
        (["--groups-only", "--task-command-config", str(config)], "option-conflict"),
        (["--store", "ftp://host/store"], "store-url-invalid"),
        (["--report", f"{tmp_path}/store/report.json"], "usage-error"),  # there is no such folder yet
        (["--no-such-option"], "usage-error"),
    ):
        assert cli.main([*command, *options]) == 2
        assert printed(capsys.readouterr().err) == [id_], options
    (tmp_path / "store").mkdir()
    assert cli.main([*command, "--report", f"{tmp_path}/store/report.json"]) == 2
    assert printed(capsys.readouterr().err) == ["report-inside-store"]


def test_an_unusable_option_leaves_the_former_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("that of a former run")
    assert cli.main([*arguments("verify", tmp_path), "--report", str(report), "--snapshot", "x"]) == 2
    assert report.read_text() == "that of a former run"


def test_report_names_kind_of_landing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert cli.main([*arguments("land", tmp_path), "compact", "--report", str(report)]) == 2
    assert json.loads(report.read_text())["verb"] == "land compact"


def test_unwritable_report_does_not_hide_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def store(*_: object) -> None:
        raise Failed("report-not-writable", "There is no room.")

    monkeypatch.setattr(report_file, "_store", store)
    assert cli.main([*arguments("verify", tmp_path), "--report", str(tmp_path / "report.json")]) == 2
    assert printed(capsys.readouterr().err) == ["backup-missing", "report-not-writable"]


def test_refused_report_path_gets_no_report(tmp_path: Path) -> None:
    args = argparse.Namespace(report=tmp_path / "report.json")
    for id_ in ("report-inside-store", "report-not-writable"):
        report_file.write_error(args, "verify", datetime.now(UTC), Refused(id_, "It can't be."))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["snapshots", "--store", "file://{tmp}/none"], ["files", "list", "--backups", "{tmp}/none"]]
)
def test_json_on_stdout_has_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert cli.main([*(each.format(tmp=tmp_path) for each in command), "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["message"] in err
    assert error.keys() == {"id", "message"}
