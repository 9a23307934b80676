import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import printed, raises

from aqueduct.errors import Refused
from aqueduct.kafka.client_config import ClientConfig, Login, load, parse, parse_properties
from aqueduct.kafka.tls import tls_context
from servers.pki import Authority

PEM = "-----BEGIN CERTIFICATE-----\n"


SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism="
JAAS = "sasl.jaas.config=org.apache.kafka.common.security."


def test_password_is_equal_in_kafka_and_librdkafka_syntax() -> None:
    kafka = rf"""
        security.protocol=SASL_SSL
        sasl.mechanism=SCRAM-SHA-512
        {JAAS}scram.ScramLoginModule required \
            username="anna" \
            password="a\\"b\\\\c; d";
    """
    librdkafka = """
        security.protocol=sasl_ssl
        sasl.mechanism=SCRAM-SHA-512
        sasl.username=anna
        sasl.password=a"b\\\\c; d
    """
    found = parse(kafka, "file")
    assert found == parse(librdkafka, "file")
    assert found.login == Login("SCRAM-SHA-512", "anna", 'a"b\\c; d')
    assert found.librdkafka() == {
        "socket.connection.setup.timeout.ms": "10000",
        "security.protocol": "sasl_ssl",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "anna",
        "sasl.password": 'a"b\\c; d',
    }
    assert "c; d" not in repr(found)


def test_without_a_file_there_is_no_tls() -> None:
    assert load(None).librdkafka()["security.protocol"] == "plaintext"
    assert load(None).kafka_python()["security_protocol"] == "PLAINTEXT"


def test_kafkas_names_and_librdkafkas_mean_the_same() -> None:
    kafka = """
        security.protocol=SSL
        ssl.keystore.type=PEM
        ssl.keystore.location=/client.pem
        ssl.key.password=secret
        ssl.truststore.type=PEM
        ssl.truststore.location=/ca.pem
        ssl.endpoint.identification.algorithm=
    """
    librdkafka = """
        security.protocol = ssl
        ssl.certificate.location = /client.pem
        ssl.key.location = /client.pem
        ssl.key.password = secret
        ssl.ca.location = /ca.pem
        ssl.endpoint.identification.algorithm = none
    """
    config = ClientConfig(
        tls=True,
        ca="/ca.pem",
        certificate="/client.pem",
        key="/client.pem",
        key_password="secret",
        verify_host=False,
    )
    assert parse(kafka, "file") == parse(librdkafka, "file") == config
    assert config.librdkafka() == {
        "socket.connection.setup.timeout.ms": "10000",
        "security.protocol": "ssl",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert config.kafka_python() == {
        "security_protocol": "SSL",
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/client.pem",
        "ssl_keyfile": "/client.pem",
        "ssl_password": "secret",
        "ssl_check_hostname": False,
    }


def test_odd_values_mean_what_they_mean_to_kafka() -> None:
    assert parse("ssl.endpoint.identification.algorithm=HTTPS", "file").verify_host
    assert not parse("ssl.endpoint.identification.algorithm=", "file").verify_host
    expected = "open sesame"
    assert parse(f"ssl.key.password={expected} \t\r\n", "file").key_password == expected
    assert parse("security.protocol = Ssl\r\nclient.id=a\r\n", "file").tls
    assert parse("bootstrap.servers = a:9092, b:9092", "file") == ClientConfig()


def test_pem_with_carriage_returns_is_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    own, file = authority.issue("own"), tmp_path / "client.properties"
    own.write_bytes(own.read_bytes().replace(b"\n", b"\r\n"))
    file.write_text(
        f"security.protocol=SSL\r\nssl.certificate.location={own}\r\nssl.key.location={own}\r\n",
        newline="",
    )
    tls_context(load(file))
    text = own.read_bytes().decode().replace("\r\n", "\\r\\n")
    begin = text.index("-----BEGIN CERT")
    first, second = sorted((text[:begin], text[begin:]), key=lambda each: "PRIVATE" not in each)
    file.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\n"
        f"ssl.keystore.key={first}\nssl.keystore.certificate.chain={second}\n"
    )
    tls_context(load(file))


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(parse("ssl.key.password=secret", "file"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "ssl.keystore.location=a.jks",
            ("a keystore of type JKS cannot be used; use a PEM file, and set ssl.keystore.type=PEM."),
        ),
        (
            "ssl.truststore.location=a\nssl.truststore.type=PKCS12",
            ("a truststore of type PKCS12 cannot be used"),
        ),
        ("request.timeout.ms=soon", "request.timeout.ms must be a number of milliseconds"),
        ("request.timeout.ms=-1", "request.timeout.ms must be a number of milliseconds"),
        (
            "ssl.keystore.key=a",
            "ssl.keystore.key needs ssl.keystore.type=PEM.",
        ),
        (
            "ssl.truststore.type=PEM\nssl.truststore.certificates=a\nssl.truststore.location=b",
            "set ssl.truststore.certificates or ssl.truststore.location, not both.",
        ),
        (
            "ssl.keystore.type=PEM\nssl.keystore.key=a",
            "set ssl.keystore.key and ssl.keystore.certificate.chain together.",
        ),
        ("ssl.truststore.type=PEM\nssl.truststore.certificates=a", "ssl.truststore.certificates is not PEM"),
        (
            "security.protocol=TLS",
            "security.protocol=TLS is not valid; use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
        ),
        (
            "security.protocol=SASL_SSL",
            ("sasl.mechanism= is not valid; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512."),
        ),
        (f"{SASL}GSSAPI", "sasl.mechanism=GSSAPI is not valid; use PLAIN"),
        (f"{SASL}PLAIN", "SASL needs a username and a password"),
        (
            f"{SASL}PLAIN\n{JAAS}scram.ScramLoginModule required;",
            "must be org.apache.kafka.common.security.plain.",
        ),
        (f"{SASL}PLAIN\n{JAAS}plain.PlainLoginModule required username=a;", "must be org"),
        (f'{SASL}PLAIN\n{JAAS}plain.PlainLoginModule required username="a";', "a username and a password"),
        ("ssl.endpoint.identification.algorithm=ldap", "must be https or empty"),
        ("ssl.key.location=a", "set ssl.certificate.location and ssl.key.location together"),
    ],
)
def test_refusals_name_the_file(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text, "client.properties")
    assert str(refused.value).startswith("client.properties: ")
    assert sentence in str(refused.value)


def test_files_are_looked_at_first(tmp_path: Path) -> None:
    file, ca = tmp_path / "client.properties", tmp_path / "ca.pem"
    with raises(Refused, "client-config-unreadable", file, "No such file or directory"):
        load(file)
    file.write_text(f"ssl.ca.location={ca}")
    with raises(Refused, "client-config-unreadable", ca, file, "No such file or directory"):
        load(file)
    ca.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")  # a Java keystore
    with raises(Refused, "client-config-invalid", ca, file, "PEM"):
        load(file)
    ca.write_text(PEM)
    assert load(file).ca == str(ca)


def test_unusable_key_is_refused_before_connecting(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    own, other, sealed = authority.issue("own"), authority.issue("other"), tmp_path / "sealed.pem"
    key = serialization.load_pem_private_key(own.read_bytes(), None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    sealed.write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"open sesame")))
    file = tmp_path / "client.properties"

    def loaded(key: Path, password: str = "") -> ClientConfig:
        file.write_text(
            f"security.protocol=SSL\nssl.certificate.location={own}\nssl.key.location={key}\n{password}"
        )
        return load(file)

    assert loaded(own).key == str(own)
    assert loaded(sealed, "ssl.key.password=open sesame").key == str(sealed)
    for wrong, why in (
        ((other,), "the key does not match the certificate"),
        ((sealed,), "the key needs a password; set ssl.key.password"),
        (
            (sealed, "ssl.key.password=open barley"),
            ("the password of the key is wrong, or one of the files is damaged"),
        ),
    ):
        with pytest.raises(Refused) as refused:
            loaded(*wrong)
        assert str(refused.value) == f"The key {wrong[0]} cannot be used with {own} ({file}): {why}."


def test_settings_of_kafkas_tools_are_used(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=billing\nbootstrap.servers=elsewhere:9092\nrequest.timeout.ms=7000\n")
    config = load(file)
    assert (config.client_id, config.request_timeout_ms) == ("billing", 7000)
    assert config.librdkafka()["client.id"] == config.kafka_python()["client_id"] == "billing"
    assert config.librdkafka()["socket.timeout.ms"] == "7000"
    assert "bootstrap.servers" not in config.librdkafka()


def test_unused_properties_are_reported_and_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protcol=SSL\nssl.keystore.password=hidden\nlinger.ms=5\n")
    assert load(file) == ClientConfig()
    said = capsys.readouterr().err
    assert printed(said) == ["client-property-ignored"] * 3
    assert "does not use the property security.protcol: did you mean security.protocol?" in said
    assert "hidden" not in said


@pytest.mark.parametrize("form", ["lines", "blanks", "nothing between lines"])
def test_inline_pem_is_used_like_a_file(tmp_path: Path, form: str) -> None:
    """Kafka's documentation has the lines of PEM joined by continuations, with or without line breaks."""
    authority = Authority(tmp_path / "authority")
    own = authority.issue("own").read_text()
    joint = {"lines": "\\n\\\n", "blanks": " \\\n", "nothing between lines": "\\\n"}[form]
    key = own[own.index("-----BEGIN PRIVATE") :].partition("-----END PRIVATE KEY-----")
    certificate = own[own.index("-----BEGIN CERT") :].partition("-----END CERTIFICATE-----")

    def inline(pem: str) -> str:
        return joint.join(pem.strip().splitlines())

    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.key={inline(''.join(key[:2]))}\n"
        f"ssl.keystore.certificate.chain={inline(''.join(certificate[:2]))}\n"
        f"ssl.truststore.certificates={inline(authority.certificate.read_text())}\n"
    )
    config = load(file)
    assert config.key
    assert config.ca
    assert "PRIVATE" in Path(config.key).read_text()
    assert "PRIVATE" not in repr(config)
    tls_context(config)  # OpenSSL reads all three, in this process
    program = "import ssl, sys; ssl.create_default_context(cafile=sys.argv[1]).load_cert_chain(*sys.argv[2:])"
    subprocess.run(
        [sys.executable, "-c", program, config.ca, str(config.certificate), config.key], check=True
    )


def test_inline_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    own, other = (authority.issue(name).read_text().replace("\n", "\\n") for name in ("own", "other"))
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\n"
        f"ssl.keystore.key={other[other.index('-----BEGIN PRIVATE') :]}\n"
        f"ssl.keystore.certificate.chain={own[own.index('-----BEGIN CERT') :]}\n"
    )
    names = ("ssl.keystore.key", "ssl.keystore.certificate.chain", file)
    with raises(Refused, "client-key-mismatch", *names):
        load(file)


def test_properties_as_java_reads_them() -> None:
    text = (
        "# comment \\\n! comment\n\na=1\n b : 2\r\nc 3\nd\ne = x\\\n   y\\\\\nf\\ g=\\u00e4\\tz\n"
        "h==i\nj = # no comment\na=last\nk = 4 \n"
    )
    assert parse_properties(text) == {
        "a": "last",
        "b": "2",
        "c": "3",
        "d": "",
        "e": "xy\\",
        "f g": "ä\tz",
        "h": "=i",
        "j": "# no comment",
        "k": "4 ",
    }


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_properties_survive_escaping(properties: dict[str, str]) -> None:
    def escape(text: str) -> str:
        return "".join(f"\\u{ord(each):04x}" if ord(each) < 0x10000 else each for each in text)

    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in properties.items())
    assert parse_properties(text) == properties
