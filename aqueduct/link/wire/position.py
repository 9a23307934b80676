"""The metadata that a sending end commits with the next offset of a partition."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class SenderPosition:
    """A position: in `topic_id` all from offset `from_` on is to cross. `session` is when the sender's newest
    one began.

    In a topic with another id the offset means nothing.
    """

    topic_id: str
    from_: int
    session: int  # milliseconds since 1970

    def dumps(self) -> str:
        return json.dumps({name.rstrip("_"): value for name, value in asdict(self).items()})


def loads(metadata: str) -> SenderPosition | None:
    """Parse a position; None: somebody else's metadata."""
    try:
        content = json.loads(metadata)
        return SenderPosition(str(content["topic_id"]), int(content["from"]), int(content["session"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
