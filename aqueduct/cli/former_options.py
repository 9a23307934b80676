"""Former names of options, which command lines and files of `--config` may still have."""

import argparse
import sys
from collections.abc import Sequence

from aqueduct.cli.config_file import called_verb, subcommands
from aqueduct.common import former_options


def accept(parser: argparse.ArgumentParser) -> None:
    """Accept the former names in a verb, or in each of its commands. Help and completion do not show them.

    An option has a former name if it is called by it, and does not list it in `option_strings`.
    """
    for command in subcommands(parser).values():
        accept(command)
    actions = parser._option_string_actions
    for former, present in former_options.renamed(parser.prog.partition(" ")[2]).items():
        if present in actions:
            actions.setdefault(former, actions[present])


def warn(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Print one warning if the arguments have former names. `parser`: of all verbs."""
    verb, own = called_verb(parser, arguments)
    names = [word.partition("=")[0] for word in (own[: own.index("--")] if "--" in own else own)]
    renamings = [
        (name, " or ".join(action.option_strings))
        for name in dict.fromkeys(names)
        if (action := verb._option_string_actions.get(name)) and name not in action.option_strings
    ]
    if renamings:
        print(f"aqueduct: {former_options.warning(renamings)}", file=sys.stderr)
