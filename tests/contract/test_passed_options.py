"""An option of a command is declared once: its role gets the type and the description from the parser."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml

from aqueduct.cli import build_parser, config_file, duration, selection
from aqueduct.estate.check import variables
from docs.generate import PASSED_OPTIONS, ROOT, PassedOptions, option_specs, specification
from plugins.filter.units import option_file

SAMPLES = {"int": 1 << 20, "float": 1.5, "str": "10s", "list": ["a"], "bool": True}


def declared(passed: PassedOptions, role: str) -> dict[str, Any]:
    return dict(specification(ROOT / "roles" / role)["options"][passed.variable])


def test_new_option_of_verb_is_option_of_role() -> None:
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--store", required=True, help="URL of the store")
    add("--tasks", "-t", type=selection.whole(most=9), help="tasks: 100%% of the cores; default 1")
    add("--hours", type=duration.hours, help="hours")
    add("--wait", type=duration.parse, help="maximum wait")
    add("--key", type=Path, action="append", help="key")
    add("--topics", metavar="A,B", type=selection.names, help="topics")
    add("--kind", choices=["one", "other"], help="kind")
    add("--again", action="store_true", help="repeat")
    add("--former", help=argparse.SUPPRESS)
    assert yaml.safe_load("\n".join(("options:", *option_specs(parser, {"store"}))))["options"] == {
        "tasks": {"description": "Tasks: 100% of the cores; default 1.", "type": "int"},
        "hours": {"description": "Hours.", "type": "float"},
        "wait": {"description": "Maximum wait.", "type": "str"},
        "key": {"description": "Key.", "type": "list", "elements": "str"},
        "topics": {"description": "Topics.", "type": "list", "elements": "str"},
        "kind": {"description": "Kind.", "type": "str", "choices": ["one", "other"]},
        "again": {"description": "Repeat.", "type": "bool"},
    }


@pytest.mark.parametrize("role", PASSED_OPTIONS)
def test_verb_accepts_each_option_of_its_role(role: str, tmp_path: Path) -> None:
    passed = PASSED_OPTIONS[role]
    options = declared(passed, role)["options"]
    assert options
    given = {name: option.get("choices", [SAMPLES[option["type"]]])[0] for name, option in options.items()}
    file = tmp_path / "options.yml"
    file.write_text(option_file(given))
    words = config_file.expanded(build_parser(), [passed.verb, f"--config={file}"])
    assert {word.partition("=")[0] for word in words[2:]} == {f"--{name}" for name in options}


@pytest.mark.parametrize("role", PASSED_OPTIONS)
def test_options_set_elsewhere_exist(role: str) -> None:
    verb, _ = config_file.called_verb(build_parser(), [PASSED_OPTIONS[role].verb])
    assert {f"--{name}" for name in PASSED_OPTIONS[role].others} <= {*verb._option_string_actions}


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ({}, []),
        ({"segment-bytes": 1 << 20}, []),
        ({"segment-byte": 1 << 20}, ["key-unknown"]),
        ({"segment-bytes": "many"}, ["value-type-wrong"]),
        ({"store": "s3://other/store"}, ["key-unknown"]),
    ],
)
def test_inventory_check_refuses_other_options(value: dict[str, Any], ids: list[str]) -> None:
    spec = declared(PASSED_OPTIONS["backup"], "backup")
    assert [fault.id for _, fault in variables.faults(value, spec)] == ids
