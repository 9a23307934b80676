"""Client settings of a worker, as org.apache.kafka.connect.runtime.Worker makes them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.connect.connectors import MASK, MOST_SECRETS, masked
from aqueduct.connect.worker import (
    ConnectorConfig,
    Worker,
    has_reference,
    is_reference,
    parse_connector,
    parse_worker,
    references,
)
from aqueduct.errors import Refused
from aqueduct.kafka.client_config import parse_properties

FILE = "worker.properties"


def worker(**properties: str) -> Worker:
    return Worker(FILE, {key.replace("__", "."): value for key, value in properties.items()})


def test_producer_inherits_only_bootstrap_servers_from_worker() -> None:
    own, consumer, producer, admin = worker(
        bootstrap__servers="b:9092",
        security__protocol="SSL",
        ssl__truststore__location="/t",
        producer__acks="all",
        consumer__security__protocol="SSL",
    ).blocks()
    assert (own.tls, consumer.tls, producer.tls, admin.tls) == (True, True, False, True)
    assert producer.settings == {"bootstrap.servers": "b:9092", "acks": "all"}
    assert consumer.trust_store is None
    assert admin.trust_store == own.trust_store
    assert admin.own == {}
    assert {"producer.acks", "acks"}.isdisjoint(admin.settings)


def test_a_connectors_overrides_come_last() -> None:
    one = worker(bootstrap__servers="b:9092", producer__acks="all", producer__linger__ms="5")
    sink = ConnectorConfig(file="c.json", name="sink", config={"producer.override.acks": "1", "topics": "t"})
    [block] = one.overridden(sink)
    assert (block.name, block.prefix, block.file) == ("producer", "producer.override.", "c.json")
    assert block.settings == {"bootstrap.servers": "b:9092", "acks": "1", "linger.ms": "5"}


def test_rest_takes_all_or_nothing_under_its_prefix() -> None:
    inherits = worker(ssl__keystore__location="/k", listeners="https://:8083")
    assert inherits.rest_tls()["ssl.keystore.location"] == "/k"
    own = worker(ssl__keystore__location="/k", listeners__https__ssl__client__auth="required")
    assert own.rest_tls() == {"ssl.client.auth": "required"}


def test_references_to_files_are_followed() -> None:
    text = (
        "group.id=connect\n"
        "config.providers=file,vault\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "config.providers.vault.class=com.example.Vault\n"
        "a=${file:/secrets:pw}\nb=x${file:/secrets:pw}y\nc=${file:/gone:pw}\nd=${vault:/secrets:pw}\n"
        "e=${file:/secrets:other}\n"
    )
    found = parse_worker(text, FILE, {"/secrets": "pw = let me in"}.get).properties
    assert [found[key] for key in "abcde"] == [
        "let me in",
        "xlet me iny",
        "${file:/gone:pw}",
        "${vault:/secrets:pw}",
        "${file:/secrets:other}",
    ]


def test_connector_file_is_json_or_properties() -> None:
    config = {"topics": "t", "tasks.max": 2, "a": True, "b": None}
    expected = {"topics": "t", "tasks.max": "2", "a": "true"}
    assert parse_connector(json.dumps(config), "c.json") == ConnectorConfig(
        file="c.json", name="c.json", config=expected
    )
    whole = json.dumps({"name": "sink", "config": config})
    assert parse_connector(whole, "c.json") == ConnectorConfig(file="c.json", name="sink", config=expected)
    text = "name=sink\ntopics=t"
    assert parse_connector(text, "c.properties").config == {"name": "sink", "topics": "t"}


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"config": []}', "null"])
def test_what_is_no_connector_is_refused(text: str) -> None:
    with raises(Refused, "connector-config-invalid") as caught:
        parse_connector(text, "c.json")
    assert "c.json" in str(caught.value)


# What it was compared with: Java's own, in 30,000 random texts of these letters.
LETTERS = "ab=: \t\f\\#!\n\rtn\xa0\u2028\x0b\x85"


def as_java(text: str) -> dict[str, str]:
    """Parse like java.util.Properties.load, character by character as its LineReader and loadConvert do."""
    found: dict[str, str] = {}
    lines, line, escaped, fresh = [], "", False, True
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if fresh and char in " \t\f":
            continue
        if not line and char in "#!":
            while at < len(text) and text[at] not in "\r\n":
                at += 1
            continue
        if char in "\r\n":
            if escaped:  # continues, without the blanks that the next line starts with
                line, escaped, fresh = line[:-1], False, True
                if char == "\r" and text[at : at + 1] == "\n":
                    at += 1
                continue
            if line:
                lines.append(line)
            line, fresh = "", True
            continue
        fresh = False
        line += char
        escaped = char == "\\" and not escaped
    if line.removesuffix("\\" if escaped else ""):
        lines.append(line[:-1] if escaped else line)
    for each in lines:
        end = 0
        while end < len(each) and each[end] not in "=: \t\f":
            end += 2 if each[end] == "\\" else 1
        start = end = min(end, len(each))
        separated = False
        while start < len(each) and (each[start] in " \t\f" or (each[start] in "=:" and not separated)):
            separated = separated or each[start] in "=:"
            start += 1
        found[converted(each[:end])] = converted(each[start:])
    return found


def converted(text: str) -> str:
    out, at = "", 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at]
        else:
            at += 1
            letter = text[at : at + 1]
            if letter == "u":
                out += chr(int(text[at + 1 : at + 5], 16))
                at += 4
            else:
                out += {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(letter, letter)
        at += 1
    return out


@given(st.lists(st.sampled_from([*LETTERS, "\\u00e4", "\\\n", "\\\r\n"]), max_size=30).map("".join))
def test_properties_are_read_as_java_reads_them(text: str) -> None:
    assert parse_properties(text) == as_java(text)


KAFKAS = re.compile(
    r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}"
)  # of org.apache.kafka.common.config.ConfigTransformer


@given(st.text(st.sampled_from("$${{}}::ab\n"), max_size=30))
def test_references_are_those_of_kafka(value: str) -> None:
    matches = [(match[1], match[3], match[4], *match.span()) for match in KAFKAS.finditer(value)]
    assert [(one.provider, one.path, one.key, one.begin, one.end) for one in references(value)] == matches
    assert has_reference(value) == bool(matches)
    assert is_reference(value) == bool(KAFKAS.fullmatch(value))


@pytest.mark.parametrize("part", [":", "${", "${:", "${:}", "}", "${a}", "a:"])
def test_cost_of_references_is_linear(part: str) -> None:
    """4,000 colons took minutes, and a megabyte as good as for ever."""
    value = "${" + part * 1_000_000
    assert is_reference(value) is False
    assert len(list(references(value))) == (1_000_000 if part == "${:}" else 0)


@pytest.mark.parametrize("count", [1, MOST_SECRETS, MOST_SECRETS + 1, 100_000])
def test_url_with_many_secrets_is_masked(count: int) -> None:
    url = "jdbc://h?" + "&".join(f"password=secret{number}" for number in range(count))
    shown = masked({"url": url})["url"]
    assert "secret" not in shown
    assert (shown == MASK) == (count > MOST_SECRETS)
