"""What the doctors of several hosts said, as one list. A host that said nothing is in it, too."""

from collections.abc import Iterator, Mapping
from typing import Any

from aqueduct.errors import ExitCode
from aqueduct.estate.model import site_name

CONNECTED = "Listener "  # begins the lines that tell who is connected


def findings(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each finding, and for the hosts of a site that gave no answer.

    `hosts`: of each its variables `group_names` and `__kafka_doctor`, if it was asked.
    """
    found: list[str] = []
    silent: dict[tuple[str, str], list[str]] = {}
    for host, variables in hosts.items():
        site = site_name(variables["group_names"])
        result = variables.get("__kafka_doctor") or {}
        if result.get("rc") == ExitCode.INCOMPLETE:
            found += [f"{site}: {line}" for line in _lines(result)]
        elif result.get("rc") != ExitCode.DONE:
            silent.setdefault((site, _reason(result)), []).append(host)
    unknown = [f"{site}: {', '.join(names)} did not answer{why}" for (site, why), names in silent.items()]
    return [*dict.fromkeys(found), *unknown]


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    return (line for line in result["stdout_lines"] if not line.startswith(CONNECTED))


def _reason(result: Mapping[str, Any]) -> str:
    """Return why there is no answer: the command's last line, or what Ansible said of the host."""
    said = str(result.get("stderr") or result.get("module_stderr") or result.get("msg") or "")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ", and why is not known."
