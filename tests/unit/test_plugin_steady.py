"""The callback steady: colours of Ansible stay, and those that a host answers are shown as text."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from ansible import constants, context
from ansible.executor.stats import AggregateStats
from ansible.module_utils.common.collections import ImmutableDict
from ansible.plugins.loader import callback_loader
from ansible.utils import color
from kit import plugin_modules  # noqa: F401 (Ansible's loader of collections)

CODES = [code for code in constants.COLOR_CODES.values() if code]
HOSTILE = "".join(f"\x1b[{code}m" for code in ("0", *CODES, "8", "38;5;16"))
GREEN = f"\x1b[{constants.COLOR_CODES['green']}m"


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(color, "ANSIBLE_COLOR", True)
    callback = callback_loader.get("aqueduct.estate.steady")
    display = vars(callback._display).get("display")
    callback.set_options()
    yield callback
    callback._display.display = getattr(display, "__wrapped__", display)


@pytest.fixture
def steady(callback: Any) -> ModuleType:
    return sys.modules[type(callback).__module__]


def displayed(callback: Any, steady: ModuleType, shown: list[str]) -> None:
    """Collect what is displayed, as it would be written to the terminal."""
    callback._display.display = steady.as_text(lambda msg, *_, **__: shown.append(msg))


def test_colours_of_a_host_are_shown_as_text(callback: Any, steady: ModuleType) -> None:
    shown: list[str] = []
    displayed(callback, steady, shown)
    callback._display.display(f"ok: [h] => {HOSTILE}hidden")
    assert "\x1b" not in shown[0]
    assert shown[0].count("\\x1b[") == len(CODES) + 3


def test_a_difference_has_the_colours_of_ansible_alone(callback: Any, steady: ModuleType) -> None:
    shown: list[str] = []
    displayed(callback, steady, shown)
    differences = [
        {
            "before": f"a{HOSTILE}\n",
            "after": f"b{HOSTILE}\n",
            "before_header": HOSTILE,
            "after_header": HOSTILE,
        },
        {"before": {HOSTILE: [HOSTILE]}, "after": {}},
        {"prepared": HOSTILE},
    ]
    callback._display.display(callback._get_diff(differences))
    own = {f"\x1b[{color.parsecolor(name)}m" for name in ("green", "red", "cyan")} | {"\x1b[0m"}
    rest = shown[0]
    assert GREEN in rest
    for sequence in own:
        rest = rest.replace(sequence, "")
    assert "\x1b" not in rest
    assert "\\x1b[0;30m" in rest


def test_the_recap_keeps_its_colours(
    callback: Any, steady: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(check=False))
    shown: list[str] = []
    displayed(callback, steady, shown)
    stats = AggregateStats()
    stats.processed["some-host"] = 1
    stats.increment("ok", "some-host")
    stats.increment("changed", "some-host")
    stats.custom["_run"] = {"hidden": HOSTILE}
    callback.set_option("show_custom_stats", True)
    callback.v2_playbook_on_stats(stats)
    [recap, *_] = [line for line in shown if line.startswith("\x1b")]
    assert "some-host" in recap
    assert f"{GREEN}ok=1" in recap
    assert not [line for line in shown if "RUN" in line and "\x1b" in line]
