"""Prints a playbook's progress as Ansible does, but no failure that is only a retry; refuses unknown --tags.

While a task waits (`until`), Ansible prints `FAILED - RETRYING` for each attempt, also where all goes well.
The attempts are shown with -v. With a tag that no task has, Ansible does nothing and exits with 0.
"""

from typing import Any, NoReturn

from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default

from aqueduct.errors import ExitCode

DOCUMENTATION = """
name: steady
type: stdout
short_description: Ansible's own output without retries
description: Retries are printed only with C(-v). Unknown C(--tags) are refused.
extends_documentation_fragment: [default_callback, result_format_callback]
"""

SPECIAL = {"all", "always", "never", "tagged", "untagged"}


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "steady"

    def v2_runner_retry(self, result: Any) -> None:
        if self._display.verbosity:
            super().v2_runner_retry(result)

    def v2_playbook_on_start(self, playbook: Any) -> None:
        super().v2_playbook_on_start(playbook)
        wanted = set(context.CLIARGS.get("tags") or ()) - SPECIAL
        if wanted and (unknown := sorted(wanted - tags(playbook))):
            self._refuse(unknown)

    def _refuse(self, unknown: list[str]) -> NoReturn:
        self._display.error(
            f"No task has the tag {', '.join(unknown)}. Nothing was done. Omit --tags. Deploy a part with "
            "its playbook, such as playbooks/kafka.yml, and some hosts with --limit.",
            wrap_text=False,
        )
        raise SystemExit(int(ExitCode.REFUSED))


def tags(playbook: Any) -> set[str]:
    """Return the tags of all tasks, with those that they inherit. Included files are read when they run."""
    return {
        tag
        for play in playbook.get_plays()
        for block in play.compile()
        for task in (*block.block, *block.rescue, *block.always)
        for tag in task.tags
    }
