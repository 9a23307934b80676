import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct import cli
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.errors import ExitCode, Failed, Refused

Verb = Callable[[Callable[[Namespace], Any]], int]


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Call `aqueduct test`, a verb with the given `run`."""

    def call(run: Callable[[Namespace], Any]) -> int:
        module = Namespace(__doc__="What test does.", add_arguments=lambda parser: None, run=run)
        monkeypatch.setitem(sys.modules, "aqueduct.cli.test", module)
        monkeypatch.setitem(cli.VERBS, "test", "do nothing")
        return cli.main(["test"])

    return call


def raising(error: BaseException) -> Callable[[Namespace], Any]:
    def run(args: Namespace) -> None:
        raise error

    return run


def test_exit_code_of_the_verb(verb: Verb) -> None:
    assert verb(lambda args: ExitCode.INCOMPLETE) == 3


@pytest.mark.parametrize(("error", "code"), [(Failed("It broke."), 1), (Refused("It can't be."), 2)])
def test_errors_are_a_sentence(
    verb: Verb, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    assert verb(raising(error)) == code
    assert capsys.readouterr() == ("", f"aqueduct: {error}\n")


def test_interrupted(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ""


def test_a_mistake_of_ours_keeps_its_traceback(verb: Verb) -> None:
    with pytest.raises(ZeroDivisionError):
        verb(lambda args: 1 // 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: VERB; see aqueduct --help."),
        (["nonsense"], "argument VERB: invalid choice: 'nonsense'"),
        (["--nonsense", "health"], "unrecognized arguments: --nonsense; see aqueduct --help."),
    ],
)
def test_usage(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"aqueduct: [usage-error] {sentence}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", cli.VERBS)
def test_help_of_every_verb(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: aqueduct {name} ")


def test_a_reader_that_goes_away() -> None:
    """Run `aqueduct ... | head`: no traceback, also none when Python flushes stdout at its end."""
    program = (
        "import sys; from aqueduct import cli; from types import SimpleNamespace as module\n"
        "def run(args):\n"
        "    sys.stdin.read(); print('x' * 100_000); return 0\n"
        "sys.modules['aqueduct.cli.test'] = module(add_arguments=lambda parser: None, run=run)\n"
        "cli.VERBS['test'] = ''\n"
        "sys.exit(cli.main(['test']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (141, "")


def test_a_verb_imports_no_other() -> None:
    program = (
        "import sys; from aqueduct import cli\n"
        "try: cli.main(['health', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if 'spark' in name or 'confluent' in name], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stderr == "[]\n"


def test_missing_spark_error_names_package_to_install() -> None:
    with raises(Refused, "python-package-missing", "nowhere", "aqueduct-estate[spark]"), spark_packages():
        import_module("nowhere")
