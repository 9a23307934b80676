"""The documentation is true: generated pages are new, links lead somewhere, examples do what they show.

```console blocks are run, all of a page in one shell in a copy of the repository, and print what they show.
Three dots in a line are any number of lines, and within a line any text. One that needs more is marked:
`<!-- in the lab -->` stands before it, or `<!-- with a broker -->`, which has a topic of flights.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from kazoo.client import KazooClient
from kit import clients

from demo.flights import flights
from docs.generate import pages
from servers import zookeeper
from servers.broker import Broker
from servers.process import free_ports

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs/guides"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def test_generated_pages_are_new() -> None:
    for path, content in pages().items():
        assert path.read_text() == content, f"{path.name}: run script/docs"


def dead_links(page: Path, text: str) -> Iterator[str]:
    """Yield links and code spans that name a file which doesn't exist."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if "://" not in target and not (page.parent / target).exists():
            yield target
    named = (path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._")
    folders = "|".join(name for name in named if name != "meta")  # each role has one, too
    for name in re.findall(rf"`((?:{folders})/[^`\s]*)`", prose):
        pattern = re.sub(r"<\w+>", "*", name.partition(":")[0])
        if not name.startswith("inventories/mine") and not any(ROOT.glob(pattern)):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page, page.read_text())) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[one](README.md) and [other](docs/nowhere.md#part)", ["docs/nowhere.md"]),
        ("`roles/kafka/defaults/main.yml`, `roles/<role>/meta` and `roles/kafkaesque`", ["roles/kafkaesque"]),
    ],
)
def test_a_dead_link_is_found(text: str, expected: list[str]) -> None:
    assert list(dead_links(ROOT / "README.md", text)) == expected


COMMAND = re.compile(r"(?<![\w./-])((?:script|playbooks)/[\w.-]+)")


def dead_commands(text: str) -> list[str]:
    """Return the scripts and playbooks in a page's code blocks that do not exist."""
    blocks = re.findall(r"^```.*?^```", text, flags=re.DOTALL | re.MULTILINE)
    named = (name.rstrip(".") for block in blocks for name in COMMAND.findall(block))
    return [name for name in named if not (ROOT / name).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_code_blocks_exist(page: Path) -> None:
    assert dead_commands(page.read_text()) == []


def test_a_dead_command_is_found() -> None:
    text = "`script/gone`\n```sh\nscript/demo\nansible-playbook -i mine playbooks/none.yml\n```\n"
    assert dead_commands(text) == ["playbooks/none.yml"]


README = ROOT / "README.md"


def test_readme_is_short() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 700


def glossary_words(text: str) -> list[str]:
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return [word for cell in cells if cell != "Word" for word in cell.split(", ")]


def test_each_word_of_the_glossary_is_used() -> None:
    glossary = ROOT / "docs/glossary.md"
    text = " ".join(
        page.read_text().lower() for page in PAGES if page not in (glossary, ROOT / "CHANGELOG.md")
    )
    words = glossary_words(glossary.read_text())
    assert len(words) > 30
    assert [word for word in words if not re.search(rf"\b{re.escape(word)}(s|es)?\b", text)] == []


NAMED = re.compile(r"`([\w/]+\.py)?::(test_\w+)`")


def attacks_named(text: str) -> Iterator[tuple[str, str]]:
    """Yield each test that a text names, with its file: `FILE::TEST`, or `::TEST` of the file before."""
    file = ""
    for named in NAMED.finditer(text):
        file = named[1] or file
        yield file, named[2]


def missing_tests(text: str) -> list[str]:
    return [
        f"{file}::{test}"
        for file, test in attacks_named(text)
        if not (ROOT / file).is_file() or f"\ndef {test}(" not in (ROOT / file).read_text()
    ]


def test_security_page_names_every_attack_test_file() -> None:
    text = (ROOT / "docs/security.md").read_text()
    assert missing_tests(text) == []
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/attack/test_*.py")}
    assert there - {file for file, _ in attacks_named(text)} == set()


# The columns of tables whose cells say that an attack fails.
CLAIMS = {"The attacker cannot", "Result", "Protected", "Threat"}
RISKS = "Remaining risks"  # what follows it, up to the next heading, claims nothing
NO_CLAIM = "- **Not protected**"
# Words of paragraphs and steps that say that an attack fails.
PROTECTED = re.compile(
    r"\b(cannot|den(y|ies|ied)|refuse[sd]?|revokes?|blocked|encrypted|mutual TLS|only|do(es)? not start)\b",
    re.I,
)
FILE_OF_TESTS = re.compile(r"`((?:tests|molecule|demo)/[\w/]+\.py|test_\w+\.py)(?:::test_\w+)?`")


def without_targets(line: str) -> str:
    """Return a line without the addresses of its links."""
    return re.sub(r"\]\([^)]*\)", "]", line)


def claims(text: str) -> Iterator[tuple[str, str]]:
    """Yield each row, item of a list, paragraph and step that claims something, and its tests.

    `the same` are those of the row before.
    """
    heads: list[str] = []
    tests, of_risks = "", False
    for line in text.splitlines():
        if line.startswith("#"):
            of_risks = False
        elif line.strip("*: ") == RISKS:
            of_risks = True
        elif re.match(r"\s*[-*] ", line):
            if not of_risks and not line.startswith(NO_CLAIM):
                yield line, line
        elif not line.startswith("|") and not of_risks and PROTECTED.search(without_targets(line)):
            yield line, line
        cells = [each.strip() for each in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not heads or not cells:
            heads = cells
            continue
        row = dict(zip(heads, [each.strip("| ") for each in cells], strict=False))
        if line.startswith("|---") or not any(row.get(each) for each in CLAIMS):
            continue
        tests = re.sub("^the same", tests, row.get("Test", ""))
        yield line, tests


def untested(text: str) -> list[str]:
    """Return the claims without a test that exists."""
    return [
        claim
        for claim, tests in claims(text)
        if not (files := FILE_OF_TESTS.findall(tests))
        or not all((ROOT / each).is_file() or (ROOT / "tests/attack" / each).is_file() for each in files)
    ]


def test_every_claim_of_security_has_a_test() -> None:
    text = (ROOT / "docs/security.md").read_text()
    assert untested(text) == []
    assert len([*claims(text)]) > 60


def test_a_claim_without_a_test_is_found() -> None:
    head = "| Attack | Result | Test |\n|---|---|---|\n"
    tested = (
        "| a | refused | `test_frames.py` |\n| b | refused, too | the same, `tests/attack/test_fuzz.py` |\n"
    )
    wrong = "| c | held |  |\n", "| d | held | `test_nothing.py` |\n", "| e | held | the same |\n"
    assert untested(head + tested) == []
    for each in wrong[:2]:
        assert untested(head + tested + each) == [each.strip()]
    assert untested(head + wrong[2]) == [wrong[2].strip()]
    assert untested("| The attacker can | The attacker cannot |\n|---|---|\n| read | write |\n") == [
        "| read | write |"
    ]


def test_untested_claim_in_list_is_detected() -> None:
    tested = "## Keys\n- held: `tests/attack/test_fuzz.py`\n- **Not protected**: all else\n"
    risks = "\n**Remaining risks**\n\n- whoever has root\n\nRemaining risks:\n\n- and others\n"
    wrong = "- held", "- held: `tests/attack/test_nothing.py`", "  - held, too"
    assert untested(tested + risks) == []
    for line in wrong:
        assert untested(f"{tested}{line}\n{risks}") == [line]
        assert untested(f"{tested}{risks}\n## More\n{line}\n") == [line]


def test_untested_claim_in_paragraph_is_detected() -> None:
    tested = "## Keys\n\nOther clients cannot connect. Test: `tests/attack/test_fuzz.py`.\n"
    no_claim = "An attacker with root can read the key.\n\n1. Stop the service.\n"
    risks = "\nRemaining risks:\n\nOnly a lock prevents that.\n"
    wrong = (
        "REST refuses other clients.",
        "All traffic uses mutual TLS.",
        "1. This revokes its rights at once.",
    )
    assert untested(f"{tested}\n{no_claim}{risks}") == []
    for line in wrong:
        assert untested(f"{tested}\n{line}\n{risks}") == [line]
        assert untested(f"{tested}{risks}\n## More\n\n{line}\n") == [line]


def test_a_test_that_is_not_there_is_found() -> None:
    own = "tests/contract/test_docs.py"
    text = f"`{own}::test_links_lead_somewhere`, `::test_nothing` and `tests/none.py::test_nothing`"
    assert missing_tests(text) == [f"{own}::test_nothing", "tests/none.py::test_nothing"]


EXAMPLE = re.compile(
    r"^(?:<!-- (?P<needs>in the lab|with a broker|with an ensemble) -->\n)?```console\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def examples(text: str, needs: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield each command of the examples that need that, and its output."""
    for example in EXAMPLE.finditer(text):
        for part in re.split(r"^\$ ", example["text"], flags=re.MULTILINE)[1:]:
            # As a shell shows them: a line that ends in \\ goes on, and so does one before a line with >.
            lines = re.match(r"(?:.*\\\n)*.*\n(?:> .*\n)*", part)
            assert lines
            if example["needs"] == needs:
                yield re.sub("^> ", "", lines[0], flags=re.MULTILINE), part[lines.end() :]


# What takes long tells how far it is; on a busy machine all may take long.
PROGRESS = re.compile(r"^[\d,]+ of [\d,]+ tasks? done.*\n", re.MULTILINE)


def as_shown(shown: str, printed: str) -> bool:
    lines = (
        r"(.*\n)*" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*")
        for line in shown.splitlines(keepends=True)
    )
    return re.fullmatch("".join(lines), PROGRESS.sub("", printed)) is not None


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository, without environments, keys and somebody's own inventory.

    Examples of all pages run there: each page writes other files.
    """
    ignored = shutil.ignore_patterns(".*", "__pycache__", "pki", "reports", "mine")
    folder = tmp_path_factory.mktemp("tree") / "aqueduct"
    return shutil.copytree(ROOT, folder, symlinks=True, ignore=ignored)


def run(commands: Sequence[str], tree: Path) -> list[str]:
    """Run the commands in one shell; return what each printed, without blanks at the ends of lines.

    Whatever they left in the background is ended.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    mark = f"-- {secrets.token_hex(8)} --\n"
    shell = subprocess.Popen(
        ["bash", "-c", f"printf -- '{mark}'\n".join(commands)],
        cwd=tree,
        env={**environment, "PATH": path, "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=1000)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    return re.sub(r"[ \t]+$", "", printed, flags=re.MULTILINE).split(mark)


# Pages whose examples run, by what these need.
RUN = {
    None: {"connect.md", "inventory.md", "reconcile.md"},
    "with a broker": {"backup.md", "land.md", "link.md", "restore.md"},
    "with an ensemble": {"old-estates.md"},
}


GROWTH = ROOT / "docs/scale.md"  # which is no guide, and has a test of its own


@pytest.mark.parametrize("needs", RUN)
def test_no_example_goes_unrun(needs: str | None) -> None:
    pages = [page for page in PAGES if page != GROWTH]
    assert {page.name for page in pages if list(examples(page.read_text(), needs))} == RUN[needs]


@pytest.mark.parametrize("name", sorted(RUN[None]))
def test_examples_do_what_they_show(name: str, tree: Path) -> None:
    found = list(examples((GUIDES / name).read_text()))
    for (command, shown), printed in zip(found, run([each for each, _ in found], tree), strict=True):
        assert as_shown(shown, printed), f"$ {command}{printed}"


def test_readme_commands_create_valid_inventory() -> None:
    """They are the first two examples of the guide, which run above: the check finds no error."""
    commands = re.findall(
        r"^(?:cp -r inventories/.*|ansible-playbook .*/check\.yml)", README.read_text(), re.M
    )
    (copied, _), (checked, shown), *_ = examples((GUIDES / "inventory.md").read_text())
    assert commands == [copied.rstrip(), checked.rstrip()]
    assert re.search(r" : ok=[1-9] +changed=0 +unreachable=0 +failed=0 ", shown), shown


@pytest.mark.long
def test_growth_page_shows_output_of_its_command(tree: Path) -> None:
    [(command, shown)] = examples(GROWTH.read_text())
    [printed] = run([command], tree)
    assert as_shown(shown, printed), printed
    page = GROWTH.read_text()
    for script in re.findall(r"`(bench/\w+)[^`]*`", page):
        assert os.access(ROOT / script, os.X_OK)


# Of the examples; the test has others.
FOLDER, PORT = "/tmp/", "9777"  # noqa: S108


@pytest.fixture(scope="module")
def server(brokers: list[Broker]) -> Broker:
    """Return a broker that has what the examples need."""
    fill(brokers[1])
    return brokers[1]


@pytest.mark.parametrize("name", sorted(RUN["with a broker"]))
def test_examples_with_a_broker_do_what_they_show(
    name: str, server: Broker, tree: Path, tmp_path: Path
) -> None:
    here = {
        "localhost:9092": server.plaintext,
        FOLDER: f"{tmp_path}/",
        "/var/lib/kafka/log": str(server.data),
        PORT: str(*free_ports(1, socket.SOCK_DGRAM)),
    }
    check_examples(name, "with a broker", here, tree)


def test_examples_with_an_ensemble_do_what_they_show(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "zookeeper").mkdir()
    with zookeeper.running(tmp_path / "zookeeper") as server, fill_ensemble(server.connect):
        fill_folder(tmp_path / "etc")
        here = {"localhost:2181": server.connect, FOLDER: f"{tmp_path}/"}
        check_examples("old-estates.md", "with an ensemble", here, tree)


def check_examples(name: str, needs: str, here: Mapping[str, str], tree: Path) -> None:
    """Run a guide's examples with other words; fail where one says something else than is shown."""
    found = list(examples((GUIDES / name).read_text(), needs))
    commands = [changed(command, here) for command, _ in found]
    back = {real: name for name, real in here.items()}
    for (command, shown), printed in zip(found, run(commands, tree), strict=True):
        assert as_shown(shown, changed(printed, back)), f"$ {command}{printed}"


def changed(text: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def fill(broker: Broker) -> None:
    """Write 1,000 flights, a group that has read some of them, and a link's topics."""
    for topic, partitions in (("flights", 2), ("flights-arrived", 2), ("raw", 1)):
        clients.create(broker, topic, partitions)
    clients.create(broker, "gaps", cleanup_policy="compact")
    some = enumerate(islice(flights("EWR"), 1_000))
    written = [vars(flight) | {"headers": [*flight.headers], "partition": n % 2} for n, flight in some]
    clients.produce(broker, "flights", written)
    consumer = clients.consumer(broker, "readers")
    positions = [TopicPartition("flights", 0, 300), TopicPartition("flights", 1, 500)]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def fill_folder(folder: Path) -> None:
    """Make files as a broker's host has them."""
    (folder / "tls").mkdir(parents=True)
    for name, text in (("server.properties", "node.id=1"), ("log4j2.yaml", ""), ("tls/broker.pem", "key")):
        (folder / name).write_text(text)


@contextmanager
def fill_ensemble(connect: str) -> Iterator[None]:
    """Make znodes as a broker of Kafka has them, for as long as it is there."""
    broker = KazooClient(connect)
    broker.start()
    identity = b'{"version":"1","id":"Mk3OEYBSD34fcwNTJENDM2"}'
    for path, data in (
        ("/cluster/id", identity), ("/controller_epoch", b"3"), ("/config/topics/flights", b'{"version":1}'),
        ("/config/users/anna", b'{"version":1}'), ("/brokers/topics/flights/partitions/0/state", b"{}"),
        ("/kafka-acl/Topic/flights", b'{"version":1}'),
    ):  # fmt: skip
        broker.create(path, data, makepath=True)
    broker.create("/isr_change_notification/isr_change_", sequence=True, makepath=True)
    for path in ("/brokers/ids/1", "/controller"):
        broker.create(path, b"{}", ephemeral=True, makepath=True)
    yield
    broker.stop()
    broker.close()


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("one\ntwo\nthree\n", True),
        ("...\nthree\n", True),
        ("one\n...\ntwo\nthree\n", True),
        ("one\ntwo\n", False),
        ("one\n...\nfour\n...\n", False),
        ("o.e\n...\n", False),
        ("o...\nt...o\nthree\n", True),
        ("o...\nt...x\nthree\n", False),
    ],
)
def test_an_example_that_shows_something_else_is_found(shown: str, is_right: bool) -> None:
    assert as_shown(shown, "one\ntwo\nthree\n") is is_right


def test_only_examples_that_say_so_are_left_out() -> None:
    text = (
        "```console\n$ ls \\\n  -1\none\n$ true\n```\n\n<!-- in the lab -->\n```console\n$ docker ps\n```\n"
    )
    assert list(examples(text)) == [("ls \\\n  -1\n", "one\n"), ("true\n", "")]
    assert list(examples(text, "in the lab")) == [("docker ps\n", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_place_for_output_is_left_open(page: Path) -> None:
    assert "<!-- OUTPUT" not in page.read_text()
