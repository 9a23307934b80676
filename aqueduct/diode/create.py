"""The bundle of what the ledger says is missing."""

from aqueduct.diode.options import Create
from aqueduct.io import gap_topic
from aqueduct.io.kafka import client as kafka
from aqueduct.ledger import bundle
from aqueduct.ledger.spans import size


def bundle_text(settings: Create) -> tuple[str, int]:
    """The bundle, and how many offsets it lists."""
    with kafka.connect(settings.end("target"), f"{settings.id}-create") as client:
        ledger = gap_topic.whole(client, settings.topic)
    found = bundle.bundle(ledger.values(), settings.limit)
    return bundle.dumps(found), sum(size(each.gaps) for each in found.results)
