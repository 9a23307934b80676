"""Ansible's template, whose difference (--diff) shows all but the secrets in it."""

from typing import Any

from ansible.plugins.action.template import ActionModule as Template

MASK = "********"


class ActionModule(Template):
    """Arguments: those of ansible.builtin.template, and `secrets`, a list of texts."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        secrets = [str(secret) for secret in self._task.args.pop("secrets")]
        result: dict[str, Any] = super().run(tmp, task_vars)
        if "diff" in result:
            result["diff"] = _masked(result["diff"], [secret for secret in secrets if secret])
        return result


def _masked(shown: Any, secrets: list[str]) -> Any:
    match shown:
        case str():
            for secret in secrets:
                shown = shown.replace(secret, MASK)
            return shown
        case dict():
            return {key: _masked(value, secrets) for key, value in shown.items()}
        case list():
            return [_masked(value, secrets) for value in shown]
    return shown
