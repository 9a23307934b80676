"""An option stands in the command line: roles give it what it takes, and have its defaults.

The lab's units are rendered as the roles render them, and read by the parser that will read them there.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from kit import ansible_process
from kit.plugin_modules import load_filters
from kit.unit_files import arguments_of

from aqueduct.cli import build_parser, config_file
from aqueduct.errors import Refused
from aqueduct.link.options import Common, Create, Downstream, Upstream, build

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(__file__).parent / "units/playbook.yml"
TASKS = Path(__file__).parent / "units/render.yml"
ROLES = [each["roles"][0] for each in yaml.safe_load(PLAYBOOK.read_text())]
SOURCE = {"name": "etc", "host": "a", "folder": "/etc", "port": 2222, "exclude": ["*.tmp", "a,b"]}
# What is not a default: of SOURCE, of `backup_options`, and of the lab's flows, which a cluster compares.
NOT_DEFAULT = {
    ("backup",): {"segment_bytes"},
    ("files", "backup"): {"ssh_port", "exclude"},
    ("reconcile",): {"source_bootstrap_server", "wait"},
    ("quorum", "backup"): {"within"},  # the lab's controllers write nothing while nothing changes
}
ENDS: Mapping[str, type[Common]] = {"diode_upstream": Upstream, "diode_downstream": Downstream}
# The roles' options of other programs: journalctl, nft, MirrorMaker.
# Of journalctl and others; of Kafka's storage tool; of ansible-playbook.
OTHERS = {
    "--lines",
    "--no-pager",
    "--output",
    "--unit",
    "--file",
    "--clusters",
    "--since",
    "--grep",
    "--quiet",
    "--sync",
    "--property",
    "--value",
}
OTHERS |= {
    "--cluster-id",
    "--config",
    "--initial-controllers",
    "--no-initial-controllers",
    "--ignore-formatted",
    "--limit",
}


def literal_defaults() -> dict[str, Any]:
    """Return the defaults of these roles that are numbers, or texts without a template."""
    files = (ROOT / "roles" / role / "defaults/main.yml" for role in ROLES)
    every = {name: value for file in files for name, value in yaml.safe_load(file.read_text()).items()}
    return {
        name: value
        for name, value in every.items()
        if isinstance(value, int | float) or (isinstance(value, str) and "{{" not in value)
    }


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], str]:
    """Return what the roles render for the lab with their own defaults, by role and template."""
    folder = tmp_path_factory.mktemp("units")
    found = folder / "rendered"
    found.mkdir()
    for role in ROLES:
        tasks = folder / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        (tasks / "main.yml").symlink_to(TASKS)
        for part in ("defaults", "meta", "templates", "vars"):
            (tasks.parent / part).symlink_to(ROOT / "roles" / role / part)
    given = literal_defaults() | {
        "backup_every_seconds": 300,  # 0, its default, has no service
        "backup_lifecycle": {"days": 30, "topics_pattern": "old.*"},
        "backup_options": {"segment-bytes": 1 << 20},
        "backup_prune_keep": {"last": 1, "daily": 7, "weekly": 8, "monthly": 12, "days": 2},
        "drill_metrics_directory": str(folder),
        "backup_metrics_directory": str(folder),
        "file_backup_keep": {"last": 1, "daily": 7, "weekly": 8, "monthly": 12, "days": 2},
        "file_backup_sources": [SOURCE],
        "kafka_quorum_backup_store_url": "s3://bucket/quorum",  # no backup without one
        "_drill_state": str(folder),  # of a report, the folder must exist
        "_reconcile_state": str(folder),
        "rendered": str(found),
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "diode_end_keys_directory": str(folder),
    }
    shutil.copy(PLAYBOOK, folder)  # beside the roles that it is to find
    done = ansible_process.play(
        folder / PLAYBOOK.name, "--inventory=inventories/lab", f"--extra-vars={json.dumps(given)}"
    )
    assert done.returncode == 0, done.stdout
    texts = {}
    for path in found.iterdir():
        role, *_, template = path.name.split(" ")
        texts[role, template] = path.read_text()
    return texts


def with_file(
    arguments: Sequence[str], role: str, rendered: Mapping[tuple[str, str], str], folder: Path
) -> list[str]:
    """Return the arguments with the options of the file that `--config` names, as its template renders it."""
    here = []
    for word in arguments:
        file = folder / Path(word).name
        if (
            word.startswith("--config=") and (role, f"{file.name}.j2") in rendered
        ):  # an end of a link has its own
            file.write_text(rendered[role, f"{file.name}.j2"])
            here.append(f"--config={file}")
        else:
            here.append(word)
    return config_file.expanded(build_parser(), here)


# Our units whose commands have options of the kind that a file has; the others run before a service starts.
NUMBER_OF_UNITS = {"backup": 3, "file_backup": 2, "land": 2, "mirror_maker": 2, "reconcile": 0}
WITHOUT_FILE = {"kafka", "connect"}
# What option files of roles are for; of the lab, those of a mirror are another engine's.
OPTION_FILES = {
    ("backup", "backup.yml.j2"): ("backup",),
    ("backup", "prune.yml.j2"): ("prune",),
    ("backup", "verify.yml.j2"): ("verify",),
    ("dedup", "dedup.yml.j2"): ("dedup",),
    ("drill", "drill.yml.j2"): ("drill",),
    ("file_backup", "backup.yml.j2"): ("files", "backup"),
    ("file_backup", "verify.yml.j2"): ("files", "verify"),
    ("kafka_quorum", "backup.yml.j2"): ("quorum", "backup"),
    ("land", "actions.yml.j2"): ("land", "status"),
    ("land", "land.yml.j2"): ("land",),
    ("mirror_maker", "mirror.yml.j2"): ("mirror",),
    ("reconcile", "reconcile.yml.j2"): ("reconcile",),
}
# `aqueduct diode` reads its file itself. Tests of each role render the others.
RENDERED_ELSEWHERE = {
    ("backup", "restore.yml.j2"),
    ("dedup", "create.yml.j2"),
    ("mirror_maker", "replicate.yml.j2"),
    ("monitoring", "status.yml.j2"),
    ("zookeeper", "backup.yml.j2"),
}


def test_a_verb_accepts_each_option_file(rendered: Mapping[tuple[str, str], str], tmp_path: Path) -> None:
    for (role, template), verb in OPTION_FILES.items():
        file = tmp_path / f"{role}.yml"
        file.write_text(rendered[role, template])
        words = config_file.expanded(build_parser(), [*verb, f"--config={file}"])
        assert len(words) > len(verb), (role, template)
        arguments = [word for word in words if not word.startswith("--config=")]
        assert other_defaults(arguments).keys() == NOT_DEFAULT.get(verb, {*()}), (role, template)


def test_a_setting_restarts_only_what_it_concerns(rendered: Mapping[tuple[str, str], str]) -> None:
    """A service restarts if a file of its folder is newer."""
    actions, landing = (
        yaml.safe_load(rendered["land", f"{name}.yml.j2"]).items() for name in ("actions", "land")
    )
    assert actions < landing  # in the same folder
    variables = yaml.safe_load((ROOT / "roles/backup/vars/main.yml").read_text())
    assert not variables["_backup_prune_config"].startswith(f"{variables['_backup_config']}/")


def test_each_option_file_is_tested() -> None:
    templates = {
        (path.parents[1].name, path.name)
        for path in ROOT.glob("roles/*/templates/*.yml.j2")
        if "option_file" in path.read_text()
    }
    assert templates == OPTION_FILES.keys() | RENDERED_ELSEWHERE


def parsers(
    parser: argparse.ArgumentParser, *path: str
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield each command, such as `dlq replay`, with its parser."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from parsers(each, *path, name)


COMMANDS = dict(parsers(build_parser()))


def other_defaults(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values that aren't the option's default, where it has one; flags are meant to be given."""
    path = max((path for path in COMMANDS if tuple(arguments[: len(path)]) == path), key=len)
    defaults = {each.dest: each.default for each in COMMANDS[path]._actions if each.nargs != 0}
    given = vars(build_parser().parse_args(arguments))
    return {
        name: given[name]
        for name, default in defaults.items()
        if default not in (None, (), argparse.SUPPRESS, given.get(name))
    }


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_s_command_line_is_taken(
    role: str, rendered: Mapping[tuple[str, str], str], tmp_path: Path
) -> None:
    """A unit has an option's default, too, where its role has one."""
    units = [
        text
        for (each, template), text in rendered.items()
        if each == role
        and ("service" in template or template == "start.j2")
        and template != "mirror_maker@.service.j2"  # runs start.j2
    ]
    assert len(units) == NUMBER_OF_UNITS.get(role, 1)
    for unit in units:
        assert role in WITHOUT_FILE or any(word.startswith("--config") for word in arguments_of(unit))
        arguments = with_file(arguments_of(unit), role, rendered, tmp_path)
        verb = tuple(word for word in arguments[:2] if not word.startswith("-"))
        assert other_defaults(arguments).keys() == NOT_DEFAULT.get(verb, {*()})


def test_service_units_limit_memory_and_system_calls(
    rendered: Mapping[tuple[str, str], str],
) -> None:
    """What inflates ends a service and not its host; of all that run, scenarios ask systemd."""
    units = {key: text.splitlines() for key, text in rendered.items() if "service" in key[1]}
    assert len(units) > len(ROLES)
    for key, lines in units.items():
        assert [line for line in lines if re.fullmatch(r"MemoryMax=\d+[%M]", line)], key
        assert any(line.startswith("SystemCallFilter=@system-service landlock_") for line in lines), key
        assert "ProtectProc=invisible" in lines, key


def test_a_unit_lists_no_writable_folder_below_another(rendered: Mapping[tuple[str, str], str]) -> None:
    """A service could put a link in the place of the lower one, which systemd follows at its next start."""
    seen = 0
    for key, text in rendered.items():
        for line in re.findall(r"^ReadWritePaths=(.*)$", text, re.MULTILINE):
            paths = {PurePosixPath(word.lstrip("-+")) for word in line.split()}
            assert not [path for path in paths if paths & {*path.parents}], key
            seen += 1
    assert seen > 5


def test_the_documented_sandbox_is_that_of_units() -> None:
    """A command by hand has what `aqueduct.estate.sandboxed` gives the commands of playbooks."""
    text = (ROOT / "docs/security.md").read_text()
    function = re.search(r"^in_sandbox\(\) \{.*?^\}$", text, re.DOTALL | re.MULTILINE)
    assert function
    printing = "systemd-run() { printf '%s\\n' \"$@\"; }"
    script = f"{printing}\n{function[0]}\nin_sandbox kafka /var/lib/kafka cmd 'a b'"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    words = set(done.stdout.splitlines())
    properties = {"WorkingDirectory": "/var/lib/kafka"}
    units = load_filters("units").sandboxed(["cmd", "a b"], "kafka", "/var/lib/kafka", properties)
    assert words == {*units[1:]}


def test_nobody_is_told_to_leave_the_sandbox() -> None:
    """Only the page that explains the danger has the words, once."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "aqueduct").rglob("*.py")]
    pages += [path for folder in ("roles", "playbooks", "plugins") for path in (ROOT / folder).rglob("*.yml")]
    telling = {
        path.relative_to(ROOT).as_posix(): len(found)
        for path in pages
        if (found := re.findall(r"\bsudo (?:-u|--user)\b", path.read_text()))
    }
    assert telling == {"docs/security.md": 1}


def test_writable_folders_of_units_come_from_filter() -> None:
    """It leaves out what is below another folder."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("roles", "playbooks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".yml", ".j2"} and "ReadWritePaths" in path.read_text()
    }
    assert found == {"roles/kafka_quorum/tasks/plan.yml"}  # two folders that differ


@pytest.mark.parametrize("role", ENDS)
def test_a_link_s_options_are_taken(
    role: str, rendered: Mapping[tuple[str, str], str], tmp_path: Path
) -> None:
    file = tmp_path / "config.yml"
    file.write_text(rendered[role, "config.yml.j2"])
    settings = build(ENDS[role], file, {}, {}, pytest.fail)
    other = {
        each.name
        for each in fields(settings)
        if each.default not in (None, MISSING, getattr(settings, each.name))
    }
    assert other == {"id", "link"}  # each link has its own


def test_options_of_a_ledger_are_accepted(rendered: Mapping[tuple[str, str], str], tmp_path: Path) -> None:
    file = tmp_path / "create.yml"
    file.write_text(rendered["dedup", "create.yml.j2"])
    assert build(Create, file, {}, {}, pytest.fail).topic == "diode-gaps-pro1"


def faults(code: str) -> Iterator[str]:
    """Yield the options in a role's code that none of the commands which it runs takes so."""
    named = re.findall(r"(?:_aqueduct|bin/aqueduct)\b\W*([a-z]+)\b(?:[\s',-]+([a-z]+)\b)?", code)
    # Where a variable says which command of a verb it is, the options of all of them are taken.
    paths = {
        path
        for words in named
        for path in ([words] if words in COMMANDS else (each for each in COMMANDS if each[:1] == words[:1]))
    }
    actions = (action for path in paths for action in COMMANDS[path]._actions)
    options = {spelling: action for action in actions for spelling in action.option_strings}
    for option, value in set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)(=?)", code)) if paths else ():
        if option in options:
            if value and options[option].nargs == 0:
                yield f"{option} takes no value"
        elif option not in OTHERS:
            yield f"{option} is none of {', '.join(sorted(map(' '.join, paths)))}"


# Options of a role that are a mapping, and the command that takes them.
MAPPINGS = {
    "_backup_store_options": ("backup",),
    "_backup_options": ("backup",),
    "_backup_prune_options": ("prune",),
    "_backup_restore_own_options": ("restore",),
    "_dedup_create_options": ("diode", "create"),
    "_dedup_options": ("dedup",),
    "_drill_options": ("drill",),
    "_file_backup_options": ("files", "backup"),
    "_file_backup_verify_options": ("files", "verify"),
    "_kafka_quorum_backup_options": ("quorum", "backup"),
    "_land_options": ("land",),
    "_land_service_options": ("land",),
    "_mirror_maker_options": ("replicate",),
    "_reconcile_options": ("reconcile",),
    "_zookeeper_backup_options": ("zookeeper", "backup"),
    "_backup_verify_options": ("verify",),
    "_monitoring_estate_options": ("status",),
}


def test_keys_of_option_mappings_are_command_options() -> None:
    """Those without a value in the lab, too."""
    found = {
        name: value
        for path in ROOT.glob("roles/*/vars/main.yml")
        for name, value in yaml.safe_load(path.read_text()).items()
        if name.endswith("_options") and isinstance(value, dict)
    }
    assert {*found} == {*MAPPINGS}
    for name, verb in MAPPINGS.items():
        taken = {word for action in COMMANDS[verb]._actions for word in action.option_strings}
        assert {f"--{key}" for key in found[name]} <= taken, name


def code_of(role: Path) -> str:
    files = (path for part in ("tasks", "templates", "vars") for path in sorted((role / part).rglob("*")))
    return "\n".join(path.read_text() for path in files if path.is_file())


def test_commands_accept_options_that_roles_pass() -> None:
    code = {role.name: code_of(role) for role in (ROOT / "roles").iterdir()}
    assert sum("aqueduct" in each and "--" in each for each in code.values()) > len(ROLES)
    assert {role: found for role, each in code.items() if (found := list(faults(each)))} == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("[_backup_aqueduct, 'backup', '--topics=a']", []),
        ("[_backup_aqueduct, 'backup', '--topic=a']", ["--topic is none of backup"]),
        ("{{ _aqueduct }} doctor connect --strict=true", ["--strict takes no value"]),
        ("- {{ _dedup_aqueduct }}\n- diode\n- create\n- --topics=a", ["--topics is none of diode create"]),
        ("java --topic=a", []),
    ],
)
def test_a_fault_is_found(code: str, expected: list[str]) -> None:
    assert list(faults(code)) == expected


def test_a_default_that_drifted_is_found() -> None:
    needed = ["--bootstrap-server=a:1", "--raw-topics=r", "--gap-topic=g", "--every=10s"]
    assert other_defaults(["dedup", *needed, "--gap-grace=30s"]) == {}
    assert other_defaults(["dedup", *needed, "--gap-grace=31s"]) == {"gap_grace": 31}
    for misspelt in ("--gap-grace", "--gap-grce=30s"):
        with pytest.raises(Refused):
            other_defaults(["dedup", *needed, misspelt])


UNITS = sorted((ROOT / "roles").glob("*/templates/*.service.j2"))
TIMERS = sorted((ROOT / "roles").glob("*/templates/*.timer.j2"))
BASES = ROOT / "roles/host/templates/units"


def test_every_unit_has_a_limit_of_memory() -> None:
    """The filter `hardened` sets one; a directive in a template would precede it."""
    without = set()
    for template in UNITS:
        text = template.read_text()
        assert not re.search(r"^MemoryMax=", text, re.MULTILINE), template
        variables = yaml.safe_load((template.parents[1] / "vars/main.yml").read_text())
        properties = re.findall(r"^\{% set unit_properties = (.*) %\}$", text, re.MULTILINE)
        variable = properties[0].split()[0] if properties else ""
        if "hardened(" not in f"{properties} {variables.get(variable, '')}":
            without.add(template.name)
    assert without == {"ports.service.j2", "diode_silence.service.j2"}  # they set firewall rules, and end


@pytest.mark.parametrize("template", [*UNITS, *TIMERS], ids=lambda template: template.name)
def test_a_unit_extends_a_base(template: Path) -> None:
    """Sections, ordering and sandboxing are in the bases only. A role finds them by its link."""
    first, *rest = template.read_text().splitlines()
    bases = ("service", "rules") if template in UNITS else ("timer",)
    assert first in {f"{{% extends 'units/{base}.j2' %}}" for base in bases}
    sections = {line for line in rest if line.startswith("[")}
    assert sections <= {"[Install]"}
    link = template.parent / "units"
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == BASES
