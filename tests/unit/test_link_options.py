"""One option from three places, and everything that is refused."""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.link import options
from aqueduct.link.options import Create, Downstream, Resend, Target, Upstream
from aqueduct.link.resend import Asked, asked_for, divided
from aqueduct.link.upstream import wanted

UPSTREAM = {
    "bootstrapServers": "b:9092",
    "targetIP": "diode",
    "topic": "flights",
    "publicKeyFile": "r.pub",
    "signingKeyFile": "s.key",
}
DOWNSTREAM = {
    "bootstrapServers": "b:9092",
    "rawTopic": "raw",
    "privateKeyFiles": "a.key,b.key",
    "senderPublicKeyFile": "s.pub",
    "stateDir": "/var/lib/x",
}


def upstream(**more: str) -> Upstream:
    return options.build(Upstream, None, {}, UPSTREAM | more, pytest.fail)


def resend(**more: str) -> Resend:
    rest = {name: value for name, value in UPSTREAM.items() if name != "topic"}
    return options.build(Resend, None, {}, rest | more, pytest.fail)


@pytest.mark.parametrize("verb", options.VERBS)
def test_help_states_the_default(verb: type[options.Common]) -> None:
    default_by_field = {field.name: field.default for field in fields(verb)}
    for option in options.known(verb):
        default = default_by_field[option.field]
        if isinstance(default, str) or (type(default) is int and default):
            stated = re.search(r"default (\S+?)(?: (MiB))?(?:;|$)", option.option.help)
            assert stated, option.camel
            expected = str(default >> 20) if isinstance(default, int) and stated[2] else str(default)
            assert stated[1] == expected, option.camel


def test_defaults_are_those_of_the_documentation() -> None:
    found = upstream()
    assert (found.target_port, found.eps, found.compress_when_length_exceeds) == (9777, None, 1000)
    assert found.all_targets() == (Target("diode", 9777, 0),)
    assert found.group == "aqueduct-diode-aqueduct-diode"


@pytest.mark.parametrize("name", ["up.yml", "up.properties"])
def test_command_line_beats_environment_beats_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    joint = ": " if file.suffix == ".yml" else "="
    content = UPSTREAM | {"eps": "10", "linger": "30", "parity": "20", "from": "2026-01-31T18:00:00Z"}
    file.write_text("".join(f"{key}{joint}{value}\n" for key, value in content.items()))
    environment = {"AQUEDUCT_DIODE_LINGER": "40", "AQUEDUCT_DIODE_PARITY": "21", "OTHER": "x"}
    found = options.build(Upstream, file, environment, {"parity": "22"}, pytest.fail)
    assert (found.eps, found.linger, found.parity) == (10, 40, 22)
    assert found.from_ == 1769882400000


def test_both_spellings() -> None:
    assert upstream(**{"bits-per-second": "1e6"}).bits_per_second == 1e6
    assert upstream(bitsPerSecond="-1").bits_per_second is None
    assert upstream(groupID="g").group == upstream(**{"group-id": "g"}).group == "g"


def test_lists_and_truth_in_yaml(tmp_path: Path) -> None:
    file = tmp_path / "down.yaml"
    file.write_text("privateKeyFiles: [a.key, b.key]\nreceiveBuffer: 1048576\nencryption: true\n")
    rest = {name: value for name, value in DOWNSTREAM.items() if name != "privateKeyFiles"}
    found = options.build(Downstream, file, {}, rest, pytest.fail)
    assert found.private_key_files == (Path("a.key"), Path("b.key"))
    assert found.receive_buffer == 1048576


def test_several_links() -> None:
    rest = {name: value for name, value in UPSTREAM.items() if name != "targetIP"}
    found = options.build(Upstream, None, {}, rest | {"targets": "a:1=7, [::1]:2=8"}, pytest.fail)
    assert found.all_targets() == (Target("a", 1, 7), Target("::1", 2, 8))


def test_what_means_nothing_here_is_said_and_taken() -> None:
    said: list[str] = []
    options.build(Upstream, None, {}, UPSTREAM | {"sendingThreads": "3"}, said.append)
    assert len(said) == 1
    assert "set repeatAfter" in said[0]


def test_words_of_air_gap_are_accepted(tmp_path: Path) -> None:
    """As in the sample files of air-gap: `auto`, empty values, levels in small letters, -1, patterns."""
    for name in ("private1.pem", "private2.pem"):
        (tmp_path / name).touch()
    file = tmp_path / "upstream.properties"
    file.write_text("mtu=auto\npayloadSize=auto\nfrom=\nlogLevel=info\neps=-1\ntransport=udp\nclientId=up\n")
    said: list[str] = []
    found = options.build(Upstream, file, {}, UPSTREAM, said.append)
    assert (found.mtu, found.payload_size, found.from_, found.log_level, found.eps) == (
        None,
        0,
        None,
        "INFO",
        None,
    )
    assert len(said) == 2
    bundle = {
        "resendFileName": "gaps.json",
        "partition": "-1",
        "offsetFrom": "-1",
        "offsetTo": "-1",
        "to": "",
    }
    sent = resend(**bundle)
    assert (sent.partition, sent.offset_from, sent.offset_to, sent.to) == (None, None, None, None)
    keys = {"privateKeyFiles": f"{tmp_path}/private*.pem"}
    received = options.build(Downstream, None, {}, DOWNSTREAM | keys, pytest.fail)
    assert received.private_key_files == (tmp_path / "private1.pem", tmp_path / "private2.pem")


def test_empty_value_withdraws_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "up.properties"
    file.write_text("linger=30\n")
    assert options.build(Upstream, file, {}, UPSTREAM, pytest.fail).linger == 30
    assert options.build(Upstream, file, {}, UPSTREAM | {"linger": ""}, pytest.fail).linger == 20


def test_all_refusals_are_listed_at_once(tmp_path: Path) -> None:
    file = tmp_path / "resend.properties"
    file.write_text(
        "bootstrapServers=b:9092\ntargetIP=diode\ntopic=flights\npartition=-1\nto=\npublicKeyFile=\n"
        "encryption=false\ngenerateNewSymmetricKeyEvery=0\ndeliverFilter=1\ntcpTLSEnabled=true\n"
    )
    with pytest.raises(Refused) as refused:
        options.build(Resend, file, {}, {}, lambda _: None)
    assert refused.value.id == "link-options-invalid"
    first, *listed = str(refused.value).split("\n  ")
    assert first == "7 options cannot be used:"
    for each, word in zip(
        listed,
        (
            *("generateNewSymmetricKeyEvery must be", "the option deliverFilter", "the option tcpTLSEnabled"),
            *("publicKeyFile must be set", "signingKeyFile must be set"),
            *("encryption=false is not possible", "set resendFileName, or set topic with partition"),
        ),
        strict=True,
    ):
        assert word in each


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ({"encryption": "false"}, "encryption=false"),
        ({"targetIp": "x"}, "targetIp targetIP"),
        ({"parity": "101"}, "parity 0 100 '101'"),
        ({"parity": "nan"}, "parity 'nan'"),
        ({"largestRecord": "0"}, "largestRecord 1 1073741824 '0'"),
        ({"eps": "1e16"}, "eps -1 1000000000000000 '1e16'"),
        ({"eps": "nan"}, "eps 'nan'"),
        ({"eps": "0"}, "eps -1"),
        ({"topics": "a"}, "topic topics"),
        ({"targets": "a:1=1"}, "targetIP targets"),
        ({"targets": "a:99999=1"}, "targets 65535"),
        ({"from": "yesterday"}, "from 2026"),
        ({"keyFile": "k"}, "keyFile certFile"),
        ({"inputFilterDefaultAction": "drop"}, "inputFilterDefaultAction allow deny 'drop'"),
        ({"logLevel": "FATAL"}, "logLevel DEBUG INFO WARN ERROR 'FATAL'"),
    ],
)
def test_unfit_values(more: Mapping[str, str], facts: str) -> None:
    with raises(Refused, "link-options-invalid") as refused:
        upstream(**more).end("source")
    assert [fact for fact in facts.split() if fact not in str(refused.value)] == []


def test_a_regex_that_does_not_compile() -> None:
    rest = {name: value for name, value in UPSTREAM.items() if name != "topic"}
    with raises(Refused, "link-options-invalid") as refused:
        options.build(Upstream, None, {}, rest | {"topics": "(a"}, pytest.fail)
    assert "topics" in str(refused.value)


def test_what_must_be_set() -> None:
    with raises(Refused, "link-options-invalid") as refused:
        options.build(Create, None, {}, {}, pytest.fail)
    assert "bootstrapServers" in str(refused.value)
    with raises(Refused, "link-options-invalid") as refused:
        options.build(Resend, None, {}, UPSTREAM, pytest.fail)
    assert "resendFileName" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "id_"),
    [
        ("- a", "config-file-invalid"),
        ("a: [", "config-file-invalid"),
        ("\xff", "config-file-unreadable"),
    ],
)
def test_files_that_are_no_use(tmp_path: Path, content: str, id_: str) -> None:
    file = tmp_path / "c.yml"
    file.write_text(content, encoding="latin-1")
    with raises(Refused, id_) as refused:
        options.build(Create, file, {}, {}, pytest.fail)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("o.properties", "eps=1\neps=1\n", "o.properties eps"),
        ("o.yml", "eps: 1\neps: 2\n", "o.yml eps"),
        ("o.yml", "targetIP: a\ntarget-ip: a\n", "o.yml targetIP target-ip"),
        ("o.properties", "group-id=a\ngroupID=b\n", "group-id groupID"),
        ("o.properties", "stateDir=a\nstateDir=b\n", "stateDir"),  # another verb's
        ("o.yml", "sendingThreads: 1\nsendingThreads: 2\n", "sendingThreads"),
    ],
)
def test_what_a_file_says_twice(tmp_path: Path, name: str, content: str, facts: str) -> None:
    (tmp_path / name).write_text(content)
    with raises(Refused, "link-options-invalid") as refused:
        options.build(Upstream, tmp_path / name, {}, UPSTREAM, lambda _: None)
    assert [fact for fact in facts.split() if fact not in str(refused.value)] == []


def test_an_option_with_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "o.yml").write_text("eps: {a: 1}\n")
    with raises(Refused, "config-value-invalid") as refused:
        options.build(Upstream, tmp_path / "o.yml", {}, UPSTREAM, lambda _: None)
    assert "o.yml, line 1" in str(refused.value)


def test_errors_name_environment_variables_as_written() -> None:
    for name, fact in (
        ("PARITY", "AQUEDUCT_DIODE_PARITY"),
        ("TARGT_IP", "AQUEDUCT_DIODE_TARGET_IP"),
        ("GROUP_I", "AQUEDUCT_DIODE_GROUP_ID"),
    ):
        with raises(Refused, "link-options-invalid") as refused:
            options.build(Upstream, None, {f"AQUEDUCT_DIODE_{name}": "x"}, UPSTREAM, pytest.fail)
        assert fact in str(refused.value)
    taken = {"AQUEDUCT_DIODE_FROM": "2026-01-31T18:00:00Z", "AQUEDUCT_DIODE_GROUP_ID": "g"}
    found = options.build(Upstream, None, taken, UPSTREAM, pytest.fail)
    assert (found.from_, found.group) == (1769882400000, "g")
    twice = {"AQUEDUCT_DIODE_EPS": "1", "AQUEDUCT_DIODE_eps": "2"}
    with raises(Refused, "link-options-invalid") as refused:
        options.build(Upstream, None, twice, UPSTREAM, pytest.fail)
    assert [name for name in twice if name not in str(refused.value)] == []


def test_yaml_is_taken_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "o.yml").write_text("from: 2026-01-31T18:00:00Z\nid: 0123\nencryption: Yes\nnic: eth0\n")
    found = options.build(Upstream, tmp_path / "o.yml", {}, UPSTREAM, pytest.fail)
    assert (found.from_, found.id, found.encryption, found.nic) == (1769882400000, "0123", True, "eth0")
    (tmp_path / "o.yml").write_text("from: 2026-02-31\n")
    with raises(Refused, "link-options-invalid") as refused:
        options.build(Upstream, tmp_path / "o.yml", {}, UPSTREAM, pytest.fail)
    assert "o.yml: from " in str(refused.value)


def test_resend_is_restricted_to_topics_of_link() -> None:
    """The options of another link's upstream have another filter."""
    topics = r"flights|seats\..*"
    found = resend(topics=topics, resendFileName="bundle.json")
    assert [found.crosses(name) for name in ("flights", "seats.a", "flights2")] == [True, True, False]
    with raises(Refused, "link-options-invalid") as refused:
        resend(topics=topics, topic="secrets", partition="0")
    assert "secrets" in str(refused.value)


def test_single_topic_of_link_restricts_bundle() -> None:
    found = resend(topic="flights", resendFileName="b.json")
    assert [found.crosses(name) for name in ("flights", "seats", "__consumer_offsets")] == [
        True,
        False,
        False,
    ]


def test_no_internal_topic_of_kafka_crosses() -> None:
    for topic in ("__consumer_offsets", "__orders"):
        assert not resend(topics=".*", resendFileName="b.json").crosses(topic)
    assert resend(topics="__.*|flights", resendFileName="b.json").crosses("__orders")
    assert resend(topic="__orders", partition="0").crosses("__orders")
    with raises(Refused, "link-options-invalid") as refused:
        resend(topic="__consumer_offsets", partition="0")
    assert "__consumer_offsets" in str(refused.value)


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ({"resendFileName": "b", "offsetFrom": "0"}, "offsetFrom topic partition"),
        ({"resendFileName": "b", "offsetTo": "9"}, "offsetTo topic partition"),
        ({"topic": "t", "partition": "0", "offsetFrom": "5", "offsetTo": "3"}, "offsetFrom 5 offsetTo 3"),
        ({"topic": "t", "partition": "1", "partitionStartValue": "2"}, "partition 1"),
        ({"resendFileName": "b", "from": "2026-01-31T18:00:01Z", "to": "2026-01-31T18:00:00Z"}, "from to"),
    ],
)
def test_contradictory_resend_options_are_refused(more: Mapping[str, str], facts: str) -> None:
    with raises(Refused, "link-options-invalid") as refused:
        resend(**more)
    assert [fact for fact in facts.split() if fact not in str(refused.value)] == []


BUNDLE = """{"type": "%s", "results": [
    {"topic": "flights", "partition": 2, "gaps": [[5, 7], [9, 9]]},
    {"topic": "flights", "partition": 9, "gaps": [[0, 3]]},
    {"topic": "__consumer_offsets", "partition": 2, "gaps": [[0, 99]]}]}"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "all",
            [
                Asked(topic="flights", partition=0, first=5, last=7),
                Asked(topic="flights", partition=0, first=9, last=9),
            ],
        ),
        ("first", [Asked(topic="flights", partition=0, first=5, last=7, onwards=True)]),
    ],
)
def test_bundle_entries_of_other_senders_are_listed(tmp_path: Path, kind: str, expected: list[Asked]) -> None:
    file = tmp_path / "bundle.json"
    file.write_text(BUNDLE % kind)
    shifted = {"partitionStartValue": "2", "partitionStopValue": "3"}
    asked, others = asked_for(resend(topics=".*", resendFileName=str(file), **shifted))
    assert asked == expected
    assert [each.topic for each in others] == ["flights", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("first", "last", "onwards", "window", "expected"),
    [
        (120, 130, False, {}, [(120, 131), None, None]),
        (90, 130, False, {}, [(100, 131), (90, 100), None]),
        (10, 20, False, {}, [None, (10, 21), None]),
        (480, 520, False, {}, [(480, 500), None, (500, 521)]),
        (600, 900, False, {}, [None, None, (600, 901)]),
        (480, 490, True, {}, [(480, 500), None, None]),
        (5000, 5009, True, {}, [None, None, (5000, 5010)]),
        (0, -1, True, {}, [(100, 500), (0, 100), None]),
        (480, 520, False, {"since": 490}, [(490, 500), None, (500, 521)]),
        (480, 520, False, {"since": -1}, [None, None, (500, 521)]),
        (480, 520, False, {"until": 490}, [(480, 490), None, None]),
    ],
)
def test_what_a_log_lacks_is_told_apart(
    first: int, last: int, onwards: bool, window: dict[str, int], expected: list[tuple[int, int] | None]
) -> None:
    """Ask a log from offset 100 to 500, exclusive."""
    parts = divided(
        Asked(topic="t", partition=0, first=first, last=last, onwards=onwards), 100, 500, **window
    )
    assert [(each.start, each.stop) if each.start < each.stop else None for each in parts] == expected


def test_full_resend_of_empty_log_lacks_nothing() -> None:
    [one], _ = asked_for(resend(topic="t", partition="0"))
    assert all(each.start >= each.stop for each in divided(one, 0, 0))


def test_sending_end_ignores_internal_topics_of_kafka() -> None:
    rest = {name: value for name, value in UPSTREAM.items() if name != "topic"}
    follows = wanted(options.build(Upstream, None, {}, rest | {"topics": ".*"}, pytest.fail))
    there = ("__consumer_offsets", "__orders", "_orders")
    assert [name for name in there if follows(name)] == ["_orders"]
    follows = wanted(options.build(Upstream, None, {}, rest | {"topics": "__.*"}, pytest.fail))
    assert [name for name in there if follows(name)] == ["__orders"]
    assert wanted(upstream(topic="__orders"))("__orders")
    with raises(Refused, "link-options-invalid", "__consumer_offsets"):
        upstream(topic="__consumer_offsets")
