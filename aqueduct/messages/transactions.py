"""Messages about hanging transactions."""

from aqueduct.messages.message import Area, DeclaredMessage

TRANSACTIONS = (
    DeclaredMessage(
        id="partition-unknown",
        area=Area.TRANSACTIONS,
        meaning="The topic has no partition with this number.",
        fix="Correct the number in `--partition` or `--to-offsets`.",
    ),
    DeclaredMessage(
        id="transaction-search-incomplete",
        area=Area.TRANSACTIONS,
        meaning=(
            "Some partitions were not checked for hanging transactions, because a broker is down or the"
            " client lacks an ACL."
        ),
        fix="Start the brokers in the message, or grant the ACLs in the message. Then run the command again.",
    ),
    DeclaredMessage(
        id="transaction-not-hanging",
        area=Area.TRANSACTIONS,
        meaning="The transaction is open but does not hang: its coordinator will end the transaction.",
        fix="Wait until the timeout of the transaction, or stop its producer.",
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
        meaning=(
            "The client may not read `__transaction_state`, so it is unknown whether the coordinator "
            "committed or aborted the transaction."
        ),
        fix="Use a client with the ACL `Read` on the topic `__transaction_state`.",
    ),
    DeclaredMessage(
        id="transaction-decided-otherwise",
        area=Area.TRANSACTIONS,
        meaning=(
            "The command would abort a transaction that the coordinator committed, or would commit a "
            "transaction that the coordinator aborted."
        ),
        fix=(
            "Run the command in the message, which has the same outcome as the coordinator. The other "
            "outcome would hide committed records, or make aborted records visible."
        ),
    ),
    DeclaredMessage(
        id="transaction-state-unreadable",
        area=Area.TRANSACTIONS,
        meaning="A record of `__transaction_state` has a format that this version of Aqueduct cannot read.",
        fix="Use `kafka-transactions.sh` of the same Kafka version as the brokers.",
    ),
    DeclaredMessage(
        id="transaction-still-open",
        area=Area.TRANSACTIONS,
        meaning=(
            "The leader of the partition accepted the transaction marker, but the transaction is still open."
        ),
        fix="Read the journal of the broker that leads the partition.",
    ),
    DeclaredMessage(
        id="transaction-hanging",
        area=Area.TRANSACTIONS,
        meaning=(
            "A hanging transaction exists: the transaction is open, and its coordinator will not end it. "
            "Read-committed consumers wait for the end of the transaction."
        ),
        fix="Run the command in the message to end the transaction.",
    ),
    DeclaredMessage(
        id="transaction-overdue",
        area=Area.TRANSACTIONS,
        meaning=(
            "The timeout of a transaction has passed, but its coordinator has not written the "
            "transaction markers."
        ),
        fix="Read the journal of the broker in the message, and restart the broker.",
    ),
)
