"""Sentences on datagrams that the receiving end drops: how many of each kind, and what that means.

Nothing that a datagram holds is ever logged.
"""

from collections.abc import Iterator

from aqueduct.link.log_throttle import Seldom
from aqueduct.link.wire.counters import Counters

# By counter.
MEANING = {
    "not_of_the_link": "they aren't datagrams of any link: something else sends to this address and port",
    "other_version": "they are of another version of the link's format: update one of the two ends",
    "other_link": "they are of a link with another number: compare the option link at both ends, or find who "
    "else sends to this port",
    "unknown_session": "no key of their session is known: a sender that just began or that this receiver "
    "refuses, or an old recording",
    "bad_tag": "they fail authentication: somebody changed or forged them, or the network damages them",
    "malformed": "they are authentic, but no sender of this format makes them: update one of the two ends",
    "shards_old": "they are of blocks long past: a recording is played again",
    "keys_damaged": "they are key frames that are cut off or wrongly sealed",
    "keys_of_strangers": "they are key frames of a sender that senderPublicKeyFile does not name: bring its "
    "public key here if it is yours, else find who sends to this address",
    "keys_badly_signed": "they are key frames that claim to be of a known sender, whose signature they do "
    "not have: somebody forges them, or the network damages them",
    "keys_for_others": "they are key frames of a known sender, sealed for another receiver's public key: "
    "publicKeyFile at the sender must be this receiver's",
    "keys_old": "they are key frames of a session or a key that was replaced: a recording is played again, "
    "two senders use one signing key, or the sender's clock was set back",
    "keys_over_rate": "they are key frames beyond those that are looked at in a second: somebody floods this "
    "address, and a sender's new key may be noticed late",
}


class Strangers:
    """The strangers of one receiver, whose counters it is shown again and again."""

    def __init__(self) -> None:
        self._seldom = Seldom()
        self._seen = Counters()

    def sentences(self, counters: Counters, now: float) -> Iterator[str]:
        """Yield sentences to log. `now` is seconds of a monotonic clock."""
        for kind, meaning in MEANING.items():
            before, count = getattr(self._seen, kind), getattr(counters, kind)
            setattr(self._seen, kind, count)
            if due := self._seldom.due(kind, count - before, now):
                yield f"dropped {due} datagrams ({kind}): {meaning}"
