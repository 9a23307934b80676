"""`aqueduct doctor connect` on workers' files, each broken in one way; it has listeners of its own."""

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from kit import connect_worker
from kit.identifiers import printed

from aqueduct.cli import main
from aqueduct.connect import tls
from aqueduct.connect.worker import Store
from servers.pki import Authority

SERVERS = "broker-1:9092,broker-2:9092"
UNKNOWN = "${vault:secret:password}"
REST = "listeners.https.ssl."
Edit = Callable[[str], str]
Doctor = Callable[..., tuple[int, list[str]]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "pki")


@pytest.fixture(scope="module")
def sound(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("worker") / "files"
    found = connect_worker.write_properties(authority, SERVERS, 8083, directory)
    text = found.read_text().replace("replication.factor=1", "replication.factor=3")
    # Opening the stores of REST takes a JVM: only where they matter.
    found.write_text(text.replace(f"password={connect_worker.STORE_PASSWORD}", f"password={UNKNOWN}"))
    return found


@pytest.fixture
def doctor(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Return the function that runs the doctor, after an edit of the worker's file.

    It returns the exit code and the findings, with `FILE` for the file. The stores of REST are not looked at
    if their passwords are UNKNOWN.
    """

    def look(edit: Edit = lambda text: text, *options: str) -> tuple[int, list[str]]:
        broken = tmp_path / "worker.properties"
        broken.write_text(edit(sound.read_text()))
        probe = [] if "--probe" in options else ["--no-probe"]
        given = [each for each in options if each != "--probe"]
        known = [] if "--no-allow-unknown" in options else ["--allow-unknown"]
        given = [each for each in given if each != "--no-allow-unknown"]
        code = main(["doctor", "connect", "--worker-config", str(broken), *probe, *known, *given])
        printed = capsys.readouterr()
        assert printed.err == ""
        *lines, last = printed.out.replace(str(broken), "FILE").splitlines()
        left_out = any(line.startswith("not inspected: ") for line in lines)
        nothing = "Nothing is wrong with the rest." if left_out else "Nothing is wrong."
        assert last == nothing or re.fullmatch(r"\d+ faults?, \d+ warnings?\.", last)
        return code, [line for line in lines if not line.startswith("not inspected: ")]

    return look


def without(pattern: str) -> Edit:
    return lambda text: re.sub(rf"^{pattern}.*\n", "", text, flags=re.MULTILINE)


def setting(key: str, value: str) -> Edit:
    return lambda text: without(re.escape(key) + "=")(text) + f"\n{key}={value}\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--log", "LOG"], "[option-required] --log needs --properties"),
        (["--properties", "PROPERTIES", "--log", "NONE"], "NONE: No such file or directory."),
        (["--properties", "NONE"], "NONE: No such file or directory."),
        (["--properties", "WRONG"], "'CLIENT' is not NAME://host:port."),
        (["--properties", "LOG"], "[broker-properties-invalid]"),
    ],
)
def test_doctor_cluster_refuses_unusable_properties_or_log(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a broker is asked."""
    (tmp_path / "PROPERTIES").write_text("process.roles=broker\nlisteners=SSL://:9092\n")
    (tmp_path / "WRONG").write_text("zookeeper.connect=a:2181\nlisteners=CLIENT\n")
    (tmp_path / "LOG").write_text("root:x:0:0:root:/root:/bin/sh\n")
    given = [str(tmp_path / each) if each.isupper() else each for each in options]
    assert main(["doctor", "cluster", "--bootstrap-server", "127.0.0.1:1", *given]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err


def test_nothing_is_wrong_with_a_sound_worker(doctor: Doctor) -> None:
    assert doctor(lambda text: text, "--strict") == (0, [])


@pytest.mark.parametrize(
    ("prefix", "named"),
    [
        ("", "the worker's own block"),
        ("producer.", "the block producer."),
        ("consumer.", "the block consumer."),
    ],
)
def test_each_block_without_tls_is_named(doctor: Doctor, prefix: str, named: str) -> None:
    code, found = doctor(without(rf"{re.escape(prefix)}(security|ssl)\."))
    assert code == 1
    [fault] = found
    assert fault.startswith(f"fault: [client-plaintext-to-tls] FILE: {named} would use PLAINTEXT, but ")
    assert f" uses TLS for {SERVERS}: " in fault
    assert fault.endswith(f"(KAFKA-4090); set {prefix}security.protocol=SSL and its key and trust store.")


@pytest.mark.parametrize(
    ("removed", "lent"),
    [
        ("", ["security.protocol", "ssl.keystore.location", "ssl.truststore.location"]),
        ("security.protocol", ["security.protocol"]),
        ("ssl.keystore", ["ssl.keystore.location"]),
        ("ssl.truststore", ["ssl.truststore.location"]),
    ],
)
def test_what_an_admin_block_lacks_is_lent_it(doctor: Doctor, removed: str, lent: list[str]) -> None:
    edit = without(rf"admin\.{re.escape(removed)}")
    code, [warning] = doctor(edit)
    assert code == 0
    assert warning == (
        "warning: [admin-settings-inherited] FILE: the block admin. depends on the worker's own "
        f"{', '.join(lent)}; set "
        f"{', '.join(f'admin.{each}' for each in lent)}, so that each block is complete (KAFKA-4090)."
    )
    assert doctor(edit, "--strict") == (1, [warning])


def test_admin_block_without_tls_is_fault(doctor: Doctor) -> None:
    code, [fault] = doctor(setting("admin.security.protocol", "PLAINTEXT"))
    assert code == 1
    assert fault.startswith("fault: [client-plaintext-to-tls] FILE: the block admin. would use PLAINTEXT")


@pytest.mark.parametrize("prefix", ["", "producer.", "consumer."])
@pytest.mark.parametrize("role", ["key", "trust"])
def test_each_store_that_is_missing_is_named(doctor: Doctor, prefix: str, role: str) -> None:
    code, [fault] = doctor(without(rf"{re.escape(prefix)}ssl\.{role}store"))
    assert code == 1
    assert f" has no {role} store, but " in fault
    assert f"set {prefix}ssl.{role}store.location and {prefix}ssl.{role}store.type." in fault


def test_stores_that_can_not_be_used(
    doctor: Doctor, sound: Path, authority: Authority, tmp_path: Path
) -> None:
    def with_key_store(content: bytes, id_: str = "connect-store-unreadable") -> str:
        file = tmp_path / "store.pem"
        file.write_bytes(content)
        code, [fault] = doctor(setting("producer.ssl.keystore.location", str(file)))
        assert code == 1
        start = f"fault: [{id_}] FILE: the key store {file} of the block producer. "
        assert fault.startswith(start)
        return fault.removeprefix(start)

    own, other = authority.issue("a").read_bytes(), authority.issue("b").read_bytes()
    key, certificate = own.split(b"-----BEGIN CERTIFICATE")
    certificate = b"-----BEGIN CERTIFICATE" + certificate
    assert with_key_store(certificate) == "contains no private key."
    assert with_key_store(key) == "contains no PEM certificate."
    assert with_key_store(other.split(b"-----BEGIN CERTIFICATE")[0] + certificate) == (
        "contains a key that does not match its first certificate."
    )
    traditional = key.replace(b"BEGIN PRIVATE", b"BEGIN EC PRIVATE").replace(
        b"END PRIVATE", b"END EC PRIVATE"
    )
    assert "PKCS#8" in with_key_store(traditional + certificate)
    assert "damaged" in with_key_store(own.replace(b"CERTIFICATE-----\nMII", b"CERTIFICATE-----\nAAA", 1))
    encrypted = key.replace(b"PRIVATE KEY", b"ENCRYPTED PRIVATE KEY") + certificate
    assert "ssl.key.password is not set" in with_key_store(encrypted)

    (tmp_path / "store.pem").unlink()
    _, [fault] = doctor(setting("producer.ssl.keystore.location", str(tmp_path / "store.pem")))
    assert fault.endswith("store.pem of the block producer. cannot be read: No such file or directory.")


def test_an_expired_certificate_is_named(doctor: Doctor, authority: Authority) -> None:
    file = authority.issue("old", days=-1)
    code, [fault] = doctor(setting("consumer.ssl.keystore.location", str(file)))
    assert code == 1
    assert "the certificate of CN=old in the key store" in fault
    assert " expired at 20" in fault
    assert fault.endswith("renew the certificate and restart the worker.")


def test_stores_of_rest_are_opened_as_java_does(doctor: Doctor, sound: Path) -> None:
    right, wrong = connect_worker.STORE_PASSWORD, "not-it"

    def opened(**changes: str) -> list[str]:
        settings = {"keystore.password": UNKNOWN, "truststore.password": UNKNOWN}
        settings |= {key.replace("_", "."): value for key, value in changes.items()}

        def edit(text: str) -> str:
            for key, value in settings.items():
                text = setting(f"{REST}{key}", value)(text)
            return text

        return doctor(edit)[1]

    assert opened(keystore_password=right, truststore_password=right) == []
    [fault] = opened(keystore_password=wrong)
    assert "rest.p12 of REST cannot be opened with its password (" in fault
    assert wrong not in fault
    keys, trusted = str(sound.parent / "rest.p12"), str(sound.parent / "trust.p12")
    [fault] = opened(truststore_password=right, truststore_location=keys)
    assert (
        "rest.p12 of REST contains no certificate that Java can find; create the store with keytool"
    ) in fault
    [fault] = opened(keystore_password=right, keystore_location=trusted)
    assert "trust.p12 of REST contains no private key" in fault


def test_wrong_keystore_password_from_file_provider_is_found(doctor: Doctor, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("wrong=x")
    code, [fault] = doctor(setting(f"{REST}keystore.password", f"${{file:{secrets}:wrong}}"))
    assert code == 1
    assert "cannot be opened with its password" in fault


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (setting("listeners", "http://:8083"), "the REST API is available at http://:8083 without TLS"),
        (
            setting("listeners", "https://0.0.0.0:8083"),
            (
                "the REST API at https://0.0.0.0:8083 accepts every certificate of the authorities in its "
                "trust store"
            ),
        ),
        (without("listeners="), "the REST API is available at http://:8083 without TLS"),
        (
            setting("admin.listeners", "http://connect.example.com:1"),
            "set admin.listeners=https://connect.example.com:1 and admin.listeners.https.ssl.*.",
        ),
        (
            without("bootstrap.servers"),
            "bootstrap.servers is not set, so the worker connects to localhost:9092",
        ),
        (without("group.id"), "group.id is not set"),
        (
            setting("producer.security.protocol", "TLS"),
            "the block producer. has producer.security.protocol=TLS, which does not exist in Kafka",
        ),
        (
            setting("listeners.https.ssl.client.auth", "requested"),
            "the REST API accepts every client, because ssl.client.auth is requested",
        ),
        (
            without("listeners.https.ssl.client.auth"),
            "the REST API accepts every client, because ssl.client.auth is none",
        ),
        (without("listeners.https.ssl.truststore"), "the REST listener has no trust store"),
        (setting(f"{REST}keystore.type", "PEM"), "the REST listener cannot use a PEM key store"),
        (setting("plugin.path", "/nowhere/at/all"), "/nowhere/at/all of plugin.path cannot be read (No such"),
        (without("plugin.path"), "plugin.path is not set"),
        (
            setting("config.storage.replication.factor", "1"),
            "config.storage.replication.factor=1, so the loss of one",
        ),
        (without("status.storage.topic"), "status.storage.topic is not set"),
        (setting("status.storage.topic", "connect-configs"), "use the same topic connect-configs"),
        (
            setting("producer.ssl.endpoint.identification.algorithm", ""),
            "the block producer. does not compare the host names of the brokers",
        ),
    ],
)
def test_what_else_is_wrong_with_a_worker(doctor: Doctor, edit: Edit, sentence: str) -> None:
    code, [found] = doctor(edit, "--strict")
    assert code == 1
    assert re.match(r"(fault|warning): \[[a-z0-9-]+\] FILE: .*[^.]\.$", found)
    assert sentence in found


SINK = {
    "topics": "flights",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.context.headers.enable": "true",
}


@pytest.mark.parametrize(
    ("edit", "change", "sentences"),
    [
        (None, {}, []),
        (None, {"producer.override.acks": "1"}, []),
        (
            None,
            {"producer.override.security.protocol": "PLAINTEXT"},
            ["the block producer.override. would use PLAINTEXT, but"],
        ),
        (
            None,
            {"consumer.override.ssl.keystore.location": "/gone"},
            ["/gone of the block consumer.override. cannot"],
        ),
        (
            setting("connector.client.config.override.policy", "None"),
            {"producer.override.acks": "1"},
            ["sink overrides producer.override.acks, which the policy None of FILE rejects"],
        ),
        (
            setting("connector.client.config.override.policy", "Principal"),
            {"producer.override.sasl.jaas.config": "x"},
            [],
        ),
        (
            setting("connector.client.config.override.policy", "Allowlist"),
            {"producer.override.acks": "1"},
            ["sink overrides producer.override.acks, which the policy Allowlist of FILE rejects"],
        ),
        (None, {"errors.tolerance": "none"}, ["sink stops at the first record"]),
        (None, {"errors.deadletterqueue.topic.name": ""}, ["sink silently drops records"]),
        (
            None,
            {"errors.deadletterqueue.context.headers.enable": "false"},
            ["cannot be sent back; set errors."],
        ),
    ],
)
def test_connectors(
    doctor: Doctor, tmp_path: Path, edit: Edit | None, change: dict[str, str], sentences: list[str]
) -> None:
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"name": "sink", "config": SINK | change}))
    code, found = doctor(edit or (lambda text: text), "--strict", "--connector", str(file))
    assert code == (1 if sentences else 0)
    assert len(found) == len(sentences)
    assert all(sentence in line for sentence, line in zip(sentences, found, strict=True))


# Listeners


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    serve(connection)

        thread = Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()


def plaintext(connection: socket.socket) -> None:
    connection.recv(4)  # a length that no request has: the broker hangs up


def speaking_tls(authority: Authority, verify: ssl.VerifyMode) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("listener"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = verify

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            if secured.recv(14):
                secured.sendall(b"\0\0\0\6\0\0\0\0\0\0")

    return serve


def test_a_listener_shows_what_it_wants(authority: Authority) -> None:
    with listening(plaintext) as servers:
        assert tls.listener(f"127.0.0.1:1,{servers}") == tls.Listener(tls=False)
    for verify, demands in ((ssl.CERT_NONE, False), (ssl.CERT_REQUIRED, True)):
        with listening(speaking_tls(authority, verify)) as servers:
            assert tls.listener(servers) == tls.Listener(tls=True, client_certificate=demands)
    assert tls.listener("127.0.0.1:1") is None


def test_every_block_is_judged_by_the_listener(doctor: Doctor, authority: Authority) -> None:
    with listening(speaking_tls(authority, ssl.CERT_REQUIRED)) as servers:
        point = setting("bootstrap.servers", servers)
        bare = without(r"((producer|consumer|admin)\.)?(security|ssl)\.")
        code, found = doctor(lambda text: bare(point(text)), "--probe")
        assert code == 1
        assert [line.partition(" would use PLAINTEXT, but ")[0] for line in found] == [
            f"fault: [client-plaintext-to-tls] FILE: {block}"
            for block in (
                *("the worker's own block", "the block consumer."),
                *("the block producer.", "the block admin."),
            )
        ]
        assert all(f"but {servers} uses TLS: " in line for line in found)
    with listening(plaintext) as servers:
        code, found = doctor(setting("bootstrap.servers", servers), "--probe")
        assert code == 1
        assert len(found) == 4
        assert all(f"uses SSL, but {servers} does not use TLS; set" in line for line in found)


def test_store_is_not_opened_if_keytool_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a Java process, which may take long on a busy host."""
    keytool, trust = tmp_path / "keytool", tmp_path / "trust.p12"
    keytool.write_text("#!/bin/sh\nexec sleep 600\n")
    keytool.chmod(0o755)
    trust.touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(tls, "KEYTOOL_SECONDS", 0.1)
    assert tls.contents(Store(role="trust", type="PKCS12", location=str(trust), password="secret")) is None


# Bad input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--worker-config", "/gone"], "aqueduct: [file-unreadable] Cannot read /gone: No such file or "),
        ([], "aqueduct: [usage-error] the following arguments are required: --worker-config; see "),
        (
            ["--worker-config", "{sound}", "--connector", "/gone"],
            "aqueduct: [file-unreadable] Cannot read /gone: No",
        ),
        (
            ["--worker-config", "{sound}", "--rest", "host:8083"],
            "aqueduct: [connect-url-invalid] 'host:8083' ",
        ),
    ],
)
def test_bad_input(
    sound: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "connect", *(each.format(sound=sound) for each in options)]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b'{"name": "sink", "config": {}}'])
def test_what_is_no_worker_is_refused(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "worker.properties"
    file.write_bytes(content)
    assert main(["doctor", "connect", "--worker-config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"aqueduct: [connect-worker-invalid] {file} ")


def test_rest_that_is_away_is_a_fault(
    doctor: Doctor, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct.cli.doctor.REST_SECONDS", 0)
    config = str(authority.client_config("asking"))
    code, [fault] = doctor(lambda text: text, "--rest", "https://127.0.0.1:1", "--command-config", config)
    assert code == 1
    assert printed(fault) == ["connect-unreachable"]
    assert "https://127.0.0.1:1 " in fault


def test_no_allow_unknown_makes_unchecked_items_incomplete(doctor: Doctor, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert doctor(lambda text: text, "--no-allow-unknown", "--report", str(file)) == (3, [])
    report = json.loads(file.read_text())
    assert report["exit_code"] == 3
    assert {each["id"] for each in report["left_out"]} == {"connect-store-not-opened"}
    assert doctor(lambda text: text) == (0, [])
    code, faults = doctor(setting("bootstrap.servers", "127.0.0.1:1"), "--probe", "--no-allow-unknown")
    assert (code, faults) == (3, [])


def test_the_report_has_every_finding(doctor: Doctor, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    code, [line] = doctor(without("plugin.path"), "--report", str(file))
    report = json.loads(file.read_text())
    assert (report["verb"], report["exit_code"]) == ("doctor connect", code)
    assert [each["what"].rpartition("/")[2] for each in report["left_out"]] == ["rest.p12", "trust.p12"]
    [finding] = report["findings"]
    assert (finding["severity"], finding["id"]) == ("warning", "plugin-path-missing")
    assert finding["sentence"].endswith(line.removeprefix("warning: [plugin-path-missing] FILE"))
