"""Every broken inventory gets exactly its findings of the table; the real playbook refuses it, takes ours.

A playbook takes two seconds, so most are read by Ansible's own classes and judged in this process.
"""

import getpass
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from kit import ansible_process

from aqueduct.estate.check import check
from aqueduct.estate.check.inventory import Finding
from aqueduct.messages import MESSAGES
from servers.pki import Authority

ROOT = Path(__file__).resolve().parents[2]
BROKEN = Path(__file__).parent / "broken_inventories"
INVENTORIES = [path.name for path in sorted(BROKEN.glob("*.yml"))]
# `severity: file:line: variable: [id] fact | fact`; facts are the names and numbers in the sentence.
LINE = re.compile(r"(error|warning): (\S+): (\S+): \[([a-z0-9-]+)\](?: (.*))?")
TABLE = (BROKEN / "findings.txt").read_text().splitlines()


@cache
def action_plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check", ROOT / "plugins/action/inventory_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def findings(inventory: Path) -> list[Finding]:
    plugin = action_plugin()
    loader = DataLoader()
    manager = InventoryManager(loader, [str(inventory)])
    hostvars = HostVars(manager, VariableManager(loader, manager), loader)
    repository = plugin.read_repository(ROOT / "roles", ROOT / "artifacts")
    return check(plugin.read_inventory(manager.get_groups_dict(), hostvars, repository.roles), repository)


def expected(name: str) -> list[str]:
    return [line for line in TABLE if line.startswith((f"error: {name}:", f"warning: {name}:"))]


def test_variables_files_that_ansible_ignores_are_listed(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {a.example: }}\n")
    files = ("group_vars/all/one.yml", "group_vars/all.yml", "host_vars/a.example.yml", "host_vars/a.example")
    for number, name in enumerate(files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"read_{number}: true\n")
    loader = DataLoader()
    manager = InventoryManager(loader, [str(tmp_path)])
    hostvars = HostVars(manager, VariableManager(loader, manager), loader)
    assert [name for name in hostvars["a.example"] if name.startswith("read_")] == ["read_0", "read_3"]
    ignored = [finding for finding in findings(tmp_path) if finding.id == "variables-file-ignored"]
    assert sorted(Path(finding.where).name for finding in ignored) == ["a.example.yml", "all.yml"]
    assert not [finding for finding in ignored if finding.is_warning]


def test_the_table_is_of_these_inventories() -> None:
    assert sorted(TABLE) == sorted(line for name in INVENTORIES for line in expected(name))


def test_every_finding_has_a_declared_identifier() -> None:
    ids = {match[4] for line in TABLE if (match := LINE.fullmatch(line))}
    assert [line for line in TABLE if not LINE.fullmatch(line)] == []
    assert len(ids) > 90
    assert ids - MESSAGES.keys() == set()


def facts_missing(finding: Finding, line: str) -> list[str]:
    """Return the facts of a line of the table that the finding's sentence does not have."""
    match = LINE.fullmatch(line)
    assert match
    facts = match[5].split(" | ") if match[5] else []
    return [
        fact for fact in facts if not re.search(rf"(?<![\w-]){re.escape(fact)}(?![\w-])", finding.sentence)
    ]


def labels(finding: Finding) -> tuple[str, ...]:
    """Return all of a finding but its sentence."""
    return ("warning" if finding.is_warning else "error", finding.where, finding.what, finding.id)


def labels_of(line: str) -> tuple[str, ...]:
    match = LINE.fullmatch(line)
    assert match
    return match.groups()[:4]


@pytest.mark.parametrize("name", INVENTORIES)
def test_a_broken_inventory_gets_its_findings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    found, lines = findings(BROKEN / name), expected(name)
    assert found
    assert [labels(finding) for finding in found] == [labels_of(line) for line in lines]
    pairs = zip(found, lines, strict=True)
    assert [(str(one), missing) for one, line in pairs if (missing := facts_missing(one, line))] == []


@pytest.fixture
def provided(tmp_path: Path) -> Path:
    """An inventory of one broker, whose key and certificate are provided, and good."""
    authority = Authority(tmp_path / "provided")
    authority.certificate.rename(tmp_path / "provided/ca.pem")
    authority.issue("kafka-one", names=["one-kafka-1"])
    Authority(tmp_path / "stranger").issue("kafka-one")
    authority.issue("admin")
    (tmp_path / "hosts.yml").write_text(
        f"""all:
  vars: {{certificates_source: provided, certificates_provided_directory: {tmp_path}/provided}}
  children:
    site_one: {{hosts: {{one-kafka-1: {{kafka_node_id: 1}}}}}}
    kafka: {{hosts: {{one-kafka-1: }}}}
"""
    )
    return tmp_path


def ended(folder: Path) -> str:
    late = Authority(folder / "late")
    late.certificate.rename(folder / "provided/ca.pem")
    return late.issue("kafka-one", days=-1).read_text()


def key_of(pem: str, other: str) -> str:
    """Return `pem` with the private key of `other`."""
    begin = "-----BEGIN CERTIFICATE"
    return other.partition(begin)[0] + begin + pem.partition(begin)[2]


def older(folder: Path) -> str:
    """Return the file with its key as OpenSSL wrote keys before 1.0."""
    pem = (folder / "provided/kafka-one.pem").read_text()
    command = ["openssl", "pkey", "-traditional"]
    key = subprocess.run(command, input=pem, capture_output=True, text=True, check=True).stdout
    return key_of(pem, key + "-----BEGIN CERTIFICATE")


WRONG = {
    "ended": (ended, r"CN=kafka-one .*[-0-9]{10} [0-9:]{5} UTC"),
    "another key": (
        lambda folder: key_of(
            (folder / "provided/kafka-one.pem").read_text(), (folder / "provided/admin.pem").read_text()
        ),
        "private key.* first certificate",
    ),
    "another authority": (
        lambda folder: (folder / "stranger/kafka-one.pem").read_text(),
        r"ca\.pem",
    ),
    "another principal": (
        lambda folder: (folder / "provided/admin.pem").read_text(),
        "CN=admin.*CN=kafka-one",
    ),
    "no key": (
        lambda folder: (folder / "provided/ca.pem").read_text(),
        "private key.*password",
    ),
    "an older form of key": (
        older,
        r"PKCS #8.*openssl pkcs8 -topk8 -nodes",
    ),
    "nothing": (lambda _: "", "no readable certificate"),
}


@pytest.mark.parametrize("where", ["", "one-kafka-1/"])
@pytest.mark.parametrize("what", WRONG)
def test_unusable_provided_certificate_is_refused(what: str, where: str, provided: Path) -> None:
    assert findings(provided / "hosts.yml") == []
    make, fact = WRONG[what]
    file = provided / f"provided/{where}kafka-one.pem"
    made = make(provided)
    file.parent.mkdir(exist_ok=True)
    file.write_text(made)
    (found,) = findings(provided / "hosts.yml")
    assert found.id == "provided-certificate-unusable"
    assert re.search(f"{re.escape(str(file))}.*one-kafka-1.*{fact}", found.sentence), found.sentence
    assert not found.is_warning


def test_unusable_certificate_leaves_host_keys_unchanged(
    playbook: "Playbook", provided: Path, tmp_path: Path
) -> None:
    """A service's own playbook doesn't check the inventory: there the action that brings keys refuses."""
    file = provided / "provided/kafka-one.pem"
    good, tls = file.read_text(), tmp_path / "tls"
    names = ["one-kafka-1"]
    keys = [{"principal": "kafka-one", "folder": str(tls), "owner": getpass.getuser(), "names": names}]
    bring = tmp_path / "bring.yml"
    bring.write_text(
        f"""- hosts: all
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.import_role: {{name: aqueduct.estate.certificates, tasks_from: host}}
      vars: {{_certificates_keys: {keys}, ansible_python_interpreter: {sys.executable}}}
"""
    )
    run = partial(playbook, "-i", str(provided / "hosts.yml"), book=bring)
    done = run()
    assert done.returncode == 0, done.stdout
    assert (tls / "kafka-one.pem").read_text() == good
    file.write_text((provided / "stranger/kafka-one.pem").read_text())
    done = run()
    assert done.returncode == 2
    said = " ".join(done.stdout.split())
    assert re.search(rf"\[provided-certificate-unusable\] {re.escape(str(file))}.*one-kafka-1", said), said
    assert (tls / "kafka-one.pem").read_text() == good


Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def playbook() -> Playbook:
    def run(*arguments: str, book: Path = Path("playbooks/check.yml")) -> "subprocess.CompletedProcess[str]":
        return ansible_process.play(book, *arguments)

    return run


def test_the_playbook_refuses_and_prints_each_error_once(playbook: Playbook) -> None:
    """Refuse whatever --limit and --tags say.

    The limit here leaves out every host that has a fault.
    """
    name = "flow_from_an_unknown_site.yml"
    done = playbook("-i", str(BROKEN / name), "--limit", "pro1-kafka-1", "--tags", "tagged")
    assert done.returncode == 2
    assert "The inventory has 2 errors, and no host was contacted." in done.stdout
    for line in expected(name):
        _, where, variable, id_ = labels_of(line)
        assert done.stdout.count(f"{BROKEN.relative_to(ROOT)}/{where}: {variable}: [{id_}] ") == 1


def test_a_warning_stops_nothing(playbook: Playbook) -> None:
    name = "two_controllers.yml"
    done = playbook("-i", str(BROKEN / name))
    assert done.returncode == 0
    (line,) = expected(name)
    _, where, variable, id_ = labels_of(line)
    assert f"{where}:{variable}:[{id_}]" in "".join(done.stderr.split())


VAULT_PHRASE = "a-password"


def encrypted(text: str) -> str:
    secrets = [("default", VaultSecret(VAULT_PHRASE.encode()))]
    return str(VaultLib(secrets).encrypt(text).decode())


def inline(text: str, indent: int = 2) -> str:
    """Return a value as `ansible-vault encrypt_string` prints it; `indent`: of the level below it."""
    return "!vault |\n" + "".join(f"{' ' * indent}{line}\n" for line in encrypted(text).splitlines())


def vaulted(folder: Path, **variables: str) -> Path:
    """Return an inventory of one broker with a backup; `variables`: as they are written in a file."""
    folder = folder / "inventory"
    folder.mkdir()
    (folder / "hosts.yml").write_text(
        """all:
  children:
    site_one: {hosts: {one-kafka-1: {kafka_node_id: 1}}}
    kafka: {hosts: {one-kafka-1: }}
    backup: {hosts: {one-kafka-1: }}
"""
    )
    (folder / "group_vars/all").mkdir(parents=True)
    text = "".join(f"{name}: {value}\n" for name, value in variables.items())
    (folder / "group_vars/all/main.yml").write_text(text)
    (folder.parent / "right").write_text(VAULT_PHRASE)
    (folder.parent / "wrong").write_text("another-password")
    return folder


def checked(playbook: Playbook, folder: Path, phrase: str = "right") -> "subprocess.CompletedProcess[str]":
    return playbook("-i", str(folder), "--vault-password-file", str(folder.parent / phrase), "-vvv", "--diff")


def test_check_accepts_encrypted_values(playbook: Playbook, tmp_path: Path) -> None:
    settings = "{log.retention.ms: '{{ vault_milliseconds }}'}"
    url, pattern = inline("s3://canary-bucket/one"), inline("canary.*")
    folder = vaulted(
        tmp_path,
        backup_store_url=url,
        backup_topics_pattern=pattern,
        kafka_node_id=inline("7"),
        kafka_settings=settings,
        vault_milliseconds=inline("86400000"),
    )
    done = checked(playbook, folder)
    assert done.returncode == 0, done.stdout
    assert "canary" not in done.stdout + done.stderr


# Variables whose values contain a word that findings showed before.
SHOWN_BEFORE: dict[str, Callable[[str], dict[str, str]]] = {
    "inline": lambda word: {"backup_store_url": inline(f"s4://{word}-bucket/{word}-prefix")},
    "template": lambda word: {
        "backup_store_url": "'s4://{{ vault_bucket }}/prefix'",
        "vault_bucket": inline(f"{word}-bucket"),
    },
    "choice": lambda word: {"certificates_source": inline(word)},
    "type": lambda word: {
        "backup_every_seconds": inline(f"a {word} of more than forty characters, all hidden")
    },
    "pattern": lambda word: {"backup_topics_pattern": inline(f"{word}(")},
    "part of a list": lambda word: {
        "kafka_topics": "[{name: '{{ vault_name }}', partitions: 1}]",
        "vault_name": inline(f"{word}?"),
    },
    "in a mapping of a list": lambda word: {
        "kafka_topics": f"\n  - partitions: 1\n    name: {inline(f'{word}?', 6)}"
    },
    "in a list of a link": lambda word: {
        "diode_downstream_links": "\n  - source: case0\n    number: 1\n    topics:\n"
        f"      - {inline(f'{word}(', 10)}"
    },
    "setting of a link": lambda word: {
        "diode_downstream_links": "\n  - source: case0\n    number: 1\n    topics: [flights]\n"
        f"    upstream_settings:\n      parity: {inline(f'{word} of links', 10)}"
    },
    "setting of a flow": lambda word: {
        "mirror_maker_flows": "\n  - source: case0\n    topics: [flights]\n    settings:\n"
        f"      tasks.max: {inline(f'{word} of flows', 10)}\n    unknown_key: 1"
    },
    "several lines": lambda word: {"backup_store_url": inline(f"s4://{word}-bucket\nsecond {word} line")},
    "upper case": lambda word: {"backup_store_url": inline(f"S3://{word.upper()}-bucket/{word}")},
    "part of a URL": lambda word: {
        "backup_store_url": inline(f"s3://{word}-bucket/one"),
        "backup_object_store": "one-store-1",
    },
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> "subprocess.CompletedProcess[str]":
    """Check an inventory with a site for each case. The words differ: a known secret is hidden anywhere."""
    folder = vaulted(tmp_path_factory.mktemp("shown"), kafka_topics="[]")
    numbers = range(len(SHOWN_BEFORE))
    brokers = {number: f"case{number}-kafka-1" for number in numbers}
    groups: dict[str, Any] = {f"site_case{number}": {"hosts": {brokers[number]: None}} for number in numbers}
    groups["site_one"] = {"hosts": {"one-store-1": None}}
    groups["kafka"] = {"hosts": {broker: {"kafka_node_id": 1} for broker in brokers.values()}}
    groups["backup"] = {"hosts": dict.fromkeys(brokers.values())}
    groups["object_store"] = {"hosts": {"one-store-1": None}}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    for number, variables in enumerate(SHOWN_BEFORE.values()):
        text = "".join(f"{name}: {value}\n" for name, value in variables(f"canary{number:02}").items())
        (folder / f"group_vars/site_case{number}.yml").write_text(text)
    done = checked(partial(ansible_process.play, "playbooks/check.yml"), folder)
    assert done.returncode == 2, done.stdout
    assert re.search(r"The inventory has \d+ errors, and no host was contacted", done.stdout), done.stdout
    return done


@pytest.mark.parametrize("case", SHOWN_BEFORE)
def test_findings_show_no_decrypted_value(case: str, shown: "subprocess.CompletedProcess[str]") -> None:
    number = [*SHOWN_BEFORE].index(case)
    own = rf"site_case{number}\.yml:\d+: .*: \[|: \[bucket-right-missing\] backup-case{number} "
    assert re.search(own, shown.stdout), shown.stdout
    assert f"canary{number:02}" not in shown.stdout + shown.stderr


def test_findings_show_no_value_of_an_encrypted_file(playbook: Playbook, tmp_path: Path) -> None:
    folder = vaulted(tmp_path, kafka_topics="[]")
    (folder / "group_vars/all/vault.yml").write_text(encrypted("backup_store_url: s4://canary-bucket/x"))
    done = checked(playbook, folder)
    assert done.returncode == 2
    assert "vault.yml:1: backup_store_url: [store-url-invalid] " in done.stdout
    assert "(encrypted)" in done.stdout
    assert "canary" not in done.stdout + done.stderr


@pytest.mark.parametrize("case", ["inline", "template"])
def test_wrong_vault_password_is_a_finding(case: str, playbook: Playbook, tmp_path: Path) -> None:
    value = "'{{ vault_url }}'" if case == "template" else inline("s3://canary/one")
    done = checked(
        playbook, vaulted(tmp_path, vault_url=inline("s3://canary"), backup_store_url=value), "wrong"
    )
    assert done.returncode == 2
    assert "The inventory has 1 error, and no host was contacted." in done.stdout
    assert "backup_store_url: [value-not-decryptable] " in done.stdout
    assert "--vault-password-file" in done.stdout
    assert "canary" not in done.stdout


UNREADABLE = [
    ("hosts.yml", "all:\n  children: [\n", ":3: YAML parsing failed: While parsing a flow node"),
    (
        "hosts.yml",
        "- all\n",
        ": the file contains a list; write a mapping of groups, which begins with all:.",
    ),
    ("hosts.yml", "", ": the file contains nothing; write a mapping of groups, which begins with all:."),
    ("group_vars/pro1.yml", "a:\n  - b: 1\n   c: 2\n", ":3: YAML parsing failed: While parsing a block"),
    ("group_vars/all/kafka.yml", "a: 1\nb:\n\t- c\n", ":3: YAML parsing failed: Tabs are usually"),
    ("group_vars/all/kafka.yml", "a: {{ b }}\n", ":1: YAML parsing failed: This may be an issue"),
    ("group_vars/pro1.yml", "a: 1\na: 2\n", ":2: YAML parsing failed: Found duplicate mapping key 'a'; "),
    ("group_vars/pro1.yml", "a: 1\nb: \udce9\n", ":2: a character is not UTF-8; save the file as UTF-8."),
    (
        "group_vars/pro1",
        "- a\n",
        ": the file contains a list; write a mapping of variables, each name: value.",
    ),
    ("group_vars/all/v.yml", "$ANSIBLE_VAULT;1.1;AES256\n61\n", ": A vault password must be specified"),
    ("host_vars/pro1-kafka-1.yml", "a: 'b\n", ":2: YAML parsing failed: While scanning a quoted scalar"),
]


def written(folder: Path, file: str, text: str) -> Path:
    """Return an inventory whose one file is as given; it is right otherwise."""
    (folder / "hosts.yml").write_text("all: {hosts: {pro1-kafka-1: {kafka_node_id: 1}}}")
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text, errors="surrogateescape")
    return folder


@pytest.mark.parametrize(("file", "text", "sentence"), UNREADABLE)
def test_a_file_that_cannot_be_read_is_named(
    file: str, text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, file, text)
    with pytest.raises(SystemExit, match="4"):
        InventoryManager(DataLoader(), [str(tmp_path)])
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / file}{sentence}" in said


def test_playbook_reports_each_unreadable_file_and_nothing_else(playbook: Playbook, tmp_path: Path) -> None:
    written(tmp_path, "group_vars/site_pro1.yml", "a: b: c\n")
    written(tmp_path, "group_vars/site_pro2.yml", "a:\n  - b: 1\n   c: 2\n")
    done = playbook("-i", str(tmp_path))
    assert (done.returncode, done.stdout) == (4, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"[ERROR]: {tmp_path}/group_vars/site_pro1.yml:1: YAML parsing failed: Colons in")
    assert second.startswith(f"[ERROR]: {tmp_path}/group_vars/site_pro2.yml:3: YAML parsing failed: While")


@pytest.mark.parametrize("name", ["lab", "example"])
def test_the_repository_s_own_inventories_pass(name: str, playbook: Playbook) -> None:
    done = playbook("-i", f"inventories/{name}")
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stderr
