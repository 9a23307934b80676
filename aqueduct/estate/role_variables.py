"""The variables of roles, to evaluate declarations of a role for a host outside of the role."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RoleVariables:
    """The variables of the roles in a folder. `load` reads a YAML file."""

    roles: Path
    load: Callable[[Path], Mapping[str, Any]]

    def declarations(
        self, subject: str, variables: Mapping[str, Any], evaluate: Callable[[Any, dict[str, Any]], Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield `_<role>_<subject>` (vars/main.yml) of the roles of a host: name and evaluated value.

        `variables`: those of the host. `evaluate` gets the unevaluated value and all variables of the role.
        A role that extends another role (`_<role>_extends`) is deployed to the hosts of that role's group.
        """
        for role in sorted(folder.name for folder in self.roles.iterdir()):
            own, name = self._read(role, "vars"), f"_{role}_{subject}"
            if name in own and own.get(f"_{role}_extends", role) in variables["group_names"]:
                yield name, evaluate(own[name], self._known(role, variables))

    def _known(self, role: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return all variables of the role on a host with these variables."""
        defaults, internal = self._of_dependencies(role)
        return {
            **defaults,
            **self._read(role, "defaults"),
            **variables,
            **internal,
            **self._read(role, "vars"),
        }

    def _of_dependencies(self, role: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the defaults and the internal variables of the roles that a role depends on or extends."""
        defaults: dict[str, Any] = {}
        internal: dict[str, Any] = {}
        meta, own = self._read(role, "meta"), self._read(role, "vars")
        dependencies = [str(dependency["role"]) for dependency in meta.get("dependencies", ())]
        dependencies += [str(own[name]) for name in (f"_{role}_extends",) if name in own]
        for dependency in dependencies:
            name = dependency.rpartition(".")[2]  # without the name of the collection
            theirs, its = self._of_dependencies(name)
            defaults |= theirs | self._read(name, "defaults")
            internal |= its | self._read(name, "vars")
        return defaults, internal

    def _read(self, role: str, part: str) -> dict[str, Any]:
        file = self.roles / role / part / "main.yml"
        return dict(self.load(file)) if file.exists() else {}
