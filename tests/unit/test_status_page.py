"""The page: whole, safe against what hosts say, and readable without colours."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from kit.estate_facts import DEFAULTS, GROUPS, HOSTVARS, facts, sound

from aqueduct.control_node.status.drawing import drawing
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.model import (
    SECTIONS,
    DeclaredObject,
    EstateStatus,
    ObjectKind,
    ObjectStatus,
)
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.page import page
from aqueduct.control_node.status.style import STYLE

VOID = {"meta", "input", "rect", "path", "br"}
DECLARED = declared_objects(GROUPS, HOSTVARS, DEFAULTS)
HOSTILE = '</code><script>alert(1)</script><img src=x onerror="x">\x1b[2J\u202e" onload="y'


class Outline(HTMLParser):
    """The elements of a page, and what does not fit."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.tags)


def status(raw: dict[str, Any]) -> EstateStatus:
    return evaluate(DECLARED, facts(raw))


def hostile() -> EstateStatus:
    raw = sound()
    raw["lake-land-1"] |= {"failed_units": [HOSTILE], "disks": [{"path": HOSTILE, "size": 100, "free": 1}]}
    raw["pro-kafka-1"] = {"error": HOSTILE}
    declared = [
        *DECLARED,
        DeclaredObject(
            kind=ObjectKind.FLOW, name=HOSTILE, site=HOSTILE, source=HOSTILE, details={"flow": HOSTILE}
        ),
    ]
    return evaluate(declared, facts(raw))


@pytest.mark.parametrize(
    "found", [status(sound()), status({}), hostile()], ids=["sound", "silent", "hostile"]
)
def test_the_page_is_whole(found: EstateStatus) -> None:
    outline = Outline(page(found))
    assert outline.open == []
    assert (
        outline.count("script") == outline.count("style") == outline.count("main") == outline.count("h1") == 1
    )
    assert outline.count("th") >= len(found.objects)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len({*ids})
    assert {*SECTIONS} <= {*ids}
    for _, attributes in outline.tags:
        for name in ("aria-labelledby", "for"):
            assert {*(attributes.get(name) or "").split()} <= {*ids}
    assert ("html", {"lang": "en"}) in outline.tags
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)
    loading = [
        attributes for tag, attributes in outline.tags if {"src", "href"} & {*attributes} and tag != "a"
    ]
    assert loading == []


def test_what_hosts_say_is_text() -> None:
    text = page(hostile())
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert any("alert(1)" in each for each in Outline(text).text)


def test_every_object_and_finding_is_on_the_page() -> None:
    raw = sound()
    raw["lake-land-1"]["failed_units"] = ["x.service"]
    found = status(raw)
    text = "".join(Outline(page(found)).text)
    assert [str(each.declared) for each in found.objects if str(each.declared) not in text] == []
    assert "unit-failed" in text
    assert "all is well" not in text
    assert "all is well" in page(status(sound()))


def test_links_lead_to_the_sections_of_the_page() -> None:
    outline = Outline(page(status(sound())))
    ids = {attributes["id"] for _, attributes in outline.tags if "id" in attributes}
    links = {str(attributes["href"]) for tag, attributes in outline.tags if tag == "a"}
    assert links >= {"#findings", *(f"#{section}" for section in SECTIONS)}
    assert {link.removeprefix("#") for link in links} <= ids
    without_flows = EstateStatus(objects=status(sound()).objects[:1], asked=0, answered=1, hosts=1)
    assert 'href="#flows"' not in page(without_flows)


def test_a_circle_of_flows_is_drawn() -> None:
    objects = tuple(
        ObjectStatus(declared=DeclaredObject(kind=ObjectKind.FLOW, name=f"{a} to {b}", site=b, source=a))
        for a, b in (("a", "b"), ("b", "c"), ("c", "a"), ("outside", "a"))
    )
    text = drawing(EstateStatus(objects=objects, asked=0, answered=0, hosts=0))
    assert text.count('class="arrow') == 4
    assert text.count('class="site') == 4


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_have_contrast(scheme: int) -> None:
    """WCAG 2.2 AA: 4.5 to 1."""
    blocks = re.findall(r":root \{([^}]*)\}", STYLE)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    assert len(colours) > 8
    for name in ("text", "faint", "well", "needs-action", "unknown", "not-asked"):
        for back in ("back", "panel"):
            light, dark = sorted((luminance(colours[name]), luminance(colours[back])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, back)
