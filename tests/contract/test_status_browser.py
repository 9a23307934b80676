"""The page of the state in a real browser: what it shows, by which means, and what axe-core says of it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from kit.estate_facts import DEFAULTS, GROUPS, HOSTVARS, facts, sound
from playwright.sync_api import Browser, Page, expect, sync_playwright

from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.model import DeclaredObject, EstateStatus, ObjectKind, ObjectStatus
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.page import page

DECLARED = declared_objects(GROUPS, HOSTVARS, DEFAULTS)
MILLISECONDS = 300_000.0  # for a browser on a slow machine, which has 5 or 30 seconds by default
expect.set_options(timeout=MILLISECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = os.environ.get("AQUEDUCT_CHROMIUM")
    assert program, "set AQUEDUCT_CHROMIUM to Chromium's headless shell: this test opens the page in it"
    with sync_playwright() as playwright:
        # Its own sandbox needs what containers of CI lack; the page is ours.
        chromium = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=MILLISECONDS
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the page of a sound estate, and of one with a failed unit, a full disk and a silent host."""
    broken = sound()
    broken["lake-land-1"] |= {
        "failed_units": ["land.service"],
        "disks": [{"path": "/var", "size": 100, "free": 1}],
    }
    broken["pro-kafka-1"] = {"error": "ssh: no route to host"}
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in ("sound", "broken")}
    for (name, file), raw in zip(files.items(), (sound(), broken), strict=True):
        file.write_text(page(evaluate(DECLARED, facts(raw))), encoding="utf-8")
        assert name in file.name
    return files


def opened(browser: Browser, file: Path, *, width: int = 1280, dark: bool = False) -> tuple[Page, list[str]]:
    """Open the page, and return it with what its script complains of, as far as it has until then."""
    shown = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    shown.set_default_timeout(MILLISECONDS)
    said: list[str] = []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: said.append(request.url) if request.url != file.as_uri() else None)
    shown.goto(file.as_uri())
    return shown, said


def test_sound_estate_has_no_finding(browser: Browser, pages: dict[str, Path]) -> None:
    shown, said = opened(browser, pages["sound"])
    assert "all is well" in shown.title()
    expect(shown.get_by_text(f"{len(DECLARED)} well", exact=True)).to_be_visible()
    assert shown.locator("tbody tr").count() == len(DECLARED)
    assert shown.get_by_text("unknown", exact=True).count() == 0
    assert said == []


def test_broken_estate_has_its_findings_first(browser: Browser, pages: dict[str, Path]) -> None:
    shown, said = opened(browser, pages["broken"])
    assert "all is well" not in shown.title()
    for identifier in ("unit-failed", "disk-filling", "host-not-answering"):
        expect(shown.get_by_text(identifier)).to_be_visible()
    finding = shown.get_by_text("unit-failed").bounding_box()
    table = shown.locator("table").first.bounding_box()
    assert finding
    assert table
    assert finding["y"] < table["y"]
    assert said == []


def test_drawing_of_many_sites_scrolls(browser: Browser, tmp_path: Path) -> None:
    flows = tuple(
        ObjectStatus(
            declared=DeclaredObject(
                kind=ObjectKind.FLOW,
                name=f"pro{number} to dw{number}",
                site=f"dw{number}",
                source=f"pro{number}",
            )
        )
        for number in range(40)
    )
    file = tmp_path / "many.html"
    file.write_text(page(EstateStatus(objects=flows, asked=0, answered=1, hosts=1)), encoding="utf-8")
    shown, said = opened(browser, file)
    findings = shown.locator("#findings").bounding_box()
    assert findings
    assert findings["y"] < 900
    assert shown.evaluate("(map => map.scrollHeight > 2 * map.clientHeight)(document.querySelector('.map'))")
    assert [each["id"] for each in Axe().run(shown).response["violations"]] == []
    shown.emulate_media(media="print")
    assert shown.evaluate("(map => map.scrollHeight === map.clientHeight)(document.querySelector('.map'))")
    assert said == []


def test_search_by_keyboard_leaves_what_matches(browser: Browser, pages: dict[str, Path]) -> None:
    shown, said = opened(browser, pages["broken"])
    rows = shown.locator("tbody tr")
    every = rows.count()
    for _ in range(20):
        shown.keyboard.press("Tab")
        if shown.evaluate("document.activeElement.tagName") == "INPUT":
            break
    shown.keyboard.type("certificate")
    visible = [row for row in rows.all() if row.is_visible()]
    assert 0 < len(visible) < every
    assert all("certificate" in row.inner_text() for row in visible)
    shown.keyboard.press("Control+A")
    shown.keyboard.press("Delete")
    assert all(row.is_visible() for row in rows.all())
    assert said == []


@pytest.mark.parametrize("name", ["sound", "broken"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_everyone_can_read_it(
    browser: Browser, pages: dict[str, Path], name: str, dark: bool, width: int
) -> None:
    """By WCAG's rules as axe-core has them, in both schemes, and on a narrow screen without scrolling."""
    shown, said = opened(browser, pages[name], width=width, dark=dark)
    found = Axe().run(shown).response["violations"]
    assert [(each["id"], each["help"]) for each in found] == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    lightness = shown.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(lightness[:3]) < 300) == dark
    assert said == []


def test_paper_has_all_of_it(browser: Browser, pages: dict[str, Path]) -> None:
    shown, _ = opened(browser, pages["broken"])
    shown.emulate_media(media="print")
    assert all(row.is_visible() for row in shown.locator("tbody tr").all())
    assert not shown.locator("input").is_visible()
