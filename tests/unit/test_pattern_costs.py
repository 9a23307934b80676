"""Patterns that are applied to text of other hosts need time that grows no faster than the text.

Sizes are such that a pattern whose time grows with the square of the text runs into the time limit of a test.
Add a pattern of such text here, with the texts in which its parts could begin or end most often.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from kit import plugin_modules

from aqueduct.connect import connectors
from aqueduct.control_node.status import facts
from aqueduct.kafka import addresses, client_config, listeners
from aqueduct.land import json_blocks, registry_paths
from aqueduct.recovery.file_backup import reasons, rsync
from aqueduct.recovery.quorum import seed
from aqueduct.recovery.zookeeper import quorum_keys
from aqueduct.store import error_messages, json_density
from aqueduct.work import spark_errors

SIZE = 1 << 20
HOST_KEYS, HOST_FACTS = plugin_modules.load("host_keys"), plugin_modules.load("host_facts")


def denied(text: str) -> object:
    return registry_paths.is_denied(f"{registry_paths.API}/{text}")


# The function that applies each pattern, and the parts that are repeated in hostile texts.
PATTERNS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "key": (HOST_KEYS.KEY.search, ("-----BEGIN PRIVATE " + "KEY-----", "-----BEGIN A ", "A ", "-----END ")),
    "certificates": (HOST_KEYS.CERTIFICATE.findall, ("-----BEGIN CERTIFICATE-----", "A", "\n")),
    "certificates of facts": (
        lambda text: HOST_FACTS.CERTIFICATE.findall(text.encode()),
        ("-----BEGIN CERTIFICATE-----", "A", "\n"),
    ),
    "quorum's certificates": (
        lambda text: list(quorum_keys.CERTIFICATE.finditer(text)),
        ("-----BEGIN CERTIFICATE-----", "A"),
    ),
    "PEM of a store": (client_config._PEM.findall, ("-----BEGIN A-----", "-----BEGIN ", "A")),
    "secrets of a URL": (connectors.SECRET_OF_URL.findall, ("//", "//a:", "?pwd", ";a.", "?", "//a:b")),
    "version": (lambda text: HOST_FACTS.VERSION.search(text.encode()), ("/opt/aqueduct/a-", "a-", "-")),
    "sample": (facts._SAMPLE.fullmatch, ('a{b="', 'a="",', "a", '"', "{", " ")),
    "labels": (lambda text: list(facts.samples(text)), ('a="\\"', "a=", " ", '="')),
    "reason of JSON": (
        json_blocks._reason,
        ("Column(", "Column() changed from a ", "The string '", "' ", ") "),
    ),
    "denied HDFS user": (error_messages._DENIED.search, ("user=", "user=a, access=", "user=a, access=b,")),
    "no data node": (error_messages._NO_BLOCK.search, ("There are 1 datanode(s) running and ", "1 ")),
    "error of HDFS": (error_messages._JAVA.search, ('RPCError("', "a.", 'a", "')),
    "web page": (error_messages._TLS.search, ("InvalidCertificate( ", "invalid peer certificate: ", " ")),
    "strings of JSON": (
        lambda text: json_density.has_more(text.encode(), json_density.VALUES, 0),
        ('"', '\\"', "\\", "\n", '",', ",", '"",'),
    ),
    "failed login": (
        listeners._FAILED.search,
        ("Unexpected error from ", "Unexpected error from /", "/", "/a (channelId=", ":1"),
    ),
    "advertised address": (addresses._LIBRDKAFKA.match, ("a:1", ":1/", "/1", "a://")),
    "late connection": (addresses._SETUP_TIMEOUT.match, ("a/", "/a", "/a: ")),
    "reason of a client": (addresses.reason, ("aError", " (after ", "a")),
    "unreadable file": (
        lambda text: list(reasons._UNREADABLE.finditer(text)),
        ('rsync: [sender] a "', '" (in ', '" (in )', '"', "rsync: [sender] a ", "a "),
    ),
    "vanished file": (lambda text: list(reasons._VANISHED.finditer(text)), ('file has vanished: "', '"a')),
    "folder that is gone": (
        reasons._GONE.search,
        ("link_stat", "link_stat ", "change_dir failed: No ", "\n"),
    ),
    "output of ssh": (lambda text: rsync.CHATTER.sub("", text), ("debug1", "debug1\n", "\n")),
    "options of a key": (rsync.KEY_OPTIONS.search, ("debug1: Remote: ", ": key options: ", "\r")),
    "reason of Spark": (
        spark_errors.reason,
        ("tar: ", "tar: /", "/a.tar.", "aqueduct: The worker ", 'Cannot run program "', "No module named '"),
    ),
    "path of a registry": (denied, ("/.", "/", "%2f", "%", "a", "%2", "..")),
    "directory": (seed.DIRECTORY.search, ("directory.id", "directory.id=", "\n", " ", "directory.id\n")),
    "reader's reason": (
        lambda text: re.sub(r"^\S+/(bootstrap|\d+): | \(after .*|\.$", "", text),
        ("a/", "/1", " (after", "."),
    ),
}


@pytest.mark.parametrize("case", PATTERNS)
def test_cost_is_linear(case: str) -> None:
    apply, parts = PATTERNS[case]
    texts = [first + part * (SIZE // len(part)) for first in ("", parts[0]) for part in parts]
    results = [apply(text) for text in texts]
    assert len(results) == 2 * len(parts)
