"""Messages about one-way links."""

from aqueduct.messages.message import Area, DeclaredMessage

LINK = (
    DeclaredMessage(
        id="link-ledger-empty",
        area=Area.LINK,
        meaning="The ledger of a link has no entry, so what is missing is not known.",
        fix="Check that both ends of the link and dedup run. An entry appears with the first record.",
    ),
    DeclaredMessage(
        id="link-topic-not-received",
        area=Area.LINK,
        meaning="Nothing of a topic that `dedup --topics` lists has crossed the link.",
        fix=(
            "Check the name, and the topics of the sending end. A topic that never had a record does not "
            "cross."
        ),
    ),
    DeclaredMessage(
        id="raw-record-misplaced",
        area=Area.LINK,
        meaning=(
            "A record of a raw topic is in another partition than its source partition belongs to. It is not "
            "written. The ledger lists its offsets as missing when the sender has announced them."
        ),
        fix=(
            "Find out which principal wrote the record, and remove its right to write. Send the missing "
            "offsets again with `aqueduct diode resend`."
        ),
    ),
    DeclaredMessage(
        id="raw-batch-unreadable",
        area=Area.LINK,
        meaning=(
            "A batch of a raw topic cannot be read, or unpacks to more than the limit. Its records are "
            "counted as malformed and skipped."
        ),
        fix="Find out which principal wrote the batch, and remove its right to write.",
    ),
    DeclaredMessage(
        id="ledger-ids-exceeded",
        area=Area.LINK,
        meaning=(
            "A frame or an announcement has a new topic id, and the ledger has 1,000 topic ids of its source "
            "partition, or 100,000 former ids and ids of partitions without a clean one in that partition of "
            "the gap topic. It is neither written nor listed as missing."
        ),
        fix=(
            "If the topics were not re-created so often, give the sender a new key. Create the clean topics, "
            "or select topics with `--topics`. Let a topic that has no room left cross by another name."
        ),
    ),
)
