"""Users who log in to a broker by SCRAM."""

from contextlib import suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kit import clients

from servers.broker import PASSWORD, Broker


def add_user(broker: Broker, name: str, *mechanisms: ScramMechanism) -> None:
    """Let a user log in with PASSWORD by these mechanisms, and wait until the broker knows it."""
    asked = clients.admin(broker)
    for mechanism in mechanisms:
        made = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        asked.alter_user_scram_credentials([made])[name].result()
        login: dict[str, object] = {
            "bootstrap.servers": broker.sasl,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(broker.authority.certificate),
            "sasl.mechanism": mechanism.name.replace("_", "-"),
            "sasl.username": name,
            "sasl.password": PASSWORD,
            "log_level": 0,
        }

        def is_let_in(login: dict[str, object] = login) -> bool:
            with suppress(KafkaException):
                AdminClient(login).list_topics(timeout=5)
                return True
            return False

        clients.wait_for(f"the user {name} by {mechanism.name}", is_let_in)
