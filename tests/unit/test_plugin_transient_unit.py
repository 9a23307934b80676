"""The action plugin that runs a command as a transient unit, against a host that is played here."""

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/action/transient_unit.py"


class Host:
    """A host whose systemd prints `says` between two looks, and whose command ends as `end` tells."""

    def __init__(self, says: list[list[str]], end: tuple[str, str, int], before: str = "inactive") -> None:
        self.says, self.end, self.before = iter(says), end, before
        self.started: list[str] = []
        self.commands: list[list[str]] = []
        self.running = False

    def __call__(self, argv: list[str]) -> dict[str, Any]:
        self.commands.append(argv)
        match argv[:2]:
            case ["systemctl", "show"]:
                return self._state()
            case ["systemctl", "reset-failed"]:
                self.before = "inactive"
            case ["systemd-run", _]:
                self.started, self.running = argv, True
            case ["journalctl", "--quiet"]:
                return self._journal()
        return {"rc": 0, "stdout": ""}

    def _state(self) -> dict[str, Any]:
        state, result, code = (self.before, "success", 0)
        if self.started:
            state, result, code = ("active", "success", 0) if self.running else self.end
        return {"rc": 0, "stdout": f"ActiveState={state}\nResult={result}\nExecMainStatus={code}"}

    def _journal(self) -> dict[str, Any]:
        lines = next(self.says) if self.started else []
        self.running = self.started != [] and bool(lines) and lines[-1] != "END"
        lines = [line for line in lines if line != "END"]
        if not lines:
            return {"rc": 1, "stdout": ""}  # as journalctl does where there is none
        return {"rc": 0, "stdout": "\n".join([*lines, f"-- cursor: {len(self.commands)}"])}


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transient_unit", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shown(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(plugin, "Display", lambda: SimpleNamespace(display=lines.append))
    monkeypatch.setattr(plugin.time, "sleep", lambda _: None)
    return lines


def run(plugin: ModuleType, host: Host, **arguments: object) -> dict[str, Any]:
    action = plugin.ActionModule.__new__(plugin.ActionModule)
    given = {"name": "u", "argv": ["aqueduct", "backup"], **arguments}
    action._task = SimpleNamespace(args=given, check_mode=False)
    action._execute_module = lambda module_args, **_: host(module_args["argv"])
    result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "pro1"})
    return result


def test_it_shows_each_line_once_and_in_time(plugin: ModuleType, shown: list[str]) -> None:
    host = Host([["one", "two"], ["three"], ["four", "END"], []], ("inactive", "success", 0))
    result = run(plugin, host)
    assert shown == ["pro1: one", "pro1: two", "pro1: three", "pro1: four"]
    assert (result["rc"], result["lines"]) == (0, ["one", "two", "three", "four"])
    assert result["failed"] is False, "without it Ansible makes a failure of any rc but 0"


def test_what_a_host_says_sets_no_terminal(plugin: ModuleType, shown: list[str]) -> None:
    """A captured host writes into the operator's terminal, or a record's name does."""
    hostile = "aqueduct: \x1b[2J\x1b]52;c;cm0=\x07 \x9b31m and \u202e\rdone"
    result = run(plugin, Host([[hostile, "END"], []], ("failed", "exit-code", 1)))
    written = r"aqueduct: \x1b[2J\x1b]52;c;cm0=\x07 \u009b31m and \u202e\rdone"
    assert shown == [f"pro1: {written}"]
    assert result["lines"] == [written]
    assert result["msg"] == written.removeprefix("aqueduct: ")


def test_it_gives_properties_and_keeps_dollars(plugin: ModuleType, shown: list[str]) -> None:
    host = Host([["END"], []], ("inactive", "success", 0))
    run(plugin, host, argv=["aqueduct", "--topics-pattern=(a|b)$"], properties={"User": "x"})
    assert host.started[-4:] == ["--property=User=x", "--", "aqueduct", "--topics-pattern=(a|b)$$"]


def test_run_with_skipped_items_is_not_failed(plugin: ModuleType, shown: list[str]) -> None:
    result = run(plugin, Host([["END"], []], ("failed", "exit-code", 3)))
    assert result["rc"] == 3
    assert result["failed"] is False, "without it Ansible makes a failure of any rc but 0"


def test_a_failure_has_the_command_s_own_sentence(plugin: ModuleType, shown: list[str]) -> None:
    host = Host([["Reading.", "aqueduct: The store is full.", "END"], []], ("failed", "exit-code", 1))
    result = run(plugin, host)
    assert (result["failed"], result["rc"], result["msg"]) == (True, 1, "The store is full.")


def test_a_command_that_was_ended_is_a_failure(plugin: ModuleType, shown: list[str]) -> None:
    result = run(plugin, Host([["END"], []], ("failed", "timeout", 15)))
    assert result["msg"].startswith("[unit-ended-otherwise] ")
    assert "timeout" in result["msg"]


def test_one_that_runs_is_not_started_again(plugin: ModuleType, shown: list[str]) -> None:
    host = Host([], ("inactive", "success", 0), before="active")
    with pytest.raises(
        AnsibleActionFail,
        match=r"^\[unit-already-running\] .*journalctl --follow --unit u\b.*systemctl stop u\b",
    ):
        run(plugin, host)
    assert host.started == []


def test_what_failed_before_is_forgotten(plugin: ModuleType, shown: list[str]) -> None:
    host = Host([["END"], []], ("inactive", "success", 0), before="failed")
    run(plugin, host)
    assert ["systemctl", "reset-failed", "u.service"] in host.commands
    assert host.started
