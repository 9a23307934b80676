"""Writes the pages of docs/ that are made from the code; script/docs runs it."""

import argparse
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from aqueduct.cli import build_parser

ROOT = Path(__file__).resolve().parents[1]
ENDLESS = 10_000  # columns: nothing is wrapped

Json = Mapping[str, Any]


def pages() -> dict[Path, str]:
    """Each page, and what it must hold."""
    return {
        ROOT / "docs/roles.md": "\n\n".join(roles_page()) + "\n",
        ROOT / "docs/cli.md": "\n\n".join(cli_page()) + "\n",
    }


def roles_page() -> Iterator[str]:
    yield "# Variables of the roles"
    yield (
        "Made by `script/docs` from each role's `meta/argument_specs.yml` and `defaults/main.yml`.\n"
        "A template (`{{ }}`) is evaluated for each host. "
        "[The inventory's guide](guides/inventory.md) tells where to set what."
    )
    for specs in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        yield from role(specs.parents[1])


def role(folder: Path) -> Iterator[str]:
    [entry_point] = read(folder / "meta/argument_specs.yml")["argument_specs"].values()
    defaults = read(folder / "defaults/main.yml")
    options = entry_point["options"]
    yield f"## {folder.name}"
    yield f"{entry_point['short_description']}."
    rows = [
        [f"`{name}`", kind(option), default(name, option, defaults), meaning(option)]
        for name, option in options.items()
    ]
    yield table([["variable", "type", "default", "meaning"], *rows])
    for name, option in options.items():
        if "options" in option:
            yield f"Each item of `{name}` has:" if option["type"] == "list" else f"`{name}` has:"
            yield "\n".join(keys(option["options"]))


def keys(options: Json) -> Iterator[str]:
    for name, option in options.items():
        required = ", required" if option.get("required") else ""
        yield f"- `{name}` ({kind(option)}{required}): {meaning(option)}"


def kind(option: Json) -> str:
    """`int`; `list of str`; where there are choices, these."""
    choices = ", ".join(f"`{choice}`" for choice in option.get("choices", ()))
    if option["type"] == "list":
        return f"list of {choices or option['elements']}"
    return f"one of {choices}" if choices else str(option["type"])


def default(name: str, option: Json, defaults: Json) -> str:
    if option.get("required"):
        return "none: every host sets it"
    return f"`{yaml_line(defaults[name])}`"


def yaml_line(value: object) -> str:
    """A value as it can be copied into an inventory."""
    line = yaml.safe_dump([value], default_flow_style=True, sort_keys=False, width=ENDLESS).strip()[1:-1]
    return json.dumps(value) if isinstance(value, str) and line != value else line


def meaning(option: Json) -> str:
    return " ".join(option["description"].split())


def table(rows: list[list[str]]) -> str:
    head, *body = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def cli_page() -> Iterator[str]:
    yield "# The command line"
    yield "Made by `script/docs` from what `--help` says. Exit codes: 0 done; 1 failed; 2 refused; 3 unequal."
    for command in commands(build_parser()):
        usage, _, rest = command_help(command).partition("\n\n")
        yield f"## {command}"
        yield f"`{usage.removeprefix('usage: ')}`"
        yield f"```text\n{rest.rstrip()}\n```"


def commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """`aqueduct`, `aqueduct VERB`, `aqueduct VERB COMMAND`."""
    yield parser.prog
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from commands(each)


def command_help(command: str) -> str:
    """What the command prints with --help, unwrapped: every version of Python wraps otherwise."""
    parser = build_parser()
    with (
        redirect_stdout(io.StringIO()) as printed,
        patch.dict(os.environ, COLUMNS=str(ENDLESS)),
        suppress(SystemExit),
    ):
        parser.parse_args([*command.split()[1:], "--help"])
    return printed.getvalue()


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


if __name__ == "__main__":
    for path, content in pages().items():
        path.write_text(content)
