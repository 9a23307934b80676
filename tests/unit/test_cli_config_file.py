"""`--config FILE` gives the same options as the command line, and refuses what can't be one."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies
from kit.identifiers import raises

from aqueduct import cli
from aqueduct.cli import config_file
from aqueduct.errors import Refused

PARSER = cli.build_parser()
TEXTS = strategies.text(strategies.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1)


def verbs(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of each verb, or of its commands, that reads a file by `config_file`."""
    commands = config_file.subcommands(parser)
    for word, command in commands.items():
        yield from verbs(command, (*words, word))
    if not commands and isinstance(parser._option_string_actions[config_file.OPTION], config_file._Expanded):
        yield words


VERBS = sorted(verbs(PARSER))


def options(words: tuple[str, ...]) -> dict[str, argparse.Action]:
    verb, _ = config_file.called_verb(PARSER, words)
    return {name.removeprefix("--"): action for name, action in config_file._long_options(verb)}


def expanded(words: tuple[str, ...], content: object, path: Path, *more: str) -> list[str]:
    """Return what the file adds to the command line; its values stand there as texts."""
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True))
    found = config_file.expanded(PARSER, [*words, "--config", str(path), *more])
    before = len(words) + 2 + len(more)
    assert found[:before] == [*words, "--config", str(path), *more]
    return found[before:]


def identifier(words: tuple[str, ...], content: str, path: Path) -> str:
    with pytest.raises(Refused) as caught:
        expanded(words, content, path)
    assert str(path) in str(caught.value)
    return caught.value.id


def test_every_verb_reads_a_file() -> None:
    own = {("diode", end) for end in ("upstream", "downstream", "create", "lost", "resend")}
    leaves = set(all_verbs(PARSER))
    assert leaves - set(VERBS) == own
    assert {words[0] for words in leaves} == set(cli.VERBS)


def all_verbs(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    commands = config_file.subcommands(parser)
    for word, command in commands.items():
        yield from all_verbs(command, (*words, word))
    if not commands:
        yield words


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_option_in_file_equals_command_line_option(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "options.yml"
    for name, action in options(words).items():
        if action.nargs == 0:
            assert expanded(words, {name: True}, file) == [f"--{name}"]
            off = [f"--no-{name}"] if isinstance(action, argparse.BooleanOptionalAction) else []
            if not name.startswith("no-") or not isinstance(action, argparse.BooleanOptionalAction):
                assert expanded(words, {name: False}, file) == off
            continue
        for text in ("1", "a", "a:9092", "2026-01-31", "90s", *map(str, action.choices or ())):
            if not config_file._problem(action, text):
                assert expanded(words, f"{name}: {text}", file) == [f"--{name}={text}"]
                assert expanded(words, f"{name}: {text}", file, f"--{name}={text}") == []
            else:
                assert identifier(words, f"{name}: {text}", file) == "config-value-invalid"


@given(value=TEXTS)
def test_a_text_arrives_as_it_is(value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("text") / "options.yml"
    assert expanded(("verify",), {"store": value}, file) == [f"--store={value}"]


def parsed(arguments: list[str]) -> dict[str, Any]:
    return vars(PARSER.parse_args(config_file.expanded(PARSER, arguments)))


def test_the_command_line_replaces_the_file(tmp_path: Path) -> None:
    file = tmp_path / "options.yml"
    file.write_text(
        "bootstrap-server: a:9092\nstore: file:///s\ntopics: [a, b]\nsegment-bytes: 08\nother-cluster: true\n"
    )
    by_file = parsed(["backup", "--config", str(file)])
    same = ("--bootstrap-server=a:9092", "--store=file:///s", "--topics=a,b", "--segment-bytes=8")
    by_line = parsed(["backup", *same, "--other-cluster", "--config", str(file)])
    assert by_file == by_line
    assert parsed(["backup", f"--config={file}", "--segment-bytes", "9"])["segment_bytes"] == 9
    # What the command line excludes goes, too.
    excluding = parsed(["backup", "--config", str(file), "--topics-pattern", "x.*"])
    assert (excluding["topics"], excluding["topics_pattern"] is None) == (None, False)


def test_a_list_repeats_an_option(tmp_path: Path) -> None:
    keys = expanded(("verify",), "trusted-key: [a.pem, b.pem]", tmp_path / "options.yml")
    assert keys == ["--trusted-key=a.pem", "--trusted-key=b.pem"]


def test_positions_and_what_follows_two_dashes_stay(tmp_path: Path) -> None:
    file = tmp_path / "options.yml"
    file.write_text("tables: a.b\n")
    assert config_file.expanded(PARSER, ["land", "--config", str(file), "--", "verify"])[3:] == [
        *("--tables=a.b", "--", "verify")
    ]


@pytest.mark.parametrize(
    ("content", "id_"),
    [
        ("stor: file:///s", "config-option-unknown"),
        ("config: other.yml", "config-option-unknown"),
        ("help: true", "config-option-unknown"),
        ("skip_verify: true", "config-option-unknown"),
        ("store: a\nstore: b", "config-option-repeated"),
        ("store:", "config-value-invalid"),
        ("store: {a: b}", "config-value-invalid"),
        ("store: [a, 'b,c']", "config-value-invalid"),
        ("topics: [[a], b]", "config-value-invalid"),
        ("no-groups: maybe", "config-value-invalid"),
        ("no-groups: [true]", "config-value-invalid"),
        ("snapshot: -1", "config-value-invalid"),
        ("snapshot: 1.5", "config-value-invalid"),
        ("- store", "config-file-invalid"),
        ("store", "config-file-invalid"),
        ("store: [a", "config-file-invalid"),
        ("store: \x00", "config-file-invalid"),
        ("store: " + "[" * 3000, "config-file-invalid"),
        ("? [a]\n: b", "config-file-invalid"),
        ('store: "a\\0b"', "config-value-invalid"),
        ('store: "a\\ud800"', "config-value-invalid"),
        ("store: |\n  file:///s\n", "config-value-invalid"),
        ("store: !ENV a", "config-value-invalid"),
        ("store: !!binary aGk=", "config-value-invalid"),
        ("store: [a]", "config-value-invalid"),
        ("trusted-key: []", "config-value-invalid"),
        ("settings: true\nno-settings: true", "config-option-repeated"),
        ('"st\\nore": a', "config-option-unknown"),
    ],
)
def test_what_cannot_be_an_option_is_refused(content: str, id_: str, tmp_path: Path) -> None:
    assert identifier(("restore",), content, tmp_path / "options.yml") == id_


def test_setting_enabled_by_default_can_be_disabled(tmp_path: Path) -> None:
    for content, word in (
        ("settings: false", "--no-settings"),
        ("no-settings: true", "--no-settings"),
        ("no-settings: false", "--settings"),
        ("settings: true", "--settings"),
    ):
        assert expanded(("restore",), content, tmp_path / "options.yml") == [word]


def test_where_the_option_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "options.yml"
    file.write_text("stor: x\n")
    for argv in (
        ["--config", str(file), "verify"],
        ["doctor", "--config", str(file), "connect"],
        ["verify", "--config", str(file), "--config", str(file)],
    ):
        assert cli.main(argv) == 2
        assert capsys.readouterr().err.startswith("aqueduct: [usage-error] --config ")
    with pytest.raises(SystemExit, match="0"):
        cli.main(["verify", "--config", str(file), "--help"])


def test_a_value_that_is_replaced_need_not_fit(tmp_path: Path) -> None:
    assert expanded(("restore",), "snapshot: newest", tmp_path / "options.yml", "--snapshot=3") == []


def test_a_near_option_is_proposed(tmp_path: Path) -> None:
    names = ("skip_verify", "skip-verify")
    with raises(Refused, "config-option-unknown", tmp_path / "options.yml", "line 1", *names):
        expanded(("restore",), "skip_verify: true", tmp_path / "options.yml")


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.yml").write_bytes(b"store: \xe9")
    for file in ("absent.yml", ".", "latin.yml"):
        assert cli.main(["verify", "--config", str(tmp_path / file)]) == 2
        assert capsys.readouterr().err.startswith("aqueduct: [config-file-unreadable] ")
    assert cli.main(["verify", "--config"]) == 2
    assert capsys.readouterr().err.startswith("aqueduct: [usage-error] ")


def test_an_abbreviated_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--stor", "file:///s"]) == 2
    assert capsys.readouterr().err.startswith("aqueduct: [usage-error] ")
