"""Options of a verb from a file of YAML: `--config FILE`.

The keys are the verb's long options without their dashes. An option of the command line replaces that of
the file.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqueduct.common.wording import shown
from aqueduct.errors import Refused

if TYPE_CHECKING:
    from yaml import Node

OPTION = "--config"
FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value", "seq")}
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")  # no command line has them, but for a tab


class _Expanded(argparse.Action):
    """`--config`, when the options of its file stand on the command line already."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, _: Any = None) -> None:
        setattr(namespace, self.dest, values)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--config` to a verb, or to each of its commands that has none of its own."""
    commands = subcommands(parser)
    for command in commands.values():
        add_option(command)
    if not commands and OPTION not in parser._option_string_actions:
        help_ = "YAML file with options; an option on the command line replaces the one in the file"
        parser.add_argument(OPTION, metavar="FILE", action=_Expanded, help=help_)


def expanded(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the options of the file that `--config` names; Refused if it can't be used.

    `parser`: of all verbs. Its checks then hold for the file's options, too.
    """
    verb, own = called_verb(parser, arguments)
    if subcommands(verb) and own and own[0].partition("=")[0] == OPTION:
        raise Refused(
            "usage-error", f"{OPTION} must come after the verb and its command; see {verb.prog} --help."
        )
    if not isinstance(verb._option_string_actions.get(OPTION), _Expanded):
        return [*arguments]
    finder = argparse.ArgumentParser(prog=verb.prog, add_help=False, allow_abbrev=False)
    finder.error = verb.error  # type: ignore[method-assign] # refuses as the verb does
    finder.add_argument(OPTION, type=Path, action="append", default=[])
    files = finder.parse_known_args(own)[0].config
    if not files or {"-h", "--help"} & {*own}:
        return [*arguments]
    if len(files) > 1:
        raise Refused("usage-error", f"{OPTION} is given twice. Remove one.")
    options = list(_options(files[0], verb, given={word.partition("=")[0] for word in own}))
    end = len(arguments) - (len(own) - own.index("--") if "--" in own else 0)
    return [*arguments[:end], *options, *arguments[end:]]


def _options(file: Path, verb: argparse.ArgumentParser, given: set[str]) -> Iterator[str]:
    """Yield a file's options as words of a command line, without those that the command line replaces.

    `given`: the options of the command line. They also replace what they exclude.
    """
    present = {word.removeprefix("--"): action for word, action in _long_options(verb)}
    actions = present | {
        word.removeprefix("--"): action
        for word, action in verb._option_string_actions.items()
        if word not in action.option_strings  # a former name
    }
    replaced = [action for word, action in verb._option_string_actions.items() if word in given]
    for group in verb._mutually_exclusive_groups:
        if any(action in group._group_actions for action in replaced):
            replaced += group._group_actions
    lines: dict[argparse.Action, int] = {}
    for key, value in _entries(file):
        name, where = shown(key.value), f"{file}, line {key.start_mark.line + 1}"
        if name not in actions:
            close = get_close_matches(name.replace("_", "-"), present, n=1, cutoff=0.7)
            remedy = f"did you mean {close[0]}?" if close else f"see {verb.prog} --help."
            raise Refused("config-option-unknown", f"{where}: {name} is not an option; {remedy}")
        action = actions[name]
        if action in lines:
            raise Refused(
                "config-option-repeated", f"{where}: {name} is already in line {lines[action]}. Remove one."
            )
        lines[action] = key.start_mark.line + 1
        if action not in replaced:
            yield from _words(name, action, value, where)


def _long_options(verb: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for word, action in verb._option_string_actions.items():
        if word.startswith("--") and word not in (OPTION, "--help") and word in action.option_strings:
            yield word, action


def _entries(file: Path) -> "list[tuple[Node, Node]]":
    """Return keys and values with their lines; no value is converted: 2026-01-31 stays a text."""
    import yaml  # a tenth of a second, which verbs without a file don't wait for

    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise Refused("config-file-unreadable", f"Cannot read {OPTION} {file}: {reason}.") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f", line {mark.line + 1}" if mark else ""
        reason = problem or str(error).splitlines()[0]
        raise Refused("config-file-invalid", f"{file}{line} is not YAML: {reason}.") from None
    except RecursionError:
        raise Refused(
            "config-file-invalid", f"{file} is nested too deeply; write lines `option: value`."
        ) from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode) or not all(
        isinstance(key, yaml.ScalarNode) for key, _ in root.value
    ):
        raise Refused("config-file-invalid", f"{file} must be a mapping; write lines `option: value`.")
    return list(root.value)


def _words(name: str, action: argparse.Action, node: "Node", where: str) -> list[str]:
    """Return an option of the file as words of a command line; Refused if it can't have that value."""
    import yaml

    if action.nargs == 0:
        if (on := FLAGS.get(str(node.value).lower())) is None:
            raise Refused("config-value-invalid", f"{where}: {name} is a switch; write true or false.")
        if isinstance(action, argparse.BooleanOptionalAction):  # its default may be true
            return [action.option_strings[on == name.startswith("no-")]]
        return [f"--{name}"] if on else []
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not nodes or any(
        not isinstance(child, yaml.ScalarNode) or child.tag.endswith(":null") for child in nodes
    ):
        raise Refused("config-value-invalid", f"{where}: {name} needs a value, or a list of values.")
    if foreign := {child.tag for child in (node, *nodes)} - PLAIN:
        tag = shown(min(foreign))
        raise Refused("config-value-invalid", f"{where}: {name} has the tag {tag}, which is not supported.")
    values = [str(child.value) for child in nodes]
    if not isinstance(action, argparse._AppendAction):
        if isinstance(node, yaml.SequenceNode) and "," not in str(action.metavar):
            raise Refused("config-value-invalid", f"{where}: {name} accepts one value, not a list.")
        if len(values) > 1 and any("," in value for value in values):
            raise Refused("config-value-invalid", f"{where}: a value in the list {name} contains a comma.")
        values = [",".join(values)]
    for value in values:
        if problem := _problem(action, value):
            raise Refused("config-value-invalid", f"{where}: {name}: {problem}.")
    return [f"--{name}={value}" for value in values]


def _problem(action: argparse.Action, text: str) -> str:
    """Say why a command line would not take a value, while the line of the file is known."""
    if CONTROL.search(text):
        return "its value has a line break or a control character"
    convert: Callable[[str], Any] = action.type if callable(action.type) else str
    try:
        value = convert(text)
    except argparse.ArgumentTypeError as error:
        return str(error).rstrip(".")
    except (TypeError, ValueError):
        return f"{text!r} is not a valid value"
    if action.choices is None or value in action.choices:
        return ""
    return f"{text!r} is none of {', '.join(map(str, action.choices))}"


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def called_verb(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> tuple[argparse.ArgumentParser, list[str]]:
    """Return the parser of the verb, or of its command, and the arguments after its name."""
    own = [*arguments]
    while own and own[0] in (commands := subcommands(parser)):
        parser = commands[own.pop(0)]
    return parser, own
