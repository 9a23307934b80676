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
        id="records-differ",
        area=Area.RECONCILE,
        meaning="Records of a partition are missing, repeated, changed or in another order at the target.",
        fix="Read the records that the report lists. A running flow may only be behind: compare again.",
    ),
)
