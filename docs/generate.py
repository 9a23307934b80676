"""Writes the pages of docs/ and the parts of roles that are made from the code; script/docs runs it."""

import argparse
import ast
import io
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any
from unittest.mock import patch

import jinja2
import yaml

from aqueduct.cli import build_parser
from aqueduct.cli.config_file import called_verb
from aqueduct.estate import acls
from aqueduct.estate.connectors import DeclaredConnector
from aqueduct.estate.links import Link
from aqueduct.estate.model import Flow
from aqueduct.messages import MESSAGES
from aqueduct.messages.message import Area

ROOT = Path(__file__).resolve().parents[1]
ENDLESS = 10_000  # columns: nothing is wrapped

Json = Mapping[str, Any]
SPECS = "meta/argument_specs.yml"


@dataclass(frozen=True, kw_only=True)
class PassedOptions:
    """A variable of a role whose keys are options of a verb. Their types and descriptions are the verb's."""

    variable: str
    verb: str
    mappings: tuple[str, ...]  # internal variables of the role with the options that it sets itself
    others: frozenset[str]  # options that units, playbooks or other roles set, or that are for one run

    @property
    def begin(self) -> str:
        return f"        # {self.variable}: made by script/docs from the options of `aqueduct {self.verb}`.\n"

    @property
    def end(self) -> str:
        return f"        # {self.variable}: end of this part.\n"


PASSED_OPTIONS = {
    "backup": PassedOptions(
        variable="backup_options",
        verb="backup",
        mappings=("_backup_store_options", "_backup_options"),
        others=frozenset(
            {
                *("conf", "every", "json", "master", "metrics-port", "other-cluster", "past-damage", "quiet"),
                *("report", "wait"),
            }
        ),
    )
}


@cache
def pages() -> Mapping[Path, str]:
    """Return each generated page's path with its content."""
    return {
        ROOT / "docs/roles.md": "\n\n".join(roles_page()) + "\n",
        ROOT / "docs/cli.md": "\n\n".join(cli_page()) + "\n",
        ROOT / "docs/steps.md": "\n\n".join(steps_page()) + "\n",
        ROOT / "docs/messages.md": "\n\n".join(messages_page()) + "\n",
        **{ROOT / "roles" / name / SPECS: specs_text(ROOT / "roles" / name) for name in PASSED_OPTIONS},
        **{
            folder / "README.md": "\n\n".join(role_readme(folder)) + "\n"
            for folder in sorted(ROOT.glob("roles/*"))
        },
    }


def roles_page() -> Iterator[str]:
    yield "# Variables of the roles"
    yield (
        "Made by `script/docs` from `roles/<role>/meta/argument_specs.yml` and the defaults of each role.\n"
        "A template (`{{ }}`) is evaluated for each host. "
        "[Describe the estate in an inventory](guides/inventory.md) explains where to set variables."
    )
    for specs in sorted(ROOT.glob(f"roles/*/{SPECS}")):
        yield from role(specs.parents[1])


def role(folder: Path) -> Iterator[str]:
    entry_point = specification(folder)
    yield f"## {folder.name}"
    yield f"{entry_point['short_description']}."
    yield from described_variables(folder)


def described_variables(folder: Path) -> Iterator[str]:
    """Yield a role's variables; a role of entry points alone has none."""
    if options := specification(folder)["options"]:
        yield from variables(options, read(folder / "defaults/main.yml"))
    else:
        yield "It has no variables of its own."


def specification(folder: Path) -> dict[str, Any]:
    [entry_point] = yaml.safe_load(specs_text(folder))["argument_specs"].values()
    return dict(entry_point)


@cache
def specs_text(folder: Path) -> str:
    """Return a role's argument_specs, in which the options that it passes on are those of the verb."""
    text = (folder / SPECS).read_text()
    if folder.name not in PASSED_OPTIONS:
        return text
    passed = PASSED_OPTIONS[folder.name]
    before, begin, rest = text.partition(passed.begin)
    _, end, after = rest.partition(passed.end)
    if not end:
        raise ValueError(f"{folder / SPECS} has no lines {passed.begin!r} and {passed.end!r}")
    variables = read(folder / "vars/main.yml")
    own = {key for name in passed.mappings for key in variables[name]}
    lines = option_specs(called_verb(build_parser(), [passed.verb])[0], own | passed.others)
    return before + begin + indent("\n".join(("options:", *lines)) + "\n", " " * 8) + end + after


def option_specs(verb: argparse.ArgumentParser, without: Collection[str]) -> Iterator[str]:
    """Yield the lines of `options:` for a verb's long options."""
    for action in verb._actions:
        names = [word.removeprefix("--") for word in action.option_strings if word.startswith("--")]
        if not names or action.help == argparse.SUPPRESS or {"help", "config", *without} & {*names}:
            continue
        text = " ".join(str(action.help).replace("%%", "%").split())
        yield f"  {names[0]}:"
        yield f"    description: {json.dumps(text[0].upper() + text[1:] + '.', ensure_ascii=False)}"
        yield f"    type: {option_type(action)}"
        if option_type(action) == "list":
            yield "    elements: str"
        elif action.choices:
            yield f"    choices: {json.dumps([*action.choices])}"


def option_type(action: argparse.Action) -> str:
    """Return the type in argument_specs of the values that an option accepts."""
    if action.nargs == 0:
        return "bool"
    if isinstance(action, argparse._AppendAction) or "," in str(action.metavar):
        return "list"
    try:
        value = action.type("1") if callable(action.type) else "1"
    except (argparse.ArgumentTypeError, ValueError):
        value = "1"  # such as a duration
    return {int: "int", float: "float"}.get(type(value), "str")


def role_readme(folder: Path) -> Iterator[str]:
    """Yield the page that Galaxy and a collection's users see."""
    yield f"# aqueduct.estate.{folder.name}"
    internal = not (folder / SPECS).exists()
    yield f"{purpose(folder.name) if internal else specification(folder)['short_description']}."
    if found := playbooks_of(folder.name):
        yield f"Playbooks: {', '.join(f'`aqueduct.estate.{name}`' for name in found)}."
    if needed := dependencies(folder):
        links = ", ".join(f"[{name}](../{name}/README.md)" for name in needed)
        yield f"Its variables refer to those of {links}."
    if internal:
        yield "It is internal, and has no variables."
        return
    text = "\n\n".join(described_variables(folder))
    yield "## Variables"
    yield text.replace("](guides/", "](../../docs/guides/")
    yield "Made by `script/docs` from `meta/argument_specs.yml` and `defaults/main.yml`."


def dependencies(folder: Path) -> list[str]:
    """Return the roles whose variables a role has: its dependencies, and those that its tasks import."""
    meta = folder / "meta/main.yml"
    names = [short(each["role"]) for each in read(meta)["dependencies"]] if meta.exists() else []
    imported = [
        short(role["name"])
        for file in sorted(folder.glob("tasks/*.yml"))
        for task in yaml.safe_load(file.read_text()) or ()
        if (role := task.get("ansible.builtin.import_role")) and role.get("tasks_from") == "variables"
    ]
    return [*dict.fromkeys([*names, *imported])]


def purpose(name: str) -> str:
    """Return what docs/architecture.md says of a role."""
    rows = (ROOT / "docs/architecture.md").read_text().splitlines()
    [row] = (row for row in rows if row.startswith(f"| `{name}` |"))
    text = row.split("|")[2].strip()
    return text[0].upper() + text[1:]


def playbooks_of(name: str) -> list[str]:
    """Return the playbooks that name a role themselves, not by an import."""
    return [playbook for playbook, roles in roles_of_playbooks().items() if name in roles]


@cache
def roles_of_playbooks() -> Mapping[str, frozenset[str]]:
    paths = sorted(ROOT.glob("playbooks/*.yml"))
    return {path.stem: frozenset(roles_of(yaml.safe_load(path.read_text()))) for path in paths}


def variables(options: Json, defaults: Json) -> Iterator[str]:
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
    """Name an option's type: `int`, `list of str`, or its choices."""
    choices = ", ".join(f"`{choice}`" for choice in option.get("choices", ()))
    if option["type"] == "list":
        return f"list of {choices or option['elements']}"
    return f"one of {choices}" if choices else str(option["type"])


def default(name: str, option: Json, defaults: Json) -> str:
    if option.get("required"):
        return "none: every host sets it"
    return f"`{yaml_line(defaults[name])}`"


def yaml_line(value: object) -> str:
    """Write a value as it can be copied into an inventory."""
    line = yaml.safe_dump([value], default_flow_style=True, sort_keys=False, width=ENDLESS).strip()[1:-1]
    return json.dumps(value) if isinstance(value, str) and line != value else line


def meaning(option: Json) -> str:
    return " ".join(option["description"].split())


def table(rows: list[list[str]]) -> str:
    head, *body = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def cli_page() -> Iterator[str]:
    yield "# The command line"
    yield (
        "Made by `script/docs` from `--help`. Exit codes: 0 done; 1 failed; 2 refused; 3 incomplete or "
        "unequal."
    )
    yield (
        "Each command can read its options from a YAML file: `--config FILE`, written after the command's "
        "name. A key is a long option without the leading `--`. A switch has the value `true` or `false`. "
        "Several values are a list. An option on the command line replaces the same option in the file. "
        "Unknown keys are refused. `aqueduct diode upstream`, `downstream`, `create` and `resend` also take "
        "`.properties`."
    )
    example = "bootstrap-server: localhost:9092\nstore: s3://backup/pro1\ntopics: [orders, payments]"
    yield f"```yaml\n{example}\n```"
    parser = build_parser()
    for command in commands(parser):
        usage, _, rest = command_help(parser, command).partition("\n\n")
        yield f"## {command}"
        yield f"`{usage.removeprefix('usage: ')}`"
        yield f"```text\n{rest.rstrip()}\n```"


def commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield `aqueduct`, `aqueduct VERB`, `aqueduct VERB COMMAND`."""
    yield parser.prog
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from commands(each)


def command_help(parser: argparse.ArgumentParser, command: str) -> str:
    """Return what the command prints with --help, unwrapped: each version of Python wraps in its own way."""
    with (
        redirect_stdout(io.StringIO()) as printed,
        patch.dict(os.environ, COLUMNS=str(ENDLESS)),
        suppress(SystemExit),
    ):
        parser.parse_args([*command.split()[1:], "--help"])
    return printed.getvalue()


def steps_page() -> Iterator[str]:
    yield "# Steps, principals and scenarios"
    yield (
        "This page shows what a deployment does in which order, which ACLs it grants, and what the\n"
        "scenarios test. Made by `script/docs` from playbooks, `aqueduct/estate/acls.py` and the scenarios."
    )
    yield "## What `playbooks/site.yml` does"
    rows = [[str(number), *row] for number, row in enumerate(plays(ROOT / "playbooks/site.yml"), 1)]
    yield "To deploy one capability only, run its playbook, such as `playbooks/kafka.yml`."
    yield table([["step", "what", "playbook", "hosts", "roles"], *rows])
    yield "## What each service may do"
    yield (
        "`playbooks/kafka.yml` grants each principal the ACLs that its work needs. Kafka\n"
        "denies everything else. This example shows the ACLs of an estate that has:"
    )
    yield (
        "- a mirror of topic `flights` and groups `billing-.*` from `pro1` to `dwpro1`\n"
        "- a backup and monitoring of `pro1`, and a drill at `dwpro1` that reads it\n"
        "- a link of `flights` from `pro1` to `enclave1`\n"
        "- a sink connector `to-files`, a landing and a schema registry at `dwpro1`\n"
        "- a classic mirror of `flights` from `old1` to `lake1`"
    )
    yield (
        "`NAME*` means all resources whose names begin with `NAME` (a prefixed ACL).\n"
        "`*` means all resources. `kafka-<site>` and `admin` are super users, so they have no ACLs."
    )
    yield table([["principal", "at", "resource", "operations"], *map(list, rights())])
    yield "## Scenarios"
    yield (
        "A scenario tests Aqueduct on real clusters in containers, with injected faults. "
        "Run it with `script/scenario NAME`."
    )
    yield table([["scenario", "tests", "result"], *scenarios()])


def messages_page() -> Iterator[str]:
    yield "# Messages"
    yield (
        "Made by `script/docs` from `aqueduct/messages/`.\n"
        "Errors, warnings, findings and skipped items have a stable identifier. It is printed in brackets\n"
        "before the sentence, and it is `id` in JSON. In scripts, match the identifier, not the sentence."
    )
    for area in Area:
        yield f"## {area.title}"
        yield f"Verbs: {area.verbs}."
        rows = sorted(
            [f"`{each.id}`", each.meaning, each.fix] for each in MESSAGES.values() if each.area is area
        )
        yield table([["id", "meaning", "fix"], *rows])


def plays(path: Path, given: Mapping[str, str] | None = None) -> Iterator[list[str]]:
    """Yield name, file, hosts and roles of each play that a playbook runs, in order; not those for no host.

    `given` are the variables that the import of the playbook sets: the outermost import wins.
    """
    for play in yaml.safe_load(path.read_text()):
        if imported := play.get("ansible.builtin.import_playbook"):
            variables = play.get("vars", {}).items()
            own = {name: jinja2.Template(value).render(given or {}) for name, value in variables}
            yield from plays(path.parent / imported, {**own, **(given or {})})
            continue
        hosts = jinja2.Template(play["hosts"]).render(given or {})
        if hosts == "!all":
            continue
        hosts = hosts.replace(":", ", ") + (", one by one" if play.get("serial") == 1 else "")
        roles = ", ".join(f"`{name}`" for name in dict.fromkeys(roles_of(play)))
        yield [play["name"], f"`{path.relative_to(ROOT)}`", hosts, roles]


def roles_of(node: Any) -> Iterator[str]:
    """Yield the roles that a play names, or a task at any depth, without the collection's name."""
    if isinstance(node, list):
        for each in node:
            yield from roles_of(each)
    elif isinstance(node, dict):
        for role in node.get("roles", ()):
            yield short(role if isinstance(role, str) else role["role"])
        for key, value in node.items():
            if key in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
                yield short(value["name"])
            yield from roles_of(value)


def short(name: str) -> str:
    """Return the name of a role without its collection's."""
    return name.rpartition(".")[2]


def rights() -> Iterator[tuple[str, str, str, str]]:
    """Yield principal, site, resource and operations of a small estate's ACLs."""
    flow = Flow(source="pro1", target="dwpro1", topics=("flights",), groups=("billing-.*",))
    classic = Flow(source="old1", target="lake1", topics=("flights",), engine="classic")
    link = Link(source="pro1", target="enclave1", number=1, topics=("flights",))
    sink = DeclaredConnector(name="to-files", config={"topics": "flights"})
    by_site = {
        "pro1": [
            *acls.flow_acls("pro1", [flow]),
            *acls.backup_acls("pro1"),
            *acls.drill_acls(["dwpro1"]),
            *acls.link_acls("pro1", (), [link]),
            *acls.monitoring_acls(["pro1"]),
        ],
        "dwpro1": [
            *acls.flow_acls("dwpro1", [flow]),
            *acls.connect_acls("dwpro1", [sink]),
            *acls.land_acls("dwpro1", ["flights"]),
            *acls.schema_registry_acls("dwpro1"),
        ],
        "enclave1": acls.link_acls("enclave1", (link,), ()),
        "old1": acls.flow_acls("old1", [classic]),
        "lake1": acls.flow_acls("lake1", [classic]),
    }
    for site, found in by_site.items():
        for acl in found:
            name = f"{acl.name}*" if acl.pattern == "prefixed" else acl.name
            operations = ", ".join(acl.operations)
            yield f"`{acl.principal}`", site, f"{acl.resource.replace('_', ' ')} `{name}`", operations


def scenarios() -> Iterator[list[str]]:
    """Yield a scenario, a file of its tests and the first line of that file's docstring."""
    for tests in sorted(ROOT.glob("molecule/*/tests")):
        name = tests.parent.name
        for path in sorted(tests.glob("test_*.py"), key=lambda path: (name not in path.name, path.name)):
            proof = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
            yield [f"`{name}`", f"`{path.name}`", proof]


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


if __name__ == "__main__":
    for path, content in pages().items():
        path.write_text(content)
