"""An invalid configuration is refused with an error before it takes effect."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from lake import CONFIG, TO_DATABASE, TO_FILES, WORKERS, Site


def refusal(site: Site, playbook: str, **variables: object) -> str:
    done = site.lab.play(playbook, **variables)
    assert done.returncode == 2, done.stdout
    return " ".join(done.stdout.split())


def test_a_class_that_is_not_there(site: Site) -> None:
    wrong = site.declared({TO_DATABASE: {"connector.class": "io.debezium.JdbcSnk"}})
    said = refusal(site, "connectors", connect_connectors=wrong)
    assert f"Connector {TO_DATABASE}: no worker has the plugin io.debezium.JdbcSnk" in said


def test_a_client_that_would_override_tls_away(site: Site) -> None:
    plain = {"producer.override.security.protocol": "PLAINTEXT"}
    said = refusal(site, "connectors", connect_connectors=site.declared({TO_FILES: plain}))
    assert "KAFKA-4090" in said
    assert f"connect_connectors, {TO_FILES}: the block producer.override. would use PLAINTEXT" in said
    assert plain.keys().isdisjoint(site.rest(f"/connectors/{TO_FILES}/config"))


def test_a_topic_without_rights(site: Site) -> None:
    """Connect may write `lines`, and not read it."""
    wrong = site.declared({TO_FILES: {"topics": "lines"}})
    try:
        said = refusal(site, "connectors", connect_connectors=wrong)
    finally:
        site.play(site.declared())
    assert f"Connector {TO_FILES}" in said
    assert "Not authorized to access topics: [lines]" in said
    site.wait_until_all_run(*WORKERS)


def test_a_replay_of_a_connector_that_is_none(site: Site) -> None:
    said = refusal(site, "dlq_replay", connector="notes-to-fils")
    assert "No site has a connector notes-to-fils with a dead-letter topic" in said


def test_an_expired_certificate(site: Site) -> None:
    old = (
        f"cat >{CONFIG}/old.pem; sed 's#/tls/connect-lake.pem#/old.pem#' {CONFIG}/worker.properties "
        f">{CONFIG}/old.properties; chown connect {CONFIG}/old.*"
    )
    site.lab.run(WORKERS[0], "sh", "-c", old, stdin=expired())
    try:
        said = site.doctor(f"{CONFIG}/old.properties")
    finally:
        site.lab.run(WORKERS[0], "sh", "-c", f"rm {CONFIG}/old.*")
    assert said.returncode == 1
    assert f"{CONFIG}/old.properties: the certificate of CN=connect-lake" in said.stdout
    assert "expired at" in said.stdout


def expired() -> str:
    """A key and a certificate of yesterday."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "connect-lake")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now - timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return (
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem)
    ).decode()
