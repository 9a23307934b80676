"""The inventory for checks: values, and the files and lines where they are declared."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from aqueduct.errors import Labelled
from aqueduct.estate.model import SITE_PREFIX, Groups, site_names

HIDDEN = "(encrypted)"
SHORT = 4  # characters; a shorter secret is part of many words, so only whole words are replaced

Path = tuple[str | int, ...]  # keys and indexes from the value of a variable to a part of it


@dataclass(frozen=True)
class Unknown:
    """The value of a template that is known only when a play runs. Checks ignore it."""

    undefined: str = ""  # the undefined variable that the template uses, if this is the reason
    undecryptable: str = ""  # why Ansible cannot decrypt the value, if this is the reason


class Encrypted(str):
    """A decrypted text of the inventory. Checks compare it like other texts, but findings never show it."""

    origin: str | None = None  # file:line


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault of the inventory: its identifier, and one sentence with the remedy."""

    where: str  # file:line, or only the file
    what: str  # a variable with the path to a part, such as mirror_maker_flows[0].source; a host; a group
    fault: Labelled
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: {self.fault}"

    @property
    def id(self) -> str:
        return self.fault.id

    @property
    def sentence(self) -> str:
        return self.fault.sentence

    @property
    def place(self) -> tuple[str, int, str]:
        file, _, line = self.where.rpartition(":")
        return (file, int(line), str(self)) if line.isdecimal() else (self.where, 0, str(self))


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The inventory. `hosts`: each host's variables of Aqueduct's roles, with evaluated templates."""

    groups: Groups
    hosts: Mapping[str, Mapping[str, Any]]
    declarations: Mapping[str, str]  # file:line of the declaration, by host
    origin: Callable[[object], str | None]  # returns file:line of a value or a key
    extra_variables: Collection[str] = ()  # of --extra-vars, which all hosts have
    group_files: Mapping[str, str] = field(
        default_factory=dict
    )  # path of each file of group_vars, by group name
    ignored_files: Mapping[str, str] = field(
        default_factory=dict
    )  # files of group_vars and host_vars that Ansible ignores: the path that it reads instead, by path
    secrets: frozenset[str] = frozenset()  # all decrypted texts, also of variables that are not checked

    @cached_property
    def sites(self) -> list[str]:
        return site_names(self.groups)

    @cached_property
    def sites_of(self) -> dict[str, list[str]]:
        """The sites by host, for hosts that have a site; more than one site is an error."""
        sites_by_host: dict[str, list[str]] = {}
        for site in self.sites:
            for host in self.groups[SITE_PREFIX + site]:
                sites_by_host.setdefault(host, []).append(site)
        return sites_by_host

    def members(self, site: str, service: str | None = None) -> list[str]:
        """Return the hosts of a site; with `service`, only those that run this service."""
        hosts = self.groups.get(SITE_PREFIX + site, ())
        serving = set(hosts if service is None else self.groups.get(service, ()))
        return [host for host in hosts if host in serving]

    def where(self, host: str, variable: str, path: Path = ()) -> str:
        """Return file:line of a part of a variable; if unknown, of the nearest known part around it."""
        value: Any = self.hosts[host]
        origin = None
        for step in (variable, *path):
            if isinstance(value, Mapping) and step in value:
                key = next(key for key in value if key == step)
                value = value[step]
                origin = self.origin(value) or self.origin(key) or origin
            elif isinstance(step, int) and isinstance(value, Sequence):
                value = value[step]
                origin = self.origin(value) or origin
        return origin or self.declared(host)

    def without_secrets(self, finding: Finding) -> Finding:
        """Replace encrypted texts, and parts of encrypted URLs, in the sentence of a finding."""
        sentence = self._secrets_in_sentences.sub(HIDDEN, finding.sentence)
        return replace(finding, fault=Labelled(finding.id, sentence))

    @cached_property
    def _secrets_in_sentences(self) -> re.Pattern[str]:
        """A pattern for secrets, longest first. Short ones and parts of URLs match only as whole words."""
        public = {*self.groups, *self.hosts, *(group.removeprefix(SITE_PREFIX) for group in self.groups)}
        whole = {secret for secret in self.secrets if len(secret) >= SHORT}
        urls = (secret for secret in self.secrets if "://" in secret)
        words = {part for url in urls for part in re.split(r"[^\w.-]+", url.partition("://")[2])}
        words = {word for word in words if len(word) >= SHORT} - public | (self.secrets - whole - {""})
        patterns = [(len(secret), re.escape(secret)) for secret in whole]
        patterns += [(len(word), rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)") for word in words]
        alternatives = "|".join(pattern for _, pattern in sorted(patterns, reverse=True))
        return re.compile(alternatives or r"(?!)")

    def declared(self, host: str) -> str:
        return self.declarations.get(host) or "the inventory"

    def finding(
        self, host: str, variable: str, fault: Labelled, path: Path = (), is_warning: bool = False
    ) -> Finding:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return Finding(
            where=self.where(host, variable, path),
            what=variable + steps,
            fault=fault,
            is_warning=is_warning,
        )

    def group_finding(self, group: str, fault: Labelled, is_warning: bool = False) -> Finding:
        name = next(name for name in self.groups if name == group)
        where = self.origin(name) or next(map(self.declared, self.groups[group]), "the inventory")
        return Finding(where=where, what=group, fault=fault, is_warning=is_warning)


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str) -> str:
    """Return a remedy for an unknown word: the most similar candidate, or `otherwise`."""
    close = get_close_matches(word, candidates, n=1, cutoff=0.8)
    return f"did you mean {close[0]}?" if close else otherwise


def some(names: Sequence[str]) -> str:
    """List names as `a, b and c`; more than four as the first three and the number of others."""
    shown = [*names[:3], f"{len(names) - 3} more"] if len(names) > 4 else list(names)
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
