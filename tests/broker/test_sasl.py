"""Verbs whose client properties name a user and a password, against a broker that asks for them."""

from pathlib import Path

import pytest
from confluent_kafka.admin import ScramMechanism
from kit import clients, scram

from aqueduct.cli import main
from aqueduct.kafka.client_config import MECHANISMS
from servers.broker import PASSWORD, USER, Broker


@pytest.fixture(scope="module")
def topic(brokers: list[Broker]) -> str:
    """Create a topic with records; and the user, who may now come by SCRAM."""
    broker = brokers[0]
    name = clients.create(broker, clients.unique("sasl"), 2)
    scram.add_user(broker, USER, ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    clients.produce(broker, name, range(50), 0)
    clients.produce(broker, name, range(50, 100), 1)
    return name


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_who_knows_the_password_is_served(
    mechanism: str,
    brokers: list[Broker],
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = brokers[0]
    file = tmp_path / "client.properties"

    def run(verb: str, *options: str, password: str = PASSWORD) -> tuple[int, str]:
        file.write_text(
            f"""
            security.protocol=SASL_SSL
            ssl.truststore.type=PEM
            ssl.truststore.location={broker.authority.certificate}
            sasl.mechanism={mechanism}
            sasl.jaas.config=org.apache.kafka.common.security.{MECHANISMS[mechanism]}LoginModule required \\
                username="{USER}" password="{password}";
            """
        )
        code = main([verb, *options, "--command-config", str(file)])
        said = capsys.readouterr()
        assert PASSWORD not in said.out + said.err
        return code, said.out + said.err

    server = ("--bootstrap-server", broker.sasl)
    assert run("health", *server) == (0, "")
    code, said = run("backup", *server, "--store", tmp_path.as_uri() + "/store", "--topics", topic)
    assert code == 0, said
    code, said = run(
        "reconcile",
        *("--source-bootstrap-server", broker.sasl),
        *("--target-bootstrap-server", broker.sasl),
        *("--topics", topic),
    )
    assert code == 0, said
    assert "100 records in, 100 records out" in said
    code, said = run("health", *server, password="wrong")
    assert code == 1, said
