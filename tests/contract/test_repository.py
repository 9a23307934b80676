"""The repository holds no dangerous task, no secret, no trace of one machine."""

import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def git_files(*options: str) -> list[Path]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *options]  # whoever owns the tree
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (Path(name) for name in sorted(listing.split("\0")) if name)
    return [path for path in paths if (ROOT / path).is_file()]


FILES = git_files("--cached", "--others", "--exclude-standard")  # that git has, or would take
TASK_FILES = [
    path
    for path in FILES
    if path.suffix in (".yml", ".yaml")
    and (
        path.parts[0] == "playbooks" or {"tasks", "handlers"} & {*path.parts} or path.parent.name == "shared"
    )
]
VARIABLE_FILES = [
    path
    for path in FILES
    if path.suffix in ("", ".yml", ".yaml", ".json")
    and {"defaults", "group_vars", "host_vars", "inventory", "inventories"} & {*path.parts}
]


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by their names alone, and ends where one is there twice."""
    names = Counter(path.name for path in FILES if path.parts[0] == "tests" and path.match("test_*.py"))
    assert [name for name, found in names.items() if found > 1] == []


def test_tests_import_no_tests() -> None:
    """Helpers belong into modules of their own: an imported test runs twice, or its fixtures get lost."""
    importing = re.compile(r"^\s*(?:from|import) (?:[\w.]+\.)?test_", re.MULTILINE)
    paths = [path for path in FILES if path.suffix == ".py" and "tests" in path.parts]
    assert [path for path in paths if importing.search((ROOT / path).read_text())] == []


def test_names_of_tests_have_at_most_eight_words() -> None:
    defined = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
    paths = [path for path in FILES if path.match("test_*.py")]
    names = [name for path in paths for name in defined.findall((ROOT / path).read_text())]
    assert len(names) > 3000
    assert [name for name in names if name.count("_") > 8] == []


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) > len(TASK_FILES) > 20
    assert len(FILES) > len(VARIABLE_FILES) > 10


def load(path: Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a document, however deep."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from mappings(each)


def tasks(entries: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    """Yield every task of a list of plays or tasks; plays and blocks, too, which have no module."""
    for entry in entries or ():
        yield entry
        for section in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from tasks(entry.get(section))


SHELL = re.compile(r"(ansible\.(builtin|legacy)\.)?(shell|raw)")
COMMAND = re.compile(r"(ansible\.(builtin|legacy)\.)?(command|script|expect)|.*\.docker_container_exec")


def task_faults(document: Any) -> Iterator[str]:
    for mapping in mappings(document):
        yield from (key for key in ("privileged", "ignore_errors") if mapping.get(key))
        # A play may, if it looks in the end at the hosts that did not answer.
        if mapping.get("ignore_unreachable") and "ansible_play_hosts_all" not in str(mapping):
            yield "ignore_unreachable"
    for task in tasks(document):
        if task.get("failed_when") is False and "register" not in task:
            yield "failed_when: false, and nobody looks at the result"
        for key, arguments in task.items():
            if SHELL.fullmatch(key):
                yield key
            if COMMAND.fullmatch(key) and not says_what_changed(task, arguments):
                yield f"{key} without changed_when, creates or removes"


def test_a_task_for_another_host_goes_there() -> None:
    """A template in the other host's address is evaluated for the first one, which the task would change."""
    found = {
        path: [task.get("name") for task in tasks(load(path)) if goes_nowhere(task)] for path in TASK_FILES
    }
    assert {path: names for path, names in found.items() if names} == {}


def goes_nowhere(task: dict[str, Any]) -> bool:
    to = task.get("delegate_to", "localhost")
    host = to.strip("{} ")
    wanted = f"{{{{ hostvars[{host}].ansible_host | default({host}) }}}}"
    there = task.get("vars", {}).get("ansible_host") == wanted and not re.search(r"\bitem\b", host)
    return to != "localhost" and not there  # an item is not known yet where the address is asked for


def test_task_delegated_to_loop_item_is_found() -> None:
    assert goes_nowhere({"delegate_to": "{{ item.host }}"})


def says_what_changed(task: dict[str, Any], arguments: Any) -> bool:
    given = task.get("args", {}).keys() | (arguments.keys() if isinstance(arguments, dict) else set())
    return "changed_when" in task or bool(given & {"creates", "removes"})


def test_nodes_have_their_turns_in_one_order() -> None:
    """A group that group_by makes has its hosts in the order in which they happened to answer."""
    plays = {
        (path, play["name"]): play
        for path in TASK_FILES
        if path.parts[0] == "playbooks"
        for play in load(path)
    }
    rolling = {name: play.get("order") for name, play in plays.items() if "serial" in play}
    assert len(rolling) > 10
    assert {name for name, order in rolling.items() if order != "sorted"} == set()


def test_tasks_are_safe_and_say_what_they_changed() -> None:
    assert {path: found for path in TASK_FILES if (found := list(task_faults(load(path))))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "- community.docker.docker_container: {name: x, privileged: true}",
        "- {ansible.builtin.file: {path: x}, ignore_errors: true}",
        "- {hosts: all, ignore_unreachable: true}",
        "- ansible.builtin.shell: ls",
        "- {hosts: all, tasks: [{block: [{shell: ls}]}]}",
        "- {hosts: all, handlers: [{raw: ls}]}",
        "- ansible.builtin.command: ls",
        "- {ansible.builtin.file: {path: x}, failed_when: false}",
        "- {block: [], rescue: [{ansible.builtin.command: {argv: [ls]}}]}",
    ],
)
def test_a_dangerous_task_is_found(text: str) -> None:
    assert len(list(task_faults(yaml.safe_load(text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "- ansible.builtin.user: {name: x, shell: /usr/sbin/nologin}",
        "- {ansible.builtin.command: ls, changed_when: false}",
        "- {ansible.builtin.command: {argv: [ls], creates: /x}}",
        "- {ansible.builtin.command: ls, args: {removes: /x}}",
    ],
)
def test_a_harmless_task_is_none(text: str) -> None:
    assert list(task_faults(yaml.safe_load(text))) == []


SECRET = re.compile(r"(?<![a-z])(password|passphrase|passwd|secret|token)(?![a-z])|(?<![a-z])keys?$")


def secrets(document: Any) -> Iterator[str]:
    """Yield names of variables or settings that are secrets and have a value.

    A template that fetches one or a reference to where one is isn't a value.
    """
    for mapping in mappings(document):
        for name, value in mapping.items():
            if (
                SECRET.search(str(name).lower())
                and value not in (None, "", [], {})
                and not re.search(r"\{\{|\$\{file:", str(value))
            ):
                yield str(name)


def test_no_secret_has_a_value() -> None:
    assert {path: found for path in VARIABLE_FILES if (found := list(secrets(load(path))))} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka_password: changeit", ["kafka_password"]),
        ("kafka_settings: {ssl.key.password: changeit}", ["ssl.key.password"]),
        ("kafka_api_key: 1", ["kafka_api_key"]),
        ("kafka_password: ''", []),
        ("{connection.password: '${file:/etc/secrets:one}', primary.key.mode: none}", []),
        ("kafka_password: '{{ vault_kafka_password }}'", []),
        ("kafka_keyboard: de", []),
    ],
)
def test_a_secret_is_found(text: str, expected: list[str]) -> None:
    assert list(secrets(yaml.safe_load(text))) == expected


# Public pages and XML namespaces that sources name; anything else may be one site's mirror or registry.
ANY = "0.0.0.0"  # noqa: S104 (a text to look for)
HOSTS = {
    "localhost",
    ANY,
    "127.0.0.1",
    "kafka.apache.org",
    "maven.apache.org",
    "s3.amazonaws.com",  # as a namespace
    "spark.apache.org",
    "www.apache.org",
    "zookeeper.apache.org",
}
PRIVATE_KEY = re.compile("-----BEGIN ([A-Z]+ )*PRIVATE " + "KEY-----")
HOME = re.compile(r"(?<![\w.~}])/(root|home/\w+|Users/\w+)/")
KEY_FILES = (".pem", ".key", ".p12", ".pfx", ".jks", ".crt", ".csr")


def traces(path: Path, text: str) -> Iterator[str]:
    """Yield keys, a person's folders, and addresses that are nobody else's business."""
    if path.suffix in KEY_FILES or "pki" in path.parts or PRIVATE_KEY.search(text):
        yield "a key or a certificate"
    yield from (found[0] for found in HOME.finditer(text))
    for host in re.findall(r"https?://([\w.-]+)", text):
        if host not in HOSTS and not host.endswith((".example.com", ".invalid")):
            yield host


def test_no_file_has_key_or_machine_trace() -> None:
    texts = ((path, (ROOT / path).read_text(errors="replace")) for path in FILES)
    assert {path: found for path, text in texts if (found := list(traces(path, text)))} == {}


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("inventories/lab/pki/ca.txt", "", "a key or a certificate"),
        ("tests/broker.pem", "", "a key or a certificate"),
        ("notes.txt", "-----BEGIN EC PRIVATE " + "KEY-----", "a key or a certificate"),
        ("locks/base.txt", "--index-url https:/" + "/mirror.lan/simple", "mirror.lan"),
        ("notes.txt", "cd /" + "root/aqueduct", "/" + "root/"),
        ("notes.txt", "cd /" + "home/kim/aqueduct", "/" + "home/kim/"),
    ],
)
def test_a_trace_is_found(path: str, text: str, expected: str) -> None:
    assert list(traces(Path(path), text)) == [expected]


def test_git_contains_no_ignored_file() -> None:
    """Refuse reports, keys and environments of somebody's machine, added in spite of .gitignore."""
    assert git_files("--cached", "--ignored", "--exclude-standard") == []


def test_the_controller_runs_every_verb() -> None:
    """Run README's commands, in the environment that the scripts make. Spark is for much work alone."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {each for name in extras.keys() - {"controller", "dev"} for each in extras[name]}
    assert needed - set(extras["controller"]) == {"pyspark==4.3.0"}
    assert "aqueduct-estate[controller]" in extras["dev"]
