"""Messages about Kafka Connect."""

from aqueduct.messages.message import Area, DeclaredMessage

CONNECT = (
    DeclaredMessage(
        id="connect-store-not-opened",
        area=Area.CONNECT,
        meaning=(
            "A key or trust store of the worker could not be opened, because its password is not available "
            "on this host or `keytool` is not installed. Its certificates were not checked."
        ),
        fix=(
            "Run the command on the worker's host, as the user of the worker. To accept unknown results, "
            "pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-broker-away",
        area=Area.CONNECT,
        meaning="No broker answers at this address, so it is unknown whether its listener requires TLS.",
        fix=(
            "Start the broker, or correct the address. To skip this check, pass `--no-probe`. To accept "
            "unknown results, pass `--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-topics-unknown",
        area=Area.CONNECT,
        meaning="It is unknown whether the topics of a sink exist, for the reason in the message.",
        fix=(
            "Check the topics by hand, or correct the reason. To accept unknown results, pass "
            "`--allow-unknown`."
        ),
    ),
    DeclaredMessage(
        id="connect-clients-unsafe",
        area=Area.CONNECT,
        meaning=(
            "The worker's clients, or those of its connectors, would connect without TLS or with unsuitable "
            "certificates. No connector was changed."
        ),
        fix="Correct all settings that the message lists.",
    ),
    DeclaredMessage(
        id="connector-file-forbidden",
        area=Area.CONNECT,
        meaning="A connector reads or writes files that it may not. No connector was changed.",
        fix="Use files of the folders in the message, or allow another folder in the inventory.",
    ),
    DeclaredMessage(
        id="connector-config-invalid",
        area=Area.CONNECT,
        meaning="The configuration of a connector is incomplete, contradictory, or not an object.",
        fix="Correct the configuration that the message identifies.",
    ),
    DeclaredMessage(
        id="connector-missing",
        area=Area.CONNECT,
        meaning="A connector is declared without a configuration, and does not exist.",
        fix="Declare its configuration, or remove it from `connect_connectors`.",
    ),
    DeclaredMessage(
        id="connect-worker-invalid",
        area=Area.CONNECT,
        meaning="The file is not the configuration of a Connect worker.",
        fix="Pass the properties that `connect-distributed` starts with.",
    ),
    DeclaredMessage(
        id="connect-url-invalid",
        area=Area.CONNECT,
        meaning="The address of Connect's REST API is not a URL.",
        fix="Write an address such as `https://connect.example.com:8083`.",
    ),
    DeclaredMessage(
        id="connect-unreachable",
        area=Area.CONNECT,
        meaning="No worker of the Connect cluster answered in time.",
        fix="Start a worker, and read its journal.",
    ),
    DeclaredMessage(
        id="connect-tls-failed",
        area=Area.CONNECT,
        meaning=(
            "TLS with a Connect worker failed: a certificate is not accepted, or the worker does not use TLS."
        ),
        fix="Correct the certificate, the trust store or the listener that the message identifies.",
    ),
    DeclaredMessage(
        id="connect-request-rejected",
        area=Area.CONNECT,
        meaning="A Connect worker rejected a request.",
        fix="Correct the reason in the message, which is the worker's own.",
    ),
)
