"""Runs a command on a host as a transient systemd unit, and shows what it says while it runs.

Arguments: `name` of the unit; `argv`; `properties` of it, as a unit file has them; `poll_seconds`.
Fails where the unit runs already, and where the command ends with another exit code than 0 or 3.
Returns `rc` and `lines`.

The command is systemd's child: a connection that breaks ends nobody's work. What it said is in the host's
journal.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from aqueduct.common.wording import printable
from aqueduct.errors import ExitCode, with_identifier

LAST_LINES = 10


class ActionModule(ActionBase):
    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "name": {"type": "str", "required": True},
                "argv": {"type": "list", "elements": "str", "required": True},
                "properties": {"type": "dict", "default": {}},
                "poll_seconds": {"type": "int", "default": 2},
            }
        )
        if self._task.check_mode:
            return {"changed": True, "skipped": True, "msg": "The command does not run in check mode."}
        self._variables, self._unit = task_vars or {}, f"{given['name']}.service"
        state = self._state()
        if state["ActiveState"] not in ("inactive", "failed"):
            raise AnsibleActionFail(
                f"[unit-already-running] The unit {given['name']} already runs here. Wait until it ends "
                f"(journalctl --follow --unit {given['name']}), or stop it (systemctl stop {given['name']})."
            )
        if state["ActiveState"] == "failed":
            self._command("systemctl", "reset-failed", self._unit)
        cursor = self._journal("--lines=1")[1]  # of a former run
        properties = [f"--property={name}={value}" for name, value in given["properties"].items()]
        argv = [argument.replace("$", "$$") for argument in given["argv"]]  # systemd would put variables in
        self._command("systemd-run", "--quiet", f"--unit={self._unit}", *properties, "--", *argv)
        lines: list[str] = []
        running = True
        while running:
            time.sleep(given["poll_seconds"])
            state = self._state()
            running = state["ActiveState"] not in ("inactive", "failed")
            if not running:
                self._command("journalctl", "--sync")
            after = [f"--after-cursor={cursor}"] if cursor else []
            new_lines, cursor = self._journal(*after, cursor=cursor)
            for line in new_lines:
                Display().display(f"{self._variables['inventory_hostname']}: {line}")
            lines += new_lines
        # One that failed stays known until it is started again; one that succeeded is gone.
        code = int(state["ExecMainStatus"]) if state["ActiveState"] == "failed" else 0
        # Set here: otherwise, Ansible uses `rc`, and treats skipped items (3) as a failure.
        result = {"changed": True, "failed": False, "rc": code, "lines": lines, "result": state["Result"]}
        if state["Result"] not in ("success", "exit-code"):
            sentence = f"systemd ended the unit {given['name']} ({state['Result']})."
            result |= {"failed": True, "msg": f"[unit-ended-otherwise] {sentence}"}
        elif code not in (ExitCode.DONE, ExitCode.INCOMPLETE):
            result |= {"failed": True, "msg": _reason(lines)}
        return result

    def _state(self) -> dict[str, str]:
        properties = "--property=ActiveState,ExecMainStatus,Result"
        return dict(
            line.split("=", 1)
            for line in self._command("systemctl", "show", properties, self._unit).splitlines()
        )

    def _journal(self, *options: str, cursor: str = "") -> tuple[list[str], str]:
        """Return the new output of the command and the cursor after it; without output, the old cursor.

        A cursor is always one of the unit's own lines: after another one, systemd 252 skips the first line.
        """
        show = ("journalctl", "--quiet", "--no-pager", "--output=cat", "--show-cursor")
        printed = self._command(*show, *options, f"_SYSTEMD_UNIT={self._unit}", codes=(0, 1))  # 1: no line
        # No other letter ends a line of the journal.
        lines = [printable(line) for line in printed.split("\n")] if printed else []
        return (lines[:-1], lines[-1].removeprefix("-- cursor: ")) if lines else ([], cursor)

    def _command(self, *argv: str, codes: Collection[int] = (0,)) -> str:
        answer = self._execute_module(
            module_name="ansible.builtin.command",
            module_args={"argv": list(argv)},
            task_vars=self._variables,
        )
        if answer.get("rc") not in codes:
            problem = printable(str(answer.get("stderr") or answer.get("msg")))
            raise AnsibleActionFail(with_identifier("host-command-failed", problem))
        return str(answer["stdout"])


def _reason(lines: Sequence[str]) -> str | list[str]:
    """Return the error of the command, or its last lines if it printed no error."""
    sentences = [line.removeprefix("aqueduct: ") for line in lines if line.startswith("aqueduct: ")]
    return sentences[-1] if sentences else list(lines[-LAST_LINES:]) or "The command failed without output."
