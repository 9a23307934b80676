"""Messages about one-way links."""

from aqueduct.messages.message import Area, DeclaredMessage

LINK = (
    DeclaredMessage(
        id="link-topic-not-received",
        area=Area.LINK,
        meaning="Nothing of a topic that `dedup --topics` lists has crossed the link.",
        fix=(
            "Check the name, and the topics of the sending end. A topic that never had a record does not "
            "cross."
        ),
    ),
)
