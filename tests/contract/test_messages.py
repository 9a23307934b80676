"""Messages are declared: all identifiers that the code uses, and no other. Each error has an identifier."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml

from aqueduct.messages import MESSAGES
from aqueduct.messages.message import Area, DeclaredMessage, by_id

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "aqueduct"
ERRORS = {"AqueductError", "Failed", "Refused"}
# Where an identifier stands among the arguments.
IDENTIFIER = {"Skipped": 2, "Warned": 0, "Labelled": 0, "Unsure": 1, "labelled": 0, "WorkerFinding": 1}


@dataclass(frozen=True)
class ErrorClasses:
    """The classes of errors, and those whose errors all have the identifier of the class."""

    every: frozenset[str]
    identified: frozenset[str]


@dataclass
class Use:
    """What a module does with identifiers."""

    ids: set[str] = field(default_factory=set)
    unidentified: int = 0


@cache
def sources() -> Mapping[str, ast.Module]:
    """Return the package's modules, without the declarations, by their paths."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "messages")
    return {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in paths}


def error_classes(modules: Mapping[str, ast.Module]) -> ErrorClasses:
    classes = [
        node for module in modules.values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)
    ]
    every, identified = set(ERRORS), set[str]()
    while True:
        before = len(every), len(identified)
        for each in classes:
            bases = {base.id for base in each.bases if isinstance(base, ast.Name)}
            every |= {each.name} if bases & every else set()
            own = each.name in every and each.name not in ERRORS and any(class_ids(each))
            identified |= {each.name} if own or bases & identified else set()
        if before == (len(every), len(identified)):
            return ErrorClasses(frozenset(every), frozenset(identified))


def class_ids(of: ast.ClassDef) -> Iterator[str]:
    for node in of.body:
        if isinstance(node, ast.Assign) and "id" in {*names(node.targets[0])}:
            yield from filter(None, strings(node.value))


def use(module: ast.Module, errors: ErrorClasses) -> Use:
    """Return the identifiers of a module, and how many errors and skipped items have none."""
    bound: dict[str, set[str]] = {}  # strings that a name can have
    kinds: dict[str, set[str]] = {}  # classes that a name can have
    for node in ast.walk(module):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, set()).update(strings(node.value))
                    if not isinstance(node.value, ast.Call):
                        kinds.setdefault(target.id, set()).update(names(node.value))
    found = Use()

    def take(argument: ast.expr) -> None:
        found.ids |= bound.get(argument.id, set()) if isinstance(argument, ast.Name) else {*strings(argument)}

    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and node.name in errors.every:
            found.ids |= {*class_ids(node)}
        match node:
            case ast.Assign(targets=[ast.Attribute(attr="id")]):  # self.id = ...
                take(node.value)
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg == "id":
                take(keyword.value)
        called = {node.func.id} if isinstance(node.func, ast.Name) else {*names(node.func)}
        called |= {name for each in called for name in kinds.get(each, ())}
        if isinstance(node.func, ast.Name | ast.IfExp) and called & errors.every:
            if len(node.args) == 2 and not called & errors.identified:
                take(node.args[0])
            elif called & errors.every - errors.identified:
                found.unidentified += 1
        elif isinstance(node.func, ast.Call) and called == {"type"}:  # type(error)(...)
            found.unidentified += len(node.args) < 2
        elif isinstance(node.func, ast.Name) and node.func.id in IDENTIFIER:
            place = IDENTIFIER[node.func.id]
            if len(node.args) > place:
                take(node.args[place])
            else:
                found.unidentified += 1
    return found


def strings(node: ast.expr) -> Iterator[str]:
    """Yield a constant, or those of a condition's branches."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from strings(node.body)
        yield from strings(node.orelse)


def names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.IfExp):
        yield from names(node.body)
        yield from names(node.orelse)
    elif isinstance(node, ast.Call):
        yield from names(node.func)


@cache
def uses() -> Mapping[str, Use]:
    errors = error_classes(sources())
    return {path: use(module, errors) for path, module in sources().items()}


def labels_of_plugins() -> set[str]:
    """Return the identifiers in messages of Ansible's plugins. A module on a host cannot import Aqueduct."""
    plugins = (path.read_text() for path in (ROOT / "plugins").rglob("*.py"))
    labels = re.compile(r'"\[([a-z]+(?:-[a-z]+)+)\] |\b(?:labelled|with_identifier)\(\s*"([a-z-]+)"')
    return {label for text in plugins for match in labels.findall(text) for label in match if label}


def test_every_used_identifier_is_declared() -> None:
    assert labels_of_plugins() - MESSAGES.keys() == set()
    assert {path: missing for path, each in uses().items() if (missing := each.ids - MESSAGES.keys())} == {}


def test_every_declared_identifier_is_used() -> None:
    in_package = {each for of_module in uses().values() for each in of_module.ids}
    in_playbooks = {id_ for message in fail_messages() for id_ in message.ids}
    assert MESSAGES.keys() - in_package - in_playbooks - labels_of_plugins() == set()


# These fail with lines of a command or a filter, whose findings have identifiers of their own.
PRINTED_LINES = {
    "playbooks/doctor.yml": 1,
    "playbooks/reconcile.yml": 2,
    "playbooks/repair_broker_ids.yml": 1,
    "playbooks/restore_quorum.yml": 1,
    "playbooks/restore_zookeeper.yml": 1,
    "roles/kafka/tasks/main.yml": 1,
    "roles/mirror_maker/tasks/ready.yml": 1,
    "roles/mirror_maker/tasks/switch_check.yml": 1,
}
BRACKETED = re.compile(r"\[([a-z0-9]+(?:-[a-z0-9]+)+)\] ")


# These fail with texts that a function makes, each with its identifier.
PRINTED_ERRORS = {
    "plugins/modules/connect_connectors.py": 1,
    "plugins/modules/service_files.py": 1,
    "plugins/modules/spark_ready.py": 1,
}


@dataclass(frozen=True)
class FailMessage:
    path: str
    module: str  # assert or fail
    ids: tuple[str, ...]


@cache
def fail_messages() -> tuple[FailMessage, ...]:
    """Return the messages of failing tasks of roles and playbooks."""
    paths = sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")])
    return tuple(
        FailMessage(str(path.relative_to(ROOT)), module, tuple(BRACKETED.findall(str(text))))
        for path in paths
        for module, text in failing(yaml.safe_load(path.read_text()))
    )


def failing(part: object) -> Iterator[tuple[str, object]]:
    if isinstance(part, dict):
        if "fail_msg" in part:
            yield "assert", part["fail_msg"]
        if isinstance(failed := part.get("ansible.builtin.fail"), dict):
            yield "fail", failed.get("msg", "")
        for inner in part.values():
            yield from failing(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from failing(inner)


def test_every_fail_message_has_a_declared_identifier() -> None:
    without = [message for message in fail_messages() if not message.ids]
    assert len(fail_messages()) > 50
    assert Counter(message.path for message in without) == PRINTED_LINES
    assert {id_ for message in fail_messages() for id_ in message.ids} - MESSAGES.keys() == set()
    tasks = [{"block": [{"ansible.builtin.fail": {"msg": "Gone."}}, {"fail_msg": "Lost."}]}]
    assert [*failing(tasks)] == [("fail", "Gone."), ("assert", "Lost.")]


@cache
def plugin_errors() -> tuple[tuple[str, bool], ...]:
    """Return, for each error that a plugin fails with, its path and whether it has an identifier."""
    return tuple(
        (str(path.relative_to(ROOT)), has_identifier)
        for path in sorted(ROOT.glob("plugins/*/*.py"))
        for has_identifier in errors_of_plugin(ast.parse(path.read_text()))
    )


def errors_of_plugin(module: ast.Module) -> Iterator[bool]:
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name == "fail_json" or (isinstance(node.func, ast.Name) and node.func.id in ANSIBLE_ERRORS):
            source = ast.unparse(node)
            yield bool(LABELLING.search(source) or BRACKETED.search(source))


ANSIBLE_ERRORS = ("AnsibleActionFail", "AnsibleFilterError")
LABELLING = re.compile(r"\.labelled\b|\b(?:labelled|with_identifier)\(")


def test_every_error_of_a_plugin_has_an_identifier() -> None:
    assert len(plugin_errors()) > 60
    without = Counter(path for path, has_identifier in plugin_errors() if not has_identifier)
    assert without == PRINTED_ERRORS
    assert [*errors_of_plugin(ast.parse(FAILING))] == [False, True, True, True, False]


FAILING = """
module.fail_json(msg="Gone.")
module.fail_json(msg=f"[topic-gone] {name} is gone.")
AnsibleActionFail(error.labelled)
AnsibleActionFail(with_identifier("topic-gone", text))
AnsibleFilterError(str(error))
"""


# Modules whose functions of these names return findings as labelled sentences.
LABELLED = {
    "kafka/diagnosis.py": re.compile(r"_(?!named|absent|stopped|fate|waiting|assigned|is_lost)\w+"),
    "mirror/classic.py": re.compile(r"\w+_findings"),
    "mirror/engine/reading.py": re.compile(r"\w+_findings?"),
    "mirror/status.py": re.compile(r"\w+_findings?|unknown_groups"),
}


def unlabelled(function: ast.FunctionDef) -> Iterator[int]:
    """Yield the lines of a function that returns, yields or appends sentences without an identifier."""
    texts: list[ast.expr] = []
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.ListComp(elt=value)):
                texts.append(value)
            case ast.Yield(value=ast.expr() as value) | ast.Return(value=ast.expr() as value):
                texts += value.elts if isinstance(value, ast.List) else [value]
            case ast.Call(func=ast.Attribute(attr="append"), args=[value]):
                texts.append(value)
    for text in texts:
        if isinstance(text, ast.JoinedStr) or (
            isinstance(text, ast.Constant) and isinstance(text.value, str)
        ):
            yield text.lineno


def test_every_finding_of_a_doctor_has_an_identifier() -> None:
    functions = [
        (path, node)
        for path, pattern in LABELLED.items()
        for node in ast.walk(sources()[path])
        if isinstance(node, ast.FunctionDef) and pattern.fullmatch(node.name)
    ]
    assert len(functions) > 20
    assert [(path, line) for path, node in functions for line in unlabelled(node)] == []
    [plain] = [node for node in ast.walk(ast.parse(PLAIN)) if isinstance(node, ast.FunctionDef)]
    assert sorted(unlabelled(plain)) == [3, 4, 5]


PLAIN = """
def f(findings, name):
    findings.append(f"{name} does not run.")
    yield "It does not run."
    return [f"{name} does not run, either.", labelled("topic-gone", "It is gone.")]
"""


def test_every_error_and_skipped_item_has_an_identifier() -> None:
    assert {path: each.unidentified for path, each in uses().items() if each.unidentified} == {}


SOURCE = """
class Locked(Refused):
    id = "key-missing"
class Open(Failed):
    pass
CHANGED = "records-changed"
def f(error, wrong):
    kind = Refused if wrong else Failed
    id_ = "store-refused" if wrong else "store-silent"
    raise kind(id_, "It broke.")
    raise kind("It broke without one.")
    raise Locked("It is locked.")
    raise Open("It is open, without one.")
    raise Open("it-is-open", "It is open.")
    raise type(error)("In general, without one.")
    raise type(error)(error.id, "In general.")
    raise Failed(CHANGED, "They changed.")
    raise (Failed if wrong else Refused)("It depends, without one.")
    self.id = "self-set"
    replace(skipped, id="other-reason")
    return [Skipped("a", "b", "topic-gone"), Skipped("a", "without one"), Warned("less-room", "Tight.")]
"""


def test_what_the_code_uses_is_found() -> None:
    module = {"a.py": ast.parse(SOURCE)}
    found = use(module["a.py"], error_classes(module))
    assert found.ids == {
        *("key-missing", "it-is-open", "store-refused", "store-silent", "records-changed", "topic-gone"),
        *("less-room", "self-set", "other-reason"),
    }
    assert found.unidentified == SOURCE.count("without one") == 5


WHOLE = {"id": "topic-gone", "area": Area.RESTORE, "meaning": "The topic is gone.", "fix": "Create it."}


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"id": each}
            for each in ("gone", "Topic-gone", "topic_gone", "topic-", "a-b-c-d-e-f", "-topic-gone")
        ),
        {"meaning": "the topic is gone."},
        {"fix": ""},
        {"fix": "Create it"},
    ],
)
def test_a_malformed_message_cannot_be_declared(wrong: dict[str, str]) -> None:
    DeclaredMessage(**WHOLE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape(wrong.get("id", "topic-gone"))):
        DeclaredMessage(**WHOLE | wrong)  # type: ignore[arg-type]


def test_an_identifier_cannot_be_declared_twice() -> None:
    one, other = DeclaredMessage(**WHOLE), DeclaredMessage(**WHOLE | {"id": "topic-lost"})  # type: ignore[arg-type]
    assert [*by_id([one, other])] == ["topic-gone", "topic-lost"]
    with pytest.raises(ValueError, match="topic-gone"):
        by_id([one, other, one])
