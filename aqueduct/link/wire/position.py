"""The metadata that a sending end commits with the next offset of a partition."""

import json
from dataclasses import asdict, dataclass

NO_EPOCH = -1


@dataclass(frozen=True, kw_only=True)
class SenderPosition:
    """A position: in `topic_id` all from offset `from_` on is to cross. `session` is when the sender's newest
    one began.

    In a topic with another id the offset means nothing.
    """

    topic_id: str
    from_: int
    session: int  # milliseconds since 1970
    epoch: int = NO_EPOCH  # the leader's, under which the last offset before it was written

    def dumps(self) -> str:
        return json.dumps({name.rstrip("_"): value for name, value in asdict(self).items()})


def loads(metadata: str) -> SenderPosition | None:
    """Parse a position; None: somebody else's metadata."""
    try:
        content = json.loads(metadata)
        return SenderPosition(
            topic_id=str(content["topic_id"]),
            from_=int(content["from"]),
            session=int(content["session"]),
            epoch=int(content["epoch"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
