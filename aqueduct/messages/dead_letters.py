"""Messages about dead-letter records."""

from aqueduct.messages.message import Area, DeclaredMessage

DEAD_LETTERS = (
    DeclaredMessage(
        id="dead-letter-name-unknown",
        area=Area.DEAD_LETTERS,
        meaning=("No dead-letter record matches `--connector`, `--error-class` or `--topic`."),
        fix=(
            "Check the names. `aqueduct dlq replay --dry-run` without these options lists the "
            "connectors, error classes and topics of all records."
        ),
    ),
    DeclaredMessage(
        id="ledger-created",
        area=Area.DEAD_LETTERS,
        meaning=(
            "The topic of `--ledger` did not exist, and was created. The new topic lists no earlier replay."
        ),
        fix="If earlier replays used another ledger, correct `--ledger`: this run sent their records again.",
    ),
    DeclaredMessage(
        id="dead-letter-topics-unknown",
        area=Area.DEAD_LETTERS,
        meaning=(
            "The client may not describe any dead-letter topic, so it is unknown whether dead-letter "
            "topics exist."
        ),
        fix="Grant the client `Read` on the dead-letter topics, or list them with `--dlq`.",
    ),
    DeclaredMessage(
        id="dead-letters-unreadable",
        area=Area.DEAD_LETTERS,
        meaning="Dead-letter records cannot be read, so these records are not counted.",
        fix=(
            "Grant the client `Read` on the topic. A batch that is too large after decompression stays "
            "in the topic."
        ),
    ),
    DeclaredMessage(
        id="dead-letter-origin-unknown",
        area=Area.DEAD_LETTERS,
        meaning=(
            "A record of the dead-letter topic has no headers with the topic and partition of its origin, "
            "so the record cannot be sent back. The record stays in the dead-letter topic."
        ),
        fix=(
            "Set `errors.deadletterqueue.context.headers.enable=true` in the connector. Aqueduct's role "
            "sets this by default. To send records without these headers to a topic, use another producer."
        ),
    ),
    DeclaredMessage(
        id="dead-letter-target-unknown",
        area=Area.DEAD_LETTERS,
        meaning=(
            "The headers of a dead-letter record contain a topic or partition that does not exist, that the "
            "connector does not read, or that the client may not describe. The record stays in the "
            "dead-letter topic. Each client with `Write` on the dead-letter topic can write such headers."
        ),
        fix=(
            "If the topic was deleted, send the records with `--to` to another topic that the connector "
            "reads. If the client lacks permissions, grant `Describe` and `Write` on the topic."
        ),
    ),
    DeclaredMessage(
        id="dead-letter-ledger-unknown",
        area=Area.DEAD_LETTERS,
        meaning="The ledger of replays cannot be read, so it is unknown which records were sent back.",
        fix="Grant the client `Read` on `aqueduct.dlq.replayed`, or pass another `--ledger`.",
    ),
    DeclaredMessage(
        id="dead-letter-target-unread",
        area=Area.DEAD_LETTERS,
        meaning=(
            "No connector reads the topic of `--to` and writes its dead-letter records to the topic of "
            "`--dlq`."
        ),
        fix="Correct `--to` or `--dlq`.",
    ),
    DeclaredMessage(
        id="dead-letter-ledger-invalid",
        area=Area.DEAD_LETTERS,
        meaning="The topic of `--ledger` contains records that are not ledger entries.",
        fix="Find out which other client writes to the topic, or pass another topic with `--ledger`.",
    ),
    DeclaredMessage(
        id="dead-letters-not-replayed",
        area=Area.DEAD_LETTERS,
        meaning="Some dead-letter records could not be sent back.",
        fix="Read the next lines of the message.",
    ),
    DeclaredMessage(
        id="connector-not-chosen",
        area=Area.DEAD_LETTERS,
        meaning=(
            "The playbook was started without `-e connector`, or no site or several sites have the connector."
        ),
        fix="Pass `-e connector`. If several sites have the connector, also pass `-e site`.",
    ),
)
