"""The sites of a new inventory."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aqueduct.errors import Refused

# Also a part of host names and of the names of Ansible's groups: fewer characters than a site may have.
_NAME = re.compile(r"[a-z][a-z0-9]{0,30}")
_LAKE = re.compile(r"(lake|dw)[a-z0-9]*")


@dataclass(frozen=True)
class NewSite:
    name: str

    @property
    def is_lake(self) -> bool:
        """Return whether the site mirrors the others: its name begins with `lake` or `dw`."""
        return _LAKE.fullmatch(self.name) is not None


@dataclass(frozen=True)
class Sites:
    every: tuple[NewSite, ...]

    @property
    def production(self) -> tuple[NewSite, ...]:
        return tuple(site for site in self.every if not site.is_lake)

    @property
    def lakes(self) -> tuple[NewSite, ...]:
        return tuple(site for site in self.every if site.is_lake)


def is_name(text: str) -> bool:
    """Return whether a text can be a name in files, hosts and groups."""
    return _NAME.fullmatch(text) is not None


def parse_sites(text: str) -> Sites:
    """Parse names with commas between them; Refused if one is not a name, or nothing would be mirrored."""
    names = text.split(",")
    for name in names:
        if not is_name(name):
            raise Refused(
                "site-name-invalid",
                f"{name!r} in --sites cannot name a site: begin with a lower-case letter, and use lower-case "
                "letters and digits only. Nothing was written.",
            )
    if repeated := _repeated(names):
        raise Refused(
            "site-repeated", f"--sites has {repeated} twice. Remove one of them. Nothing was written."
        )
    sites = Sites(tuple(map(NewSite, names)))
    if not sites.production:
        raise Refused(
            "sites-without-source",
            f"All sites of --sites are lakes ({text}): their names begin with lake or dw. Add a site whose "
            "topics they mirror, such as pro1. Nothing was written.",
        )
    return sites


def _repeated(names: Sequence[str]) -> str:
    return next((name for index, name in enumerate(names) if name in names[:index]), "")
