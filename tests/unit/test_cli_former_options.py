"""Former names of options are accepted with one warning, on the command line and in files of `--config`."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.identifiers import assert_printed, raises

from aqueduct import cli
from aqueduct.cli import config_file, former_options
from aqueduct.common.former_options import RENAMED, RENAMED_OF, renamed
from aqueduct.errors import Refused
from aqueduct.link import options

VALUE = "kafka-1:9092"  # a list of brokers, the name of a file, and the name of a flow
# `reconcile --source` was for brokers, and for a store.
TWOFOLD = [
    ("reconcile", "--source", "--source-bootstrap-server", VALUE),
    ("reconcile", "--source", "--store", "s3://backup/pro1"),
]


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    children = config_file.subcommands(parser)
    for command in children.values():
        yield from commands(command)
    if not children:
        yield parser


def name(command: argparse.ArgumentParser) -> str:
    return command.prog.partition(" ")[2]


def renamings() -> Iterator[tuple[str, str, str, str]]:
    """Yield a command, a former name of one of its options, the present one, and a value."""
    for command in commands(cli.build_parser()):
        for former, present in renamed(name(command)).items():
            if present in command._option_string_actions:
                yield name(command), former, present, VALUE
    yield from TWOFOLD


RENAMINGS = list(renamings())


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs, of which none requires an option."""
    parser = cli.build_parser()
    for command in commands(parser):
        for group in command._mutually_exclusive_groups:
            group.required = False
        for action in command._actions:
            action.required = False
    return parser


def test_table_has_no_name_that_no_verb_has() -> None:
    in_use = {(verb, former) for verb, former, _, _ in RENAMINGS}
    assert {former for _, former in in_use} >= {*RENAMED}
    assert in_use >= {(verb, former) for verb, names in RENAMED_OF.items() for former in names}


@pytest.mark.parametrize(("verb", "former", "present", "value"), RENAMINGS)
def test_former_name_gives_the_same_option(
    parser: argparse.ArgumentParser, verb: str, former: str, present: str, value: str
) -> None:
    expected = parser.parse_args([*verb.split(), present, value])
    assert value in str(expected)
    assert parser.parse_args([*verb.split(), former, value]) == expected
    assert parser.parse_args([*verb.split(), f"{former}={value}"]) == expected


@pytest.mark.parametrize(("verb", "former", "present", "value"), RENAMINGS)
def test_former_name_prints_one_warning(
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    former: str,
    present: str,
    value: str,
) -> None:
    former_options.warn(parser, [*verb.split(), present, value])
    assert capsys.readouterr().err == ""
    former_options.warn(parser, [*verb.split(), f"{former}={value}", former, value])
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"aqueduct: [option-renamed] {former} is now ")
    assert present in warning


@pytest.mark.parametrize(
    ("verb", "former", "present", "value"),
    [renaming for renaming in RENAMINGS if not renaming[0].startswith("diode")],
)
def test_file_may_have_the_former_name(
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    verb: str,
    former: str,
    present: str,
    value: str,
) -> None:
    file = tmp_path / "options.yml"
    file.write_text(f"{former.removeprefix('--')}: {value}\n")
    arguments = config_file.expanded(parser, [*verb.split(), "--config", str(file)])
    assert arguments[-1] == f"{former}={value}"
    former_options.warn(parser, arguments)
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.startswith("aqueduct: [option-renamed] ")

    replaced = [*verb.split(), "--config", str(file), present, value]
    assert config_file.expanded(parser, replaced) == replaced  # the command line replaces it

    if (verb, former) != ("reconcile", "--source"):
        file.write_text(f"{former.removeprefix('--')}: {value}\n{present.removeprefix('--')}: {value}\n")
        with raises(Refused, "config-option-repeated", present.removeprefix("--"), "1"):
            config_file.expanded(parser, [*verb.split(), "--config", str(file)])


@pytest.mark.parametrize("command", [*commands(cli.build_parser())], ids=name)
def test_help_has_no_former_name(command: argparse.ArgumentParser) -> None:
    shown = {*re.findall(r"(?<![\w-])--[a-z][\w-]*", command.format_help())}
    own = {word for action in command._actions for word in action.option_strings}
    assert not shown & {*renamed(name(command))} - own


def test_current_option_of_another_verb_gives_no_warning(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("files backup", "import"):
        former_options.warn(parser, [*verb.split(), "--source", "/etc"])
    assert capsys.readouterr().err == ""


def test_run_warns_once_of_all_former_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["health", "--bootstrap-servers", VALUE, "--client-config", "/none"]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.startswith("aqueduct: [option-renamed] --bootstrap-servers is now --bootstrap-server, ")
    assert "--client-config is now --command-config" in warning
    assert error.startswith("aqueduct: [client-config-unreadable] ")


def test_link_options_may_have_the_former_name(tmp_path: Path) -> None:
    file, warnings = tmp_path / "link.yml", list[str]()
    present: dict[str, str] = {}
    for content, environment in (
        (f"bootstrap-servers: {VALUE}", present),
        ("", {"AQUEDUCT_DIODE_BOOTSTRAP_SERVERS": VALUE}),
    ):
        file.write_text(content)
        settings = options.build(options.Create, file, environment, {"topic": "gaps"}, warnings.append)
        assert settings.bootstrap_server == VALUE
    of_file, of_environment = warnings
    assert_printed(of_file, "option-renamed", file, "bootstrap-servers", "bootstrap-server")
    names = "AQUEDUCT_DIODE_BOOTSTRAP_SERVERS", "AQUEDUCT_DIODE_BOOTSTRAP_SERVER"
    assert_printed(of_environment, "option-renamed", *names)
