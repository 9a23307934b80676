"""Bundles on a control node, and the links of a site that send their offsets."""

import json
from pathlib import Path
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.estate.bundles import SiteBundle, read_bundles

GROUPS = {
    "site_pro1": ["k1", "u1", "u2"],
    "site_enclave": ["d1"],
    "site_vault": ["d2"],
    "kafka": ["k1"],
    "diode_upstream": ["u1", "u2"],
    "diode_downstream": ["d1", "d2"],
}
LINK: dict[str, Any] = {"source": "pro1", "number": 1, "topics": ["flights"]}
OTHER = LINK | {"number": 2, "topics": ["fl.*", "crews"], "name": "other", "upstream": "u2"}

Listed = list[tuple[str, int]]


def bundles(
    folder: Path, *links: dict[str, Any], listed: Listed | None = None, **more: Any
) -> dict[str, SiteBundle]:
    """Return the bundles of pro1 by target, of which that of enclave lists these partitions."""
    if listed is not None:
        results = [{"topic": topic, "partition": number, "gaps": [[5, 9]]} for topic, number in listed]
        path = folder / "bundle-pro1-enclave.json"
        path.write_text(json.dumps({"type": "all", "results": results}))
    declared = {"d1": {"diode_downstream_links": [*links]}, "d2": {}, **more}
    return {bundle.target: bundle for bundle in read_bundles(GROUPS, declared, "pro1", str(folder))}


def senders(bundle: SiteBundle) -> list[str]:
    return [link.name for link in bundle.links]


@pytest.mark.parametrize(
    ("listed", "names", "uncovered"),
    [
        ([], [], ()),
        ([("flights", 0)], ["pro1", "other"], ()),
        ([("crews", 0), ("crews", 3)], ["other"], ()),
        ([("flocks", 7), ("radar", 1)], ["other"], ("radar-1",)),
        ([("radar", 1), ("radar", 2)], [], ("radar-1", "radar-2")),
        ([("flights2", 0)], ["other"], ()),
        ([("__consumer_offsets", 0)], [], ("__consumer_offsets-0",)),
        ([("fl\n", 0), ("f" * 300, 0)], [], (r"fl\n-0", "f" * 300 + "-0")),
    ],
)
def test_each_link_sends_only_its_topics(
    listed: Listed, names: list[str], uncovered: tuple[str, ...], tmp_path: Path
) -> None:
    bundle = bundles(tmp_path, LINK, OTHER, listed=listed)["enclave"]
    assert (senders(bundle), bundle.uncovered) == (names, uncovered)
    assert (bundle.exists, bundle.hosts) == (True, ("u1", "u2"))


def test_first_of_links_with_same_topics_sends(tmp_path: Path) -> None:
    second = LINK | {"number": 3, "name": "second"}
    assert senders(bundles(tmp_path, LINK, second, listed=[("flights", 0)])["enclave"]) == ["pro1"]


def test_links_without_ledger_send_nothing(tmp_path: Path) -> None:
    plain = LINK | {"name": "plain", "mode": "record", "topics": ["plain"]}
    assert bundles(tmp_path, plain, listed=[("plain", 0)]) == {}
    assert bundles(tmp_path, LINK, plain, listed=[("plain", 0)])["enclave"].uncovered == ("plain-0",)


@pytest.mark.parametrize(
    ("settings", "uncovered"),
    [
        ({"partitionStartValue": 2}, ("flights-0", "flights-1")),
        ({"partition-start-value": "2", "partitionStopValue": "1"}, ("flights-0", "flights-1", "flights-3")),
        ({"topics": "crews"}, ("flights-0", "flights-1", "flights-2", "flights-3")),
    ],
)
def test_settings_of_link_limit_what_it_sends(
    settings: dict[str, Any], uncovered: tuple[str, ...], tmp_path: Path
) -> None:
    listed = [("flights", number) for number in range(4)]
    found = bundles(tmp_path, LINK | {"upstream_settings": settings}, listed=listed)["enclave"]
    assert found.uncovered == uncovered


def test_bundles_are_those_of_each_target(tmp_path: Path) -> None:
    vault = {"diode_downstream_links": [LINK | {"number": 9, "upstream": "u2"}]}
    found = bundles(tmp_path, LINK, listed=[("flights", 0)], d2=vault)
    assert {target: (bundle.exists, bundle.hosts) for target, bundle in found.items()} == {
        "enclave": (True, ("u1",)),
        "vault": (False, ("u2",)),
    }
    assert Path(found["vault"].path) == tmp_path / "bundle-pro1-vault.json"
    assert found["vault"].links == found["vault"].uncovered == ()


@pytest.mark.parametrize(
    ("content", "id_"),
    [(b"{}", "bundle-invalid"), (b"\xff", "bundle-unreadable"), (None, "bundle-unreadable")],
)
def test_file_that_is_no_bundle_is_refused(content: bytes | None, id_: str, tmp_path: Path) -> None:
    path = tmp_path / "bundle-pro1-enclave.json"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with raises(Refused, id_, path):
        bundles(tmp_path, LINK)
