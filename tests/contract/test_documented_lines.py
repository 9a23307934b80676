"""Each documented `-e` of a playbook, as it is typed, against that playbook.

Ansible's own classes read playbook, roles, inventory and command line in this process, because a run of
`ansible-playbook` takes seconds. What the playbook asserts before it needs a host must hold, and no condition
that depends on the typed variables may be of the wrong type. Of a condition that also needs what a host says,
the variables that decide by themselves are evaluated. `test_typed_variables` reads all conditions as texts.

Then `ansible-playbook` runs the lines in check mode, until it needs a host: no host answers. Lines of a
playbook that give no variable two values are one run. Runs that differ only in values are long, except one.
"""

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import context
from ansible.errors import AnsibleBrokenConditionalError, AnsibleError, AnsibleUndefinedVariable
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.playbook.block import Block
from ansible.playbook.helpers import load_list_of_blocks
from ansible.playbook.play import Play
from ansible.playbook.role_include import IncludeRole
from ansible.playbook.task import Task
from ansible.playbook.task_include import TaskInclude
from ansible.template import Templar, trust_as_template
from ansible.utils import vars as ansible_vars
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.utils.context_objects import CLIArgs
from ansible.vars.manager import VariableManager
from kit import ansible_process
from kit.plugin_modules import load_filters
from kit.typed_variables import PARSER, bare, decided

from aqueduct.estate.playbook_variables import Declaration, check

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("playbooks/*.yml")]
# A command line, or `-e` alone, which belongs to the playbook before it.
LINE = re.compile(
    r"playbooks/(\w+)\.yml((?: +(?:-e|--limit|-i) +[\w=:,./!-]*\w)*)|((?:-e +\w+=[\w:,./-]*\w *)+)"
)
OLD = re.compile(r"\b(?:site=old|site_old|confirm=old)\b")


def lines() -> dict[tuple[str, tuple[str, ...]], bool]:
    """Return each documented playbook with its options `-e`; whether these are the whole command line."""
    found: dict[tuple[str, tuple[str, ...]], bool] = {}
    own = {path.stem: path.read_text() for path in ROOT.glob("playbooks/*.yml")}
    for path in PAGES:
        last = ""  # the playbook that the page named last
        for line in path.read_text().splitlines():
            playbook = path.stem if path.suffix == ".yml" and line.startswith("#") else ""
            for named, options, alone in LINE.findall(line):
                playbook, last = named or playbook, named or last
                words = shlex.split(options or alone)
                given = tuple(words[at + 1] for at, word in enumerate(words) if word == "-e")
                names = {each.partition("=")[0] for each in given}
                if not playbook and last and all(re.search(rf"\b{name}\b", own[last]) for name in names):
                    playbook = last
                if playbook and given:
                    found[playbook, given] = bool(named) or found.get((playbook, given), False)
    return found


LINES = lines()
variables_of_roles = load_filters("extra_vars").variables_of_roles


def test_documented_lines_are_found() -> None:
    assert LINES["migrate_to_kraft", ("site=old", "to=kraft", "confirm=old")]
    assert ("rolling_restart", ("kafka_restart_all=true",)) in LINES
    assert len(LINES) > 30


class CommandLine:
    """Variables of an inventory, and those that a command line gives."""

    def __init__(self, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(context, "CLIARGS", CLIArgs({**_DEFAULTS, "extra_vars": given}))
        # It reads the command line once, and keeps it.
        monkeypatch.setattr(ansible_vars.load_extra_vars, "extra_vars", None, raising=False)
        where = "molecule/old_estate/inventory" if OLD.search(" ".join(given)) else "inventories/lab"
        self.loader, self.inventory = inventory(where)
        self.variables = VariableManager(self.loader, self.inventory)
        self.names = dependent({each.partition("=")[0] for each in given})

    def _templar(self, play: Play, task: Task) -> Templar:
        hosts = self.inventory.get_hosts(str(play.hosts[0])) or self.inventory.get_hosts("kafka")
        return Templar(self.loader, self.variables.get_vars(play=play, host=hosts[0], task=task))

    def check_names_and_values(self, play: Play, task: Task, *, is_whole: bool) -> None:
        """Check the line as the action of a playbook does; only a whole line has all required variables."""
        given = self._templar(play, task).template(task.args)
        declaration = Declaration(
            playbook="",
            kinds=given["variables"],
            required=given.get("required", ()) if is_whole else (),
            choices=given.get("choices", {}),
            confirms=given.get("confirms", "") if is_whole else "",
        )
        check(declaration, ansible_vars.load_extra_vars(self.loader), variables_of_roles())

    def evaluate(self, play: Play, task: Task, conditions: Iterable[Any]) -> Iterator[bool]:
        """Evaluate conditions; nothing for one that needs what only a host knows."""
        templar = self._templar(play, task)
        for each in conditions:
            self._check_operands(templar, task, each)
            try:
                yield templar._engine.evaluate_conditional(each)
            except AnsibleBrokenConditionalError as error:
                raise AssertionError(f"{task}: {each}: {error}") from None
            except AnsibleError:
                continue

    def _check_operands(self, templar: Templar, task: Task, condition: object) -> None:
        """Check each variable that decides by itself: the rest of a condition may need a host."""
        if not isinstance(condition, str):
            return
        for name in {bare(each) for each in decided(PARSER.parse(f"{{{{ {condition} }}}}"), condition=True)}:
            if name and self.names.fullmatch(name):
                with suppress(AnsibleUndefinedVariable):
                    value = templar.evaluate_expression(trust_as_template(name))
                    assert not isinstance(value, str), f"{task}: {condition}: {name} is the text {value}"


class PlaybookTasks:
    """All tasks of a playbook, with those of the roles and files that it includes by name."""

    def __init__(self, playbook: str, line: CommandLine) -> None:
        self.loader, self.variables = line.loader, line.variables
        AnsibleCollectionConfig.playbook_paths = [str(ROOT / "playbooks")]
        path = ROOT / f"playbooks/{playbook}.yml"
        plays = Playbook.load(str(path), self.variables, self.loader).get_plays()
        self.plays = [(play, list(self._tasks(play))) for play in plays]

    def _tasks(self, play: Play) -> Iterator[Task]:
        for of_role in play.get_roles():
            for block in of_role.compile(play):
                yield from self._of(play, block)
        for block in play.tasks:
            yield from self._of(play, block)

    def _of(self, play: Play, block: Block) -> Iterator[Task]:
        for each in (*block.block, *block.rescue, *block.always):
            if isinstance(each, Block):
                yield from self._of(play, each)
                continue
            yield each
            blocks: list[Block] = []
            if isinstance(each, IncludeRole):
                if "{{" not in each._role_name:
                    blocks, _ = each.get_block_list(play, self.variables, self.loader)
            elif isinstance(each, TaskInclude) and "{{" not in (file := each.args.get("_raw_params", "")):
                folder = f"{each._role._role_path}/tasks" if each._role else str(ROOT / "playbooks")
                blocks = load_list_of_blocks(
                    self.loader.load_from_file(f"{folder}/{file}", trusted_as_template=True) or [],
                    play=play,
                    parent_block=each.build_parent_block() if not each._role else None,
                    role=each._role,
                    task_include=each,
                    variable_manager=self.variables,
                    loader=self.loader,
                )
            for more in blocks:
                yield from self._of(play, more)


_PLAYBOOKS: dict[str, PlaybookTasks] = {}


def tasks_of(playbook: str, line: CommandLine) -> PlaybookTasks:
    """Return a playbook's tasks, which are the same for all command lines."""
    if playbook not in _PLAYBOOKS:
        _PLAYBOOKS[playbook] = PlaybookTasks(playbook, line)
    return _PLAYBOOKS[playbook]


_DEFAULTS: dict[str, Any] = {
    "subset": None,
    "tags": ("all",),
    "skip_tags": (),
    "check": False,
    "diff": False,
    "start_at_task": None,
    "verbosity": 0,
    "forks": 1,
    "basedir": str(ROOT / "playbooks"),
}


@cache
def inventory(path: str) -> tuple[DataLoader, InventoryManager]:
    loader = DataLoader()
    loader.set_basedir(str(ROOT / "playbooks"))
    return loader, InventoryManager(loader, [str(ROOT / path)])


@cache
def texts() -> dict[str, str]:
    """Return the variables of roles and plays, each with its text."""
    found: dict[str, str] = {}
    for path in [*ROOT.glob("roles/*/defaults/main.yml"), *ROOT.glob("roles/*/vars/main.yml")]:
        found |= {name: str(value) for name, value in (yaml.safe_load(path.read_text()) or {}).items()}
    for path in ROOT.glob("playbooks/*.yml"):
        for name, value in re.findall(r"^\s+(_\w+): (.*\{\{.*)$", path.read_text(), re.MULTILINE):
            found[name] = f"{found.get(name, '')} {value}"
    return found


def dependent(names: set[str]) -> re.Pattern[str]:
    """Return a pattern of these variables, and of all that are made of them."""
    while True:
        pattern = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
        more = names | {name for name, text in texts().items() if pattern.search(text)}
        if more == names:
            return pattern
        names = more


def conditions(task: Task) -> list[Any]:
    said = task.args.get("that", [])
    every = [*task.when, *task.until, *task.changed_when, *task.failed_when]
    return [*every, *(said if isinstance(said, list) else [said])]


@pytest.mark.parametrize(("playbook", "given"), LINES, ids=str)
def test_documented_command_line_is_accepted_as_written(
    playbook: str, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_whole = LINES[playbook, given]
    line, needs_hosts = CommandLine(given, monkeypatch), not is_whole
    for play, tasks in tasks_of(playbook, line).plays:
        for task in tasks:
            if task.action == "aqueduct.estate.extra_vars":
                line.check_names_and_values(play, task, is_whole=is_whole)
            # What follows a group that the playbook makes needs its hosts.
            needs_hosts |= task.action.rpartition(".")[2] == "group_by"
            mine = [each for each in conditions(task) if line.names.search(str(each))]
            if mine:
                list(line.evaluate(play, task, mine))
            if not needs_hosts and task.action.rpartition(".")[2] == "assert":
                assert all(line.evaluate(play, task, conditions(task))), f"{task}: {conditions(task)}"


# A whole command line, without what precedes the playbook: its inventory is another one here.
COMMAND = re.compile(
    r"(?:playbooks/(\w+)\.yml|aqueduct\.estate\.(\w+))((?: +(?:-e|--limit|-i) +[\w=:,./!@-]*\w(?![\w<]))+)"
)
RECIPIENT = "@recipient-pro1.yml"  # a file that the guide on backups writes
OTHER_HOST = {"--limit": "lake-1"}  # no inventory here has it
# Options that are right, and do not fit the inventory of these runs: what the playbook answers.
UNFIT = {
    ("dlq_replay", "connector=flights-to-warehouse"): "connector-not-chosen",
    ("upgrade_features", "site=old"): "site-without-brokers",  # the guide migrates it before
}


def command_lines() -> dict[str, list[dict[str, str]]]:
    """Return the documented options of each playbook, line by line, the whole command lines first."""
    found: dict[str, list[dict[str, str]]] = {}
    for path in PAGES:
        for match in COMMAND.finditer(path.read_text().replace("\\\n", " ")):
            words = shlex.split(match[3])
            options = dict(option(*pair) for pair in zip(words[::2], words[1::2], strict=True))
            options.pop("-i", None)
            playbook = match[1] or match[2]
            if options in ({}, OTHER_HOST):
                continue
            if options not in found.setdefault(playbook, []):
                found[playbook].append(options)
    for (playbook, given), is_whole in LINES.items():
        if not is_whole and not any(value.isupper() for _, _, value in map(partitioned, given)):
            options = dict(option("-e", each) for each in given)
            confirmed = re.search(r"confirms: (\w+)", (ROOT / f"playbooks/{playbook}.yml").read_text())
            if "-e confirm" in options and confirmed:
                options[f"-e {confirmed[1]}"] = options["-e confirm"]
            found.setdefault(playbook, []).append(options)
    return found


def partitioned(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def option(name: str, value: str) -> tuple[str, str]:
    """Return an option and its value; the name of a variable belongs to its option."""
    if name != "-e" or "=" not in value:
        return name, value
    variable, _, text = partitioned(value)
    return f"-e {variable}", text


def runs() -> list[tuple[str, dict[str, str]]]:
    """Return playbooks with options, each of a line or of several that do not contradict each other."""
    every: list[tuple[str, dict[str, str]]] = []
    for playbook, documented in command_lines().items():
        own: list[dict[str, str]] = []
        for options in documented:
            fitting = [
                run for run in own if all(run.get(name, text) == text for name, text in options.items())
            ]
            if fitting:
                fitting[0].update(options)
            else:
                # A part of a line has the rest from a whole one.
                base = own[0] if own and {"-e site", "--limit"} & {*own[0]} - {*options} else {}
                own.append({name: base[name] for name in ("-e site", "--limit") if name in base} | options)
        every += [(playbook, run) for run in own]
    return every


RUNS = runs()


@pytest.fixture(scope="module")
def inventories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return copies of inventories, whose hosts end each connection at once."""
    folder = tmp_path_factory.mktemp("inventories")
    ssh = folder / "ssh"
    ssh.write_text("#!/bin/sh\nexit 255\n")
    ssh.chmod(0o755)
    copies = {}
    for source in ("inventories/lab", "inventories/example", "molecule/keep", "molecule/old_estate"):
        name = Path(source).name
        inventory = ROOT / source / ("inventory" if source.startswith("molecule") else "")
        copies[name] = Path(shutil.copytree(inventory, folder / name))
        lab = copies[name] / "group_vars/lab.yml"
        if lab.exists():
            lab.write_text(lab.read_text().replace("community.docker.docker", "ssh"))
        unreachable = {"all": {"vars": {"ansible_ssh_executable": str(ssh)}}}
        (copies[name] / "unreachable.yml").write_text(yaml.safe_dump(unreachable))
    return copies


def inventory_of(playbook: str, options: dict[str, str]) -> str:
    """Return the name of an inventory that has the names of a line."""
    if re.search(r"\b(?:old|site_old|site_lake)\b", " ".join(options.values())):
        return "old_estate"
    if playbook == "restore_zookeeper":
        return "old_estate"
    if playbook == "authority":
        return "keep"  # it deploys the estate: this one has few hosts
    return "example" if "enclave1" in " ".join(options.values()) else "lab"


def test_all_documented_options_are_run() -> None:
    typed = {(playbook, *each) for playbook, options in RUNS for each in options.items()}
    assert {("restore", "-e topics", "crews:crews-restored"), ("restore", "-e", RECIPIENT)} <= typed
    assert {("authority", "-e step", step) for step in ("introduce", "switch", "retire")} <= typed
    for playbook, given in LINES:
        for name, _, value in map(partitioned, given):
            assert value.isupper() or (playbook, f"-e {name}", value) in typed


def unfit_answers(playbook: str, options: dict[str, str]) -> list[str]:
    typed = {f"{name.removeprefix('-e ')}={value}" for name, value in options.items()}
    return [answer for (unfit, given), answer in UNFIT.items() if unfit == playbook and given in typed]


def is_repeated(number: int) -> bool:
    """Return whether another run differs only in values, which a test above evaluates for each line."""
    playbook, options = RUNS[number]
    return any(
        other == playbook
        and inventory_of(playbook, others) == inventory_of(playbook, options)
        and not unfit_answers(playbook, others)
        and (options.keys() < others.keys() or (options.keys() == others.keys() and index < number))
        for index, (other, others) in enumerate(RUNS)
    )


@pytest.mark.parametrize(
    ("playbook", "options"),
    [
        pytest.param(*run, marks=[pytest.mark.long] if is_repeated(number) else [])
        for number, run in enumerate(RUNS)
    ],
    ids=str,
)
def test_documented_lines_run_until_a_host(
    playbook: str, options: dict[str, str], inventories: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / RECIPIENT[1:]).write_text("backup_restore_key: the text of recipient.key\n")
    typed = []
    for name, value in options.items():
        file = f"@{tmp_path}/{value[1:]}" if value.startswith("@") else value
        typed += [f"{name.removeprefix('-e ')}={value}" if name.startswith("-e ") else file]
        typed[-1:] = ["-e" if name.startswith("-e") else name, typed[-1]]
    inventory = inventories[inventory_of(playbook, options)]
    done = ansible_process.play(f"--inventory={inventory}", "--check", f"playbooks/{playbook}.yml", *typed)
    printed = done.stdout + done.stderr
    if unfit := unfit_answers(playbook, options):
        assert (done.returncode, f"[{unfit[0]}]" in printed) == (2, True), printed
        return
    before, contacted, _ = printed.partition("Data could not be sent to remote host")
    assert contacted or done.returncode == 0, printed
    assert "FAILED!" not in before, before
    assert not re.search(r"\[(?:playbook-variable-|extra-variable-)", printed), printed
