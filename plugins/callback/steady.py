"""Prints a playbook's progress as Ansible does, but no failure that is only a retry; refuses unknown --tags.

Answers of hosts are shown as plain text: control characters of a compromised host could change the operator's
terminal. Colours are removed, too, because black text would hide what the host did.

While a task waits (`until`), Ansible prints `FAILED - RETRYING` for each attempt, even if nothing is wrong.
This plugin shows these attempts only with -v. With a tag that no task has, Ansible does nothing and exits
with 0.
"""

DOCUMENTATION = """
name: steady
type: stdout
short_description: Ansible's own output without retries
description: Retries are printed only with C(-v). Unknown C(--tags) are refused.
extends_documentation_fragment: [default_callback, result_format_callback]
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NoReturn

from ansible import constants, context
from ansible.plugins.callback.default import CallbackModule as Default
from ansible.plugins.loader import filter_loader
from ansible_collections.aqueduct.estate.plugins.plugin_utils.package import PackageMissing

try:
    from aqueduct.common.wording import printable
    from aqueduct.errors import ExitCode
except ImportError as error:
    raise PackageMissing(error) from None

COLOUR = re.compile("|".join(re.escape(f"\x1b[{code}m") for code in ("0", *constants.COLOR_CODES.values())))
# A line of the recap: a host and its counts, each perhaps in a colour.
COUNT = rf"(?:{COLOUR.pattern})?\w+=\d+ *(?:{COLOUR.pattern})?"
RECAP = re.compile(rf"(?:{COLOUR.pattern})?[^\x1b\n]*(?:{COLOUR.pattern})? *:(?: {COUNT})+")
MOST_OF_RECAP = 1000  # characters of a line
SPECIAL = {"all", "always", "never", "tagged", "untagged"}


class Coloured(str):
    """A message with colours that Ansible itself has added, before it is displayed."""

    __slots__ = ()


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "steady"

    def __init__(self) -> None:
        super().__init__()
        # Ansible forks a process for each task of each host. Each would import the estate again for its first
        # filter, which takes longer than most tasks do; it inherits what is loaded here.
        filter_loader.get("aqueduct.estate.site_name")
        # There is one for all of Ansible: warnings, and what other plugins show, pass here, too.
        self._display.display = as_text(self._display.display)

    def v2_runner_retry(self, result: Any) -> None:
        if self._display.verbosity:
            super().v2_runner_retry(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        display = self._display.display
        self._display.display = with_recap(display)
        try:
            super().v2_playbook_on_stats(stats)
        finally:
            self._display.display = display

    def _get_diff(self, difflist: Any) -> str:
        differences = difflist if isinstance(difflist, list) else [difflist]
        return Coloured(super()._get_diff([plain(difference) for difference in differences]))

    def v2_playbook_on_start(self, playbook: Any) -> None:
        super().v2_playbook_on_start(playbook)
        asked_tags = set(context.CLIARGS.get("tags") or ()) - SPECIAL
        if asked_tags and (unknown := sorted(asked_tags - tags(playbook))):
            self._refuse(unknown)

    def _refuse(self, unknown: list[str]) -> NoReturn:
        self._display.error(
            f"No task has the tag {', '.join(unknown)}. Nothing was done. Omit --tags. Deploy a part with "
            "its playbook, such as playbooks/kafka.yml, and some hosts with --limit.",
            wrap_text=False,
        )
        raise SystemExit(int(ExitCode.REFUSED))


def as_text(display: Callable[..., None]) -> Callable[..., None]:
    """Return a function that displays a message whose control characters are written out.

    Colours stay in a message that is `Coloured`. The colour of a whole message is added later.
    """

    @wraps(display)
    def shown(msg: str, *arguments: Any, **options: Any) -> None:
        if not isinstance(msg, Coloured):
            display(printable(msg), *arguments, **options)
            return
        colours = [*COLOUR.findall(msg), ""]
        parts = (printable(part) + colour for part, colour in zip(COLOUR.split(msg), colours, strict=True))
        display("".join(parts), *arguments, **options)

    return shown


def with_recap(display: Callable[..., None]) -> Callable[..., None]:
    """Return a function that keeps the colours of the recap's lines, and not those of statistics of hosts."""

    @wraps(display)
    def shown(msg: str, *arguments: Any, **options: Any) -> None:
        display(
            Coloured(msg) if len(msg) < MOST_OF_RECAP and RECAP.fullmatch(msg) else msg, *arguments, **options
        )

    return shown


def plain(value: Any) -> Any:
    """Return what a host answered, with the control characters of its texts written out."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [plain(content) for content in value]
    return value


def tags(playbook: Any) -> set[str]:
    """Return the tags of all tasks, with those that they inherit. Included files are read when they run."""
    return {
        tag
        for play in playbook.get_plays()
        for block in play.compile()
        for task in (*block.block, *block.rescue, *block.always)
        for tag in task.tags
    }
