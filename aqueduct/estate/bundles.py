"""Bundles, which list missing offsets that a site must resend, and the links that resend them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct.common.topic_names import LEGAL_NAME, TopicPartition, matches
from aqueduct.common.wording import shown
from aqueduct.errors import Refused
from aqueduct.estate.links import Link, kept_raw, read_links_from
from aqueduct.estate.model import Groups, HostVars
from aqueduct.link.ledger import bundle
from aqueduct.link.ledger.bundle import MissingOffsets


@dataclass(frozen=True, kw_only=True)
class SiteBundle:
    """A bundle on the control node, for one target of a site's links."""

    target: str
    path: str
    exists: bool
    hosts: tuple[str, ...]  # the sending ends of all links to the target
    links: tuple[Link, ...] = ()  # that resend offsets of the bundle
    uncovered: tuple[str, ...] = ()  # partitions of the bundle that no link sends


def read_bundles(groups: Groups, hostvars: HostVars, site: str, folder: str) -> tuple[SiteBundle, ...]:
    """Return the bundles of a site, one for each target of its links with a ledger.

    Refused if a file is not a bundle. If several links to a target have the same topics, the first one sends
    all of them: one link can send what another one lost.
    """
    links_by_target: dict[str, dict[str, Link]] = {}
    for link in kept_raw(read_links_from(groups, hostvars, site)):
        links_by_target.setdefault(link.target, {}).setdefault(link.topics_pattern, link)
    return tuple(
        _site_bundle(Path(folder) / f"bundle-{site}-{target}.json", target, tuple(links.values()))
        for target, links in links_by_target.items()
    )


def _site_bundle(path: Path, target: str, links: tuple[Link, ...]) -> SiteBundle:
    hosts = tuple(sorted({link.upstream for link in links}))
    text = _text(path)
    if text is None:
        return SiteBundle(target=target, path=str(path), exists=False, hosts=hosts)
    listed = [missing for missing in bundle.loads(text, str(path)).results if missing.gaps]
    covers = [_Coverage(link) for link in links]
    return SiteBundle(
        target=target,
        path=str(path),
        exists=True,
        hosts=hosts,
        links=tuple(cover.link for cover in covers if any(map(cover.sends, listed))),
        uncovered=tuple(
            shown(TopicPartition(missing.topic, missing.partition))
            for missing in listed
            if not any(cover.sends(missing) for cover in covers)
        ),
    )


def _text(path: Path) -> str | None:
    """Return the content of a file; None if it does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(
            "bundle-unreadable", f"Cannot read {path}: {reason}. Check its owner and mode."
        ) from None


class _Coverage:
    """The partitions that a link sends, as `aqueduct diode resend` chooses them."""

    def __init__(self, link: Link) -> None:
        self.link = link
        settings = link.upstream_settings
        pattern = str(settings.get("topics", link.topics_pattern))
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise Refused(
                "pattern-invalid",
                f"The topics pattern {pattern} of link {link.name} is not a valid regular expression: "
                f"{error}. Correct the pattern.",
            ) from None
        self._start = _number(settings, "partitionStartValue", "partition-start-value")
        self._many = _number(settings, "partitionStopValue", "partition-stop-value")
        self._topics: dict[str, bool] = {}

    def sends(self, missing: MissingOffsets) -> bool:
        partition = missing.partition - self._start
        if partition < 0 or (self._many and partition >= self._many):
            return False
        if missing.topic not in self._topics:
            legal = LEGAL_NAME.fullmatch(missing.topic) is not None
            self._topics[missing.topic] = legal and matches(self._pattern, missing.topic)
        return self._topics[missing.topic]


def _number(settings: Mapping[str, Any], *spellings: str) -> int:
    given = next((str(settings[name]) for name in spellings if name in settings), "0")
    return int(given) if given.isdecimal() else 0
