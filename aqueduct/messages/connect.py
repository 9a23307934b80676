"""Messages about Kafka Connect."""

from aqueduct.messages.message import Area, DeclaredMessage

CONNECT = (
    DeclaredMessage(
        id="connect-store-not-opened",
        area=Area.CONNECT,
        meaning=(
            "A key or trust store of the worker could not be opened, so its certificates were not checked: "
            "its password is not known here, or this host has no `keytool`."
        ),
        fix="Run the command on the worker's host, as the user of the worker.",
    ),
    DeclaredMessage(
        id="connect-broker-away",
        area=Area.CONNECT,
        meaning="No broker answers at this address, so it is unknown whether its listener requires TLS.",
        fix="Start the broker, or correct the address. With `--no-probe` no broker is asked.",
    ),
)
