"""Messages about hanging transactions."""

from aqueduct.messages.message import Area, DeclaredMessage

TRANSACTIONS = (
    DeclaredMessage(
        id="partition-unknown",
        area=Area.TRANSACTIONS,
        meaning="The topic has no partition of this number.",
        fix="Correct the number in `--partition` or `--to-offsets`.",
    ),
    DeclaredMessage(
        id="transaction-search-incomplete",
        area=Area.TRANSACTIONS,
        meaning=(
            "Some partitions were not checked for hanging transactions, because a broker is down or the"
            " client lacks an ACL."
        ),
        fix="Start the brokers, or grant the rights, in the message. Then run the command again.",
    ),
    DeclaredMessage(
        id="transaction-not-hanging",
        area=Area.TRANSACTIONS,
        meaning="The transaction is open, and its coordinator will still end it.",
        fix="Wait for its timeout, or stop its producer.",
    ),
    DeclaredMessage(
        id="transaction-unknown",
        area=Area.TRANSACTIONS,
        meaning="No open transaction of the partition begins at the offset of `--start-offset`.",
        fix="Run `aqueduct transactions find-hanging`, and pass an offset that it reports.",
    ),
    DeclaredMessage(
        id="transaction-decision-unknown",
        area=Area.TRANSACTIONS,
        meaning="The client may not read whether the coordinator has committed the transaction.",
        fix="Use a client with the ACL `Read` on the topic `__transaction_state`.",
    ),
    DeclaredMessage(
        id="transaction-decided-otherwise",
        area=Area.TRANSACTIONS,
        meaning="The coordinator has decided to commit a transaction that you want to abort, or the reverse.",
        fix=(
            "Run the command in the message. The other outcome would lose committed records, or make "
            "aborted records visible."
        ),
    ),
    DeclaredMessage(
        id="transaction-state-unreadable",
        area=Area.TRANSACTIONS,
        meaning="A record of `__transaction_state` has a format that Aqueduct does not know.",
        fix="Use `kafka-transactions.sh` of the brokers' version.",
    ),
    DeclaredMessage(
        id="transaction-still-open",
        area=Area.TRANSACTIONS,
        meaning="The partition's leader accepted the marker, and the transaction is still open.",
        fix="Read the journal of the partition's leader.",
    ),
    DeclaredMessage(
        id="transaction-hanging",
        area=Area.TRANSACTIONS,
        meaning=(
            "A transaction is open, and its coordinator will not end it. Read-committed consumers wait for "
            "it."
        ),
        fix="Run the command in the message.",
    ),
    DeclaredMessage(
        id="transaction-overdue",
        area=Area.TRANSACTIONS,
        meaning="A coordinator should have ended a transaction by now, and has not written its markers.",
        fix="Read the journal of the broker in the message, and restart it.",
    ),
)
