"""Messages about dead-letter records."""

from aqueduct.messages.message import Area, DeclaredMessage

DEAD_LETTERS = (
    DeclaredMessage(
        id="dead-letter-name-unknown",
        area=Area.DEAD_LETTERS,
        meaning=(
            "No dead-letter record has a connector of `--connector`, an error class of `--error-class`, or a "
            "topic of `--topic`."
        ),
        fix="Check the names. `dlq replay --dry-run` without these options lists those of all records.",
    ),
    DeclaredMessage(
        id="ledger-created",
        area=Area.DEAD_LETTERS,
        meaning="The topic of `--ledger` did not exist, and was created. It lists no earlier replay.",
        fix="If earlier replays used another ledger, check `--ledger`: their records were sent again.",
    ),
    DeclaredMessage(
        id="dead-letter-topics-unknown",
        area=Area.DEAD_LETTERS,
        meaning="The client may describe no dead-letter topic, so it is not known whether any exist.",
        fix="Grant the client `Read` on the dead-letter topics, or list them with `--dlq`.",
    ),
    DeclaredMessage(
        id="dead-letters-unreadable",
        area=Area.DEAD_LETTERS,
        meaning="Dead-letter records cannot be read, so they are not counted.",
        fix="Grant the client `Read` on the topic. A batch that unpacks to too much stays as it is.",
    ),
    DeclaredMessage(
        id="dead-letter-origin-unknown",
        area=Area.DEAD_LETTERS,
        meaning=(
            "A record of the dead-letter topic has no headers with the topic and partition of its origin, so "
            "it cannot be sent back. It stays in the dead-letter topic."
        ),
        fix=(
            "Set `errors.deadletterqueue.context.headers.enable=true` in the connector, which Aqueduct's "
            "role does. To send such records to a topic, write them with another producer."
        ),
    ),
    DeclaredMessage(
        id="dead-letter-target-unknown",
        area=Area.DEAD_LETTERS,
        meaning=(
            "The headers of a dead-letter record contain a topic or partition that does not exist, that the "
            "connector does not read, or that the client may not describe. The record stays in the "
            "dead-letter topic. Anyone who can write to that topic can write such headers."
        ),
        fix=(
            "If the topic was deleted, send the records to another topic that the connector reads, with "
            "`--to`. If the client lacks permissions, grant `Describe` and `Write` on the topic."
        ),
    ),
    DeclaredMessage(
        id="dead-letter-ledger-unknown",
        area=Area.DEAD_LETTERS,
        meaning="The ledger of replays cannot be read, so it is not known which records were sent back.",
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
        meaning="The topic of `--ledger` has records that are not entries of a ledger.",
        fix="Find out what else writes to the topic, or pass another topic with `--ledger`.",
    ),
    DeclaredMessage(
        id="dead-letters-not-replayed",
        area=Area.DEAD_LETTERS,
        meaning="Some dead-letter records could not be sent back.",
        fix="Read the lines that follow in the message.",
    ),
    DeclaredMessage(
        id="connector-not-chosen",
        area=Area.DEAD_LETTERS,
        meaning="The playbook was started without a connector, no site has it, or several have it.",
        fix="Pass `-e connector`, and `-e site` if several sites have it.",
    ),
)
