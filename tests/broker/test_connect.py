"""Connectors of a real worker: the Ansible module, the doctor, and dead-letter records that are sent back."""

import json
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kit import clients, connect_worker
from kit.connect_worker import Worker
from kit.estate_facts import judged

from aqueduct.cli import doctor, main
from aqueduct.connect.rest import Connect
from aqueduct.control_node.status.model import ObjectKind, ObjectState
from aqueduct.kafka import acls, client_config
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.client_config import End
from servers.broker import Broker

MODULE = Path(__file__).parents[2] / "plugins/modules/connect_connectors.py"
WAIT_SECONDS = 400  # a limit only ends waits that would never end
SECRETS_FILE = {"secrets_file": "/etc/aqueduct/connect/secrets.properties"}

Module = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def worker(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    broker = brokers[0]
    rights = [("topic", "*"), ("group", "*"), ("transactional_id", "*"), ("cluster", "kafka-cluster")]
    everything = tuple(
        Acl(principal="User:CN=connect", resource=what, name=name, pattern="literal", operation="all")
        for what, name in rights
    )
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(everything, ()))
    with connect_worker.running(broker, tmp_path_factory.mktemp("connect")) as running:
        yield running


@pytest.fixture
def module(worker: Worker) -> Iterator[Module]:
    """Yield the function that runs the module as Ansible does, with one connector, and returns its result.

    The connector is gone afterwards. `settle`: for so long a changed connector must be as declared.
    """
    names = set[str]()

    def call(connectors: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        given = {
            "urls": ["https://127.0.0.1:1", worker.url],  # the first one is away
            "client_config": str(worker.client_config),
            "connectors": connectors,
            "timeout_seconds": WAIT_SECONDS,
            "_ansible_diff": True,
            **more,
        }
        done = subprocess.run(
            [sys.executable, MODULE],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": given}),
            env={"PYTHONPATH": str(MODULE.parents[2])},
            capture_output=True,
            text=True,
        )
        return dict(json.loads(done.stdout))

    def run(
        name: str,
        *,
        check: bool = False,
        worker_config: Path | None = None,
        file_directories: list[str] | None = None,
        settle: int = 1,
        beside: dict[str, dict[str, str]] | None = None,
        **connector: Any,
    ) -> dict[str, Any]:
        others = [{"name": other, "config": config} for other, config in (beside or {}).items()]
        names.update([name, *(beside or ())])
        result = call(
            [{"name": name, **connector}, *others],
            worker_config=worker_config and str(worker_config),
            **({} if file_directories is None else {"file_directories": file_directories, **SECRETS_FILE}),
            settle_seconds=settle,
            _ansible_check_mode=check,
        )
        if connector.get("state") == "absent" and not check and "msg" not in result:
            names.discard(name)
        return result

    yield run
    if names:
        absent = [{"name": each, "state": "absent"} for each in sorted(names)]
        assert "msg" not in call(absent, settle_seconds=1)


@pytest.fixture
def topic(worker: Worker) -> str:
    return clients.create(worker.broker, clients.unique("flights"), 2)


def file_sink(topic: str, file: Path, **settings: str) -> dict[str, str]:
    config = {"connector.class": "FileStreamSink", "topics": topic, "file": str(file)}
    return config | {key.replace("_", "."): value for key, value in settings.items()}


def changes(result: dict[str, Any]) -> dict[str, list[str]]:
    assert "msg" not in result, result["msg"]
    kinds = ("created", "updated", "moved", "restarted", "deleted")
    found = {kind: result[kind] for kind in kinds if result[kind]}
    assert result["changed"] is bool(found)
    assert len(result["diff"]) == len({name for names in found.values() for name in names})
    return found


@pytest.mark.long  # scenario connect changes and pauses some
def test_module_manages_connector_from_creation_to_deletion(
    module: Module, topic: str, tmp_path: Path
) -> None:
    sink = file_sink(topic, tmp_path / "out")
    assert changes(module("sink", config=sink, check=True)) == {"created": ["sink"]}
    made = module("sink", config=sink)  # check mode made nothing
    assert changes(made) == {"created": ["sink"]}
    [difference] = made["diff"]
    assert difference["before"] == ""
    assert f"topics={topic}\nstate=RUNNING\n" in difference["after"]
    assert changes(module("sink", config=sink)) == {}
    assert changes(module("sink")) == {}  # as it is

    more = sink | {"tasks.max": 2}
    assert changes(module("sink", config=more, check=True)) == {"updated": ["sink"]}
    assert changes(module("sink", config=more)) == {"updated": ["sink"]}
    assert changes(module("sink", config=more, state="paused")) == {"moved": ["sink"]}
    assert changes(module("sink", config=more, state="paused")) == {}
    assert changes(module("sink", config=sink, state="stopped")) == {"updated": ["sink"], "moved": ["sink"]}
    assert changes(module("sink", config=sink, state="running")) == {"moved": ["sink"]}

    assert changes(module("sink", state="absent", check=True)) == {"deleted": ["sink"]}
    assert changes(module("sink", state="absent")) == {"deleted": ["sink"]}
    assert changes(module("sink", state="absent")) == {}
    assert changes(module("sink", config=sink, state="paused")) == {"created": ["sink"]}


def test_failed_task_is_reported_with_trace_and_restarted(module: Module, topic: str, tmp_path: Path) -> None:
    folder = tmp_path / "not-yet"
    sink = file_sink(topic, folder / "out")
    failed = module("failing", config=sink)
    assert failed["failed"]
    assert "Connector failing: task 0 FAILED on 127.0.0.1:" in failed["msg"]
    assert "java.nio.file.NoSuchFileException" in failed["msg"]
    again = module("failing", config=sink)
    assert again["failed"]
    assert "NoSuchFileException" in again["msg"]
    assert changes(module("failing", config=sink, state="paused")) == {"moved": ["failing"]}
    assert changes(module("failing", config=sink, state="paused")) == {}
    folder.mkdir()
    # FAILED may be the state before the restart for a while: for three times `settle`, it is no failure.
    repaired = module("failing", config=sink, settle=5)
    assert changes(repaired) == {"moved": ["failing"], "restarted": ["failing"]}


def test_task_that_fails_after_its_start_is_reported(
    worker: Worker, module: Module, topic: str, tmp_path: Path
) -> None:
    """Its first record comes when it runs already."""
    rest = Connect([worker.url], client_config.load(worker.client_config))
    rest.within(WAIT_SECONDS)  # a worker answers with 409 while it rebalances

    def runs() -> bool:
        found = rest.connectors().get("later")
        return found is not None and [status.state for status in found.statuses] == ["RUNNING"] * 2

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(module, "later", config=file_sink(topic, tmp_path / "out"), settle=300)
        clients.wait_for("the task", runs)
        clients.produce(worker.broker, topic, ["no JSON"])
        failed = run.result()
    assert failed["failed"]
    assert failed["msg"].startswith("[connector-not-running] Connector later: task 0 FAILED on 127.0.0.1:")
    assert "DataException" in failed["msg"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"connector.class": "FileStreamSnk"},
            r"\[connector-plugin-missing\] .*FileStreamSnk; .* FileSt",
        ),
        (
            {"connector.class": "com.example.X"},
            r"\[connector-plugin-missing\] .*com\.example\.X; .* org\.apache",
        ),
        ({"tasks.max": "many"}, r"\[connector-config-invalid\] Connector wrong: tasks\.max: "),
        ({"file": None, "topics": None}, r"\[connector-config-invalid\] .* topics\.regex"),
        (
            {"producer.override.ssl.key.password": "hush", "a.password": "hush"},
            r"\[connector-secret-plain\] .*: a\.password .*\n\[connector-secret-plain\] .*ssl\.key\.password",
        ),
        ({"name": "other"}, "the configuration of wrong contains another name, other"),
    ],
)
def test_what_can_not_be_right_is_refused(
    module: Module, topic: str, tmp_path: Path, change: dict[str, str | None], sentence: str
) -> None:
    for check in (True, False):
        refused = module("wrong", config=file_sink(topic, tmp_path / "out") | change, check=check)
        assert refused["failed"]
        assert re.search(sentence, refused["msg"])
        assert "hush" not in json.dumps(refused)
    assert changes(module("wrong", state="absent")) == {}


def test_rejected_connector_does_not_stop_others(module: Module, topic: str, tmp_path: Path) -> None:
    wrong = file_sink(topic, tmp_path / "out", tasks_max="many")
    right = file_sink(topic, tmp_path / "right")
    tried = module("wrong", config=wrong, beside={"right": right}, check=True)
    assert "Connector wrong: tasks.max" in tried["msg"]
    assert "The other connectors would be as declared." in tried["msg"]
    done = module("wrong", config=wrong, beside={"right": right})
    assert done["failed"]
    assert "Connector wrong: tasks.max" in done["msg"]
    assert "The other connectors are as declared." in done["msg"]
    assert changes(module("right", config=right)) == {}
    assert changes(module("wrong", state="absent")) == {}  # it was not made


def test_a_file_connector_stays_in_its_folders(module: Module, topic: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "folder")
    outside = file_sink(topic, tmp_path / "folder/../out")
    for check in (True, False):
        refused = module("files", config=outside, file_directories=[folder], check=check)
        assert "Connector files: file: " in refused["msg"]
        refused = module(
            "files", config=file_sink(topic, tmp_path / "folder/a"), file_directories=[], check=check
        )
        assert "Connector files: connector.class: file connectors are not allowed" in refused["msg"]
    other = {"connector.class": "X", "a": "${file:/etc/other:key}"}
    assert (
        "Connector files: a: a connector may refer only to"
        in module("files", config=other, file_directories=[])["msg"]
    )
    (tmp_path / "folder").mkdir()
    inside = file_sink(topic, tmp_path / "folder/a")
    assert changes(module("files", config=inside, file_directories=[folder])) == {"created": ["files"]}


def test_a_client_without_tls_is_refused(worker: Worker, module: Module, topic: str, tmp_path: Path) -> None:
    sink = file_sink(topic, tmp_path / "out")
    plain = sink | {"producer.override.security.protocol": "PLAINTEXT"}
    for check in (True, False):
        refused = module("plain", config=plain, check=check, worker_config=worker.properties)
        assert refused["msg"].startswith("[connect-clients-unsafe] connect_connectors, plain: ")
        assert "producer.override. would use PLAINTEXT" in refused["msg"]
        assert "KAFKA-4090" in refused["msg"]
    assert changes(module("plain", state="absent")) == {}
    made = module("plain", config=sink, worker_config=worker.properties)
    assert changes(made) == {"created": ["plain"]}


def test_a_misspelt_setting_is_warned_of(module: Module, topic: str, tmp_path: Path) -> None:
    config = file_sink(
        topic, tmp_path / "out", errors_tolerence="all", value_converter_schemas_enable="false"
    )
    result = module("sink", config=config)
    assert changes(result) == {"created": ["sink"]}
    [warning] = unknown_settings(result)
    assert warning.startswith("Connector sink: errors.tolerence ")
    assert "errors.tolerance?" in warning


def unknown_settings(result: dict[str, Any]) -> list[str]:
    """Return the warnings about settings that the worker and the plugin do not know."""
    text = json.dumps(result.get("warnings", []))
    return re.findall(r'"msg": "\[connector-setting-unknown\] ([^"]*)"', text)


def test_settings_that_worker_lacks_stop_no_other(
    worker: Worker, module: Module, topic: str, tmp_path: Path
) -> None:
    """A connector comes from another version. Its setting is ignored and listed, or it alone is refused."""
    gone = "com.example.Gone"
    lacking = {
        "setting": {"batch.max.rows": "9"},
        "converter": {"value.converter": gone},
        "transform": {"transforms": "a", "transforms.a.type": gone},
        "predicate": {"predicates": "a", "predicates.a.type": gone},
        "value": {"errors.tolerance": "most"},
        "plugin": {"connector.class": gone},
    }
    configs = {name: file_sink(topic, tmp_path / name) | change for name, change in lacking.items()}
    right = file_sink(topic, tmp_path / "right")
    done = module("right", config=right, beside=configs)
    found = re.findall(r"^\[([a-z-]+)\] Connector (\w+): ", done["msg"], re.MULTILINE)
    refused = lacking.keys() - {"setting"}
    assert {name: id_ for id_, name in found} == {
        **dict.fromkeys(refused, "connector-config-invalid"),
        "plugin": "connector-plugin-missing",
    }
    [warning] = unknown_settings(done)
    assert warning.startswith("Connector setting: batch.max.rows ")
    well = {"setting": configs["setting"]}
    assert changes(module("right", config=right, beside=well)) == {}  # both were made as declared
    for name in refused:
        assert changes(module(name, state="absent")) == {}  # it was not made


def test_references_to_secrets_stay(worker: Worker, module: Module, topic: str, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"file={tmp_path}/hidden\nmany=hidden")
    sink = file_sink(topic, tmp_path / "out") | {"file": f"${{file:{secrets}:file}}"}
    made = module("sink", config=sink)
    assert changes(made) == {"created": ["sink"]}
    assert f"file=${{file:{secrets}:file}}\n" in made["diff"][0]["after"]
    assert changes(module("sink", config=sink)) == {}
    refused = module("sink", config=sink | {"tasks.max": f"${{file:{secrets}:many}}"})
    assert f"tasks.max: the value of ${{file:{secrets}:many}} is not accepted." in refused["msg"]
    assert "hidden" not in json.dumps(refused)
    assert (tmp_path / "hidden").exists()


def test_the_doctor_finds_nothing_and_then_what_failed(
    worker: Worker, module: Module, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["doctor", "connect", "--worker-config", str(worker.properties), "--rest", worker.url]
    ask += ["--command-config", str(worker.client_config)]
    code = main([*ask, "--strict"])
    assert (code, capsys.readouterr().out) == (0, "Nothing is wrong.\n")
    module("ill", config=file_sink(topic, tmp_path / "no" / "folder"))
    code = main(ask)
    [fault, _] = capsys.readouterr().out.splitlines()
    assert code == 1
    assert fault.startswith("fault: [connector-task-failed] Connector ill: its task 0 failed on 127.0.0.1:")
    assert "Couldn't find or create file" in fault
    code = main([*ask, "--json"])
    found = judged(
        "lake-kafka-1",
        "connect",
        capsys.readouterr().out,
        code,
        connect_connectors=[{"name": "ill"}, {"name": "absent"}],
    )
    connectors = [each for each in found.objects if each.declared.kind == ObjectKind.CONNECTOR]
    assert [each.state for each in connectors] == [ObjectState.NEEDS_ACTION] * 2
    assert connectors[0].figures == {"state": "RUNNING", "tasks": 1, "failed_tasks": 1}


def test_sink_topics_that_match_nothing_are_reported(
    worker: Worker,
    module: Module,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ask = ["doctor", "connect", "--worker-config", str(worker.properties), "--no-probe", "--rest", worker.url]
    ask += ["--command-config", str(worker.client_config), "--bootstrap-server", worker.broker.plaintext]
    plain = tmp_path / "plain.properties"
    plain.write_text("")
    ask += ["--broker-command-config", str(plain)]

    def identifiers() -> list[str]:
        return re.findall(r"^fault: \[([a-z-]+)\]", capsys.readouterr().out, re.MULTILINE)

    module("well", config=file_sink(topic, tmp_path / "well"))
    assert (main(ask), identifiers()) == (0, [])
    named = file_sink(f"{topic},{topic}.misspelt", tmp_path / "named")
    # A broker of these tests creates topics that consumers ask for.
    module("named", config=named | {"consumer.override.allow.auto.create.topics": "false"})
    pattern = file_sink(topic, tmp_path / "pattern") | {"topics.regex": rf"{topic}|{topic}\.(a|b)|misspelt.*"}
    del pattern["topics"]
    module("pattern", config=pattern)
    assert (main(ask), identifiers()) == (1, ["topic-unknown", *["pattern-matches-nothing"] * 2])
    code = main([*ask, "--json"])
    found = judged(
        "lake-kafka-1",
        "connect",
        capsys.readouterr().out,
        code,
        connect_connectors=[{"name": "well"}, {"name": "named"}, {"name": "pattern"}],
    )
    judged_connectors = [
        (status.state, [finding.id for finding in status.findings])
        for status in found.objects
        if status.declared.kind == ObjectKind.CONNECTOR
    ]
    assert judged_connectors == [
        (ObjectState.WELL, []),
        (ObjectState.NEEDS_ACTION, ["connector-topic-missing"]),
        (ObjectState.NEEDS_ACTION, ["connector-topic-missing"] * 2),
    ]
    monkeypatch.setattr(doctor, "REST_SECONDS", 2)
    away = ["127.0.0.1:1" if argument == worker.broker.plaintext else argument for argument in ask]
    assert main(away) == 3
    assert capsys.readouterr().out.count("the topics of connector") == 3


def test_the_doctor_asks_the_broker(
    worker: Worker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that with no block left that speaks TLS, only the listener tells."""
    plain = tmp_path / "worker.properties"
    lines = worker.properties.read_text().splitlines()
    kept = [line for line in lines if not line.removeprefix("producer.").startswith(("security.", "ssl."))]
    kept = [line for line in kept if not line.startswith(("consumer.s", "admin.s"))]
    plain.write_text("\n".join(kept))
    assert main(["doctor", "connect", "--worker-config", str(plain)]) == 1
    printed = capsys.readouterr().out
    assert printed.count(f"would use PLAINTEXT, but {worker.broker.tls} uses TLS: ") == 4
    text = worker.properties.read_text()
    without = [line for line in text.splitlines() if not line.startswith("producer.ssl.keystore")]
    plain.write_text("\n".join(without))
    assert main(["doctor", "connect", "--worker-config", str(plain)]) == 1
    printed = capsys.readouterr().out
    assert f"no key store, but {worker.broker.tls} requires a client certificate: " in printed
    plain.write_text(text.replace(worker.broker.tls, worker.broker.plaintext))
    assert main(["doctor", "connect", "--worker-config", str(plain)]) == 1
    printed = capsys.readouterr().out
    assert printed.count(f"uses SSL, but {worker.broker.plaintext} does not use TLS; set") == 4


def test_rest_is_refused_in_a_sentence(
    worker: Worker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["doctor", "connect", "--no-probe", "--worker-config", str(worker.properties), "--rest", worker.url]
    without = tmp_path / "without.properties"
    ca = worker.broker.authority.certificate
    without.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n")
    old = worker.broker.authority.issue("old", days=-1)
    expired = tmp_path / "expired.properties"
    expired.write_text(f"{without.read_text()}ssl.keystore.type=PEM\nssl.keystore.location={old}\n")
    for config in (without, expired):
        assert main([*ask, "--command-config", str(config)]) == 1
        assert "[connect-tls-failed]" in capsys.readouterr().out
    with pytest.raises(ssl.SSLCertVerificationError):  # so it is the worker's certificate that is not trusted
        ssl.get_server_certificate(("127.0.0.1", int(worker.url.rpartition(":")[2])), ca_certs=str(old))
    assert main(ask) == 1
    assert "[connect-tls-failed]" in capsys.readouterr().out


def test_replay_returns_dead_letters_once_connector_is_repaired(
    worker: Worker, module: Module, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead, out = clients.create(worker.broker, f"{topic}-dead", 2), tmp_path / "out"
    sink = file_sink(
        topic,
        out,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
        errors_deadletterqueue_context_headers_enable="true",
    )
    assert changes(module("sink", config=sink)) == {"created": ["sink"]}
    common = {"key": "k", "headers": [("h", "v"), ("h", None)]}
    values = enumerate(["1", "poison", "3"])
    clients.produce(worker.broker, topic, [{"value": v, "partition": n % 2, **common} for n, v in values])
    await_lines(out, {"1", "3"})  # what came after the poison, too

    replay = ["dlq", "replay", "--bootstrap-server", worker.broker.plaintext, "--dlq", dead]
    await_replay(
        [*replay, "--dry-run"], capsys, "1 dead-letter record would be sent back; 0 sent back before"
    )
    assert main([*replay, "--error-class", "NullPointerException"]) == 3
    assert "0 dead-letter records sent back; 0 sent back before; 1 not selected." in capsys.readouterr().out
    repaired = sink | {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    # A running task could read the record that is sent back before it is replaced.
    assert changes(module("sink", state="stopped")) == {"moved": ["sink"]}
    clients.await_no_members(worker.broker, "connect-sink")
    assert changes(module("sink", config=repaired)) == {"updated": ["sink"], "moved": ["sink"]}
    assert main([*replay, "--error-class", "DataException"]) == 0
    assert "1 dead-letter record sent back; 0 sent back before; 0 not selected." in capsys.readouterr().out
    assert main(replay) == 0
    assert "0 dead-letter records sent back; 1 sent back before; 0 not selected." in capsys.readouterr().out
    await_lines(out, {"1", "3", "poison"})
    # Of poison's partition: what came before it is in the file now.
    clients.produce(worker.broker, topic, ["last"], 1)
    await_lines(out, {"1", "3", "poison", "last"})
    assert sorted(out.read_text().splitlines()) == ["1", "3", "last", "poison"]


def test_stopped_sink_reads_recreated_topic_from_start(
    worker: Worker, module: Module, topic: str, tmp_path: Path
) -> None:
    """Kafka deletes the sink's position with the topic, and Connect's consumers begin at the earliest."""
    out, group, partition = tmp_path / "out", "connect-recreated", (topic, 0)
    sink = file_sink(topic, out, value_converter="org.apache.kafka.connect.storage.StringConverter")
    assert changes(module("recreated", config=sink)) == {"created": ["recreated"]}
    old, new = ([f"{name}-{number}" for number in range(count)] for name, count in (("old", 10), ("new", 20)))
    clients.produce(worker.broker, topic, old)
    await_lines(out, {*old})
    clients.wait_for("a position", lambda: clients.committed(worker.broker, group).get(partition) == 10)
    assert changes(module("recreated", config=sink, state="stopped")) == {"moved": ["recreated"]}
    clients.await_no_members(worker.broker, group)
    clients.recreate(worker.broker, topic, 2)
    clients.produce(worker.broker, topic, new)
    clients.wait_for("no position", lambda: partition not in clients.committed(worker.broker, group))
    assert changes(module("recreated", config=sink)) == {"moved": ["recreated"]}
    await_lines(out, {*new})
    assert sorted(out.read_text().splitlines()) == sorted(old + new)


def await_lines(file: Path, wanted: set[str]) -> None:
    clients.wait_for(
        f"{wanted} in {file}", lambda: file.exists() and wanted <= set(file.read_text().splitlines())
    )


def await_replay(command: list[str], capsys: pytest.CaptureFixture[str], said: str) -> None:
    def replayed() -> bool:
        main(command)
        return said in capsys.readouterr().out

    clients.wait_for(said, replayed)
