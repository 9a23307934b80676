"""Print a script that completes verbs, options and files in a shell.

bash: `aqueduct completion bash > ~/.local/share/bash-completion/completions/aqueduct`.
zsh: `aqueduct completion zsh > FOLDER/_aqueduct`, where FOLDER is one of fpath.

Exit code: 0 done, 2 a package is missing here.
"""

import argparse
from collections.abc import Mapping

from aqueduct.errors import ExitCode
from aqueduct.work.packages import packages

FILES, FOLDERS = {"FILE"}, {"DIR", "FOLDER"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"))


def run(args: argparse.Namespace) -> int:
    from aqueduct.cli import build_parser  # which imports this module

    with packages("controller"):
        import shtab
    parser = build_parser()
    kinds: dict[str, object] = dict.fromkeys(FILES, shtab.FILE)
    _complete_paths(parser, kinds | dict.fromkeys(FOLDERS, shtab.DIRECTORY))
    print(shtab.complete(parser, shell=args.shell))
    return ExitCode.DONE


def _complete_paths(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """Mark the options and arguments whose value is a path."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_paths(command, kinds)
        elif isinstance(action.metavar, str) and action.metavar in kinds:
            action.complete = kinds[action.metavar]  # type: ignore[attr-defined]
