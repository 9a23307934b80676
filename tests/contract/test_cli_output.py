"""What every verb that reports prints on standard output: text, JSON, or nothing if all is well."""

import argparse
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct import cli
from aqueduct.cli import output
from aqueduct.work.progress import TASKS, Progress, hidden, note

STORE = Path(__file__).parents[1] / "store" / "format_1"


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of verbs without commands, and of commands."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in actions:
        for command in action.choices.values():
            yield from commands(command)
    if not actions:
        yield parser


PARSERS = {parser.prog.removeprefix("aqueduct "): parser for parser in commands(cli.build_parser())}
REPORTING = [name for name, parser in PARSERS.items() if "--report" in parser._option_string_actions]


@pytest.mark.parametrize("command", REPORTING)
def test_reporting_command_has_json_option(command: str) -> None:
    assert "--json" in PARSERS[command]._option_string_actions


def test_a_command_that_reports_can_be_quiet() -> None:
    reporting = {name for name, parser in PARSERS.items() if "--json" in parser._option_string_actions}
    quiet = {name for name, parser in PARSERS.items() if "--quiet" in parser._option_string_actions}
    assert quiet == reporting > {*REPORTING}


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    store = shutil.copytree(STORE, tmp_path / "store")
    sorted(store.glob("topics/flights/0/*.log"))[0].unlink()
    return store.as_uri()


def test_json_is_the_report_instead_of_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    assert cli.main(["verify", "--store", STORE.as_uri(), "--json", "--report", str(file)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads(file.read_text())
    assert (report["verb"], report["exit_code"]) == ("verify", 0)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_quiet_prints_nothing_if_all_is_well(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("verify", "snapshots"):
        assert cli.main([verb, "--store", STORE.as_uri(), "--quiet", *options]) == 0
        assert capsys.readouterr() == ("", "")


def test_quiet_prints_findings(damaged: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--store", damaged]) == 1
    loud = capsys.readouterr()
    assert cli.main(["verify", "--store", damaged, "--quiet"]) == 1
    quiet = capsys.readouterr()
    assert len(quiet.out.splitlines()) == len(loud.out.splitlines()) > 0
    assert cli.main(["verify", "--store", damaged, "--quiet", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 1


def test_quiet_prints_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--store", f"{tmp_path.as_uri()}/none", "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "[backup-missing]" in err


def test_quiet_service_prints_only_incomplete_rounds() -> None:
    stream = io.StringIO()
    rounds = output.Output(stream, is_quiet=True)
    for code, text in ((0, "well"), (3, "skipped"), (0, "well")):
        print(text, file=rounds.stream)
        rounds.end(code)
    assert stream.getvalue() == "skipped\n"


def test_interrupted_quiet_run_prints_held_output(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        print("the first half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), output.of_run(argparse.Namespace(quiet=True)):
        interrupted()
    assert capsys.readouterr().out == "the first half\n"


def test_a_quiet_run_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with hidden():
        note("Reading 2 partitions.")
        Progress([1, 2], TASKS).tell(1, 1)
    assert capsys.readouterr().err == ""


RUNS = """
import sys
from aqueduct import cli
from aqueduct.work.progress import TASKS, Progress
store, *commands = sys.argv[1:]
for command in commands:
    try:
        cli.main([*command.split(), "--help"])
    except SystemExit:
        pass
for arguments in (["snapshots"], ["verify"], ["verify", "--quiet"]):
    cli.main([*arguments, "--store", store])
    cli.main([*arguments, "--store", store + "/none"])
Progress([1, 2], TASKS).tell(1, 1)
"""
COLOURED = "import sys; print('\\x1b[31mred', sys.stdout.isatty())"


def on_a_terminal(*command: str, **environment: str) -> str:
    """Run a command whose standard output and error are a terminal; return what it wrote there."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=end, stderr=end, env=os.environ | environment
    )
    os.close(end)
    written = b""
    with io.FileIO(terminal) as reader:
        try:
            while part := reader.read(1 << 16):
                written += part
        except OSError:  # the other end is closed: the process has ended
            pass
    assert process.wait() == 0, written
    return written.decode()


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}])
def test_nothing_is_coloured_on_a_terminal(environment: dict[str, str]) -> None:
    """Escape sequences that set colours end with m; a progress bar clears its line with another one."""
    probe = on_a_terminal(sys.executable, "-c", COLOURED)
    assert re.findall(r"\x1b\[[\d;]*m", probe) == ["\x1b[31m"]
    assert "True" in probe
    runs = (sys.executable, "-c", RUNS, STORE.as_uri(), *PARSERS)
    written = on_a_terminal(*runs, TERM="xterm-256color", **environment)
    assert written.count("usage: aqueduct ") >= len(PARSERS)
    assert "\x1b[K[######" in written  # the progress bar
    assert "[backup-missing]" in written
    assert re.findall(r"\x1b\[[\d;]*m", written) == []


def into_a_pipe(*command: str, **environment: str) -> str:
    """Run a command whose standard output and error are one pipe; return what it wrote there."""
    return subprocess.run(
        command,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    ).stdout.decode()


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}])
def test_nothing_in_a_pipe_is_an_escape_sequence(environment: dict[str, str]) -> None:
    assert "\x1b[31m" in into_a_pipe(sys.executable, "-c", COLOURED)
    runs = (sys.executable, "-c", RUNS, STORE.as_uri(), *PARSERS)
    written = into_a_pipe(*runs, TERM="xterm-256color", **environment)
    assert written.count("usage: aqueduct ") >= len(PARSERS)
    assert "[backup-missing]" in written
    assert "1 of 2 tasks done" in written
    assert re.findall(r"[\x1b\x9b\r\x08]", written) == []
