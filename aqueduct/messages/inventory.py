"""Messages about the inventory as a whole."""

from aqueduct.messages.message import Area, DeclaredMessage

INVENTORY = (
    DeclaredMessage(
        id="host-site-ambiguous",
        area=Area.INVENTORY,
        meaning="A host is in no group `site_*`, or in several.",
        fix="Put the host into exactly one group `site_NAME`.",
    ),
    DeclaredMessage(
        id="site-unknown",
        area=Area.INVENTORY,
        meaning="The inventory has no group of a site.",
        fix="Correct the name of the site, or add the group `site_NAME`.",
    ),
    DeclaredMessage(
        id="node-id-missing",
        area=Area.INVENTORY,
        meaning="A host of the group `kafka` has no `kafka_node_id`.",
        fix="Set a number that no other Kafka node of the site has.",
    ),
)
