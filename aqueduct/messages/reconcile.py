"""Messages about comparisons."""

from aqueduct.messages.message import Area, DeclaredMessage

RECONCILE = (
    DeclaredMessage(
        id="compared-topic-missing",
        area=Area.RECONCILE,
        meaning="A topic exists at the sources, but not at the target.",
        fix="Check that the flow or the restore includes the topic. Check that the flow runs.",
    ),
    DeclaredMessage(
        id="link-not-compared",
        area=Area.RECONCILE,
        meaning=(
            "A one-way link with `mode: record` has no ledger, so nothing was compared. It is unknown "
            "whether records are missing."
        ),
        fix=(
            "Remove `mode: record` from the link, or list its name in `diode_downstream_uncompared_links` of "
            "the receiving site."
        ),
    ),
    DeclaredMessage(
        id="compared-batch-unreadable",
        area=Area.RECONCILE,
        meaning=(
            "Reconcile reads with librdkafka, which cannot decompress or parse a batch of this partition, so "
            "the partition was not compared. Other clients may read it, for example if its gzip data have "
            "several members."
        ),
        fix=(
            "Compare the partition up to this batch with another client. A backup and `aqueduct verify` read "
            "such batches."
        ),
    ),
    DeclaredMessage(
        id="records-differ",
        area=Area.RECONCILE,
        meaning="Records of a partition at the target are missing, repeated, changed or in another order.",
        fix=(
            "Read the list of records in the report. If the flow runs, it may only have a lag: run the "
            "command again later."
        ),
    ),
)
