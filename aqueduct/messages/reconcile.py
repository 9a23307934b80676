"""Messages about comparisons."""

from aqueduct.messages.message import Area, DeclaredMessage

RECONCILE = (
    DeclaredMessage(
        id="compared-topic-missing",
        area=Area.RECONCILE,
        meaning="The target does not have a topic that the sources have.",
        fix="Check that the flow or the restore includes the topic, and that it runs.",
    ),
    DeclaredMessage(
        id="link-not-compared",
        area=Area.RECONCILE,
        meaning=(
            "A one-way link with `mode: record` has no ledger, so nothing was compared. Missing records are "
            "unknown."
        ),
        fix=(
            "Remove `mode: record` from the link, or list its name in `diode_downstream_uncompared_links` of "
            "the receiving site."
        ),
    ),
    DeclaredMessage(
        id="records-differ",
        area=Area.RECONCILE,
        meaning="Records of a partition are missing, repeated, changed or in another order at the target.",
        fix="Read the records that the report lists. A running flow may only be behind: compare again.",
    ),
)
