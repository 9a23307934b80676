"""Clients without a certificate or an ACL are refused. Each unit has only the access that it needs."""

import subprocess
from pathlib import Path

import pytest
import sandboxes
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from lab import Lab


def test_every_service_is_in_its_sandbox(lab: Lab) -> None:
    sandboxes.check(lab)


def metadata(settings: dict[str, object], seconds: float = 8) -> object:
    return AdminClient({**settings, "log_level": 0, "socket.connection.setup.timeout.ms": 5000}).list_topics(
        timeout=seconds
    )


def test_client_with_estate_certificate_is_accepted(lab: Lab) -> None:
    """The control: what the others lack is the only difference."""
    assert metadata(lab.client("pro1-kafka-1", "flights"), 60)


def test_broker_key_administers_no_other_cluster(lab: Lab, tmp_path: Path) -> None:
    """What who has broken into a broker of one site may do at another."""
    pem = tmp_path / "captured.pem"
    pem.write_text(lab.run("pro2-kafka-1", "cat", "/etc/aqueduct/kafka/tls/kafka-pro2.pem").stdout)

    def create(at: str) -> KafkaError | None:
        captured = {"ssl.certificate.location": str(pem), "ssl.key.location": str(pem)}
        admin = AdminClient({**lab.client(at), **captured})
        try:
            admin.create_topics([NewTopic("captured", 1, 1)])["captured"].result(60)
        except KafkaException as error:
            return error.args[0]
        admin.delete_topics(["captured"])["captured"].result(60)
        return None

    assert create("pro2-kafka-1") is None, "the control: there it rules"
    refused = create("pro1-kafka-1")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, refused


def test_a_client_without_certificate_is_refused(lab: Lab) -> None:
    settings = {
        k: v
        for k, v in lab.client("pro1-kafka-1").items()
        if not k.startswith(("ssl.certificate", "ssl.key"))
    }
    with pytest.raises(KafkaException):
        metadata(settings)


def test_a_client_of_another_authority_is_refused(lab: Lab, tmp_path: Path) -> None:
    pem = tmp_path / "other.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "1", "-subj", "/CN=admin", "-keyout", pem, "-out", tmp_path / "other.crt"),
        ],
        check=True,
        capture_output=True,
    )
    settings = {**lab.client("pro1-kafka-1"), "ssl.key.location": str(pem)}
    settings["ssl.certificate.location"] = str(tmp_path / "other.crt")
    with pytest.raises(KafkaException):
        metadata(settings)


def test_a_principal_without_rights_writes_nothing(lab: Lab) -> None:
    refused: list[str] = []
    producer = Producer(lab.client("pro1-kafka-1", "stranger"))
    producer.produce("flights", b"forged", on_delivery=lambda error, _: refused.append(str(error)))
    producer.flush(300)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(refused) or "Topic authorization failed" in str(refused), (
        refused
    )


@pytest.mark.parametrize("host", ["lake-mirror-1", "lake-mirror-2"])
def test_keys_and_configuration_are_their_service_s_alone(lab: Lab, host: str) -> None:
    listing = lab.run(
        host, "find", "/etc/aqueduct/mirror_maker", "-printf", "%y %m %u %p\n"
    ).stdout.splitlines()
    files = [line.split() for line in listing]
    private = [f for f in files if f[0] == "f" and not f[3].endswith("ca.pem")]
    assert len(private) > 5
    assert {mode for _, mode, _, _ in private} == {"600"}
    owners = {(owner, path.endswith("/.stores.json")) for kind, _, owner, path in files if kind == "f"}
    assert owners == {("mirror_maker", False), ("root", True)}  # root's digests of the stores that it wrote
    # Folders are root's: the service can put no link in the place of a file.
    assert {(mode, owner) for kind, mode, owner, _ in files if kind == "d"} == {("750", "root")}
