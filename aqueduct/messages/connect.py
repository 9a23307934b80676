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
)
