"""Sentences on datagrams that the receiving end drops: how many of each kind, and what that means.

Nothing that a datagram holds is ever logged.
"""

from collections.abc import Iterator

from aqueduct.link.log_throttle import Seldom
from aqueduct.link.wire.counters import Counters

# By counter.
MEANING = {
    "not_of_the_link": "these are not datagrams of a link: another program sends to this address and port",
    "other_version": "these datagrams have another version of the link format: upgrade one of the two ends",
    "other_link": (
        "these datagrams belong to a link with another number: compare the option link at both ends, or "
        "find out which other host sends to this port"
    ),
    "unknown_session": (
        "the receiving end has no key of this session: the sender has just started, the receiving end "
        "rejects the sender, or an attacker replays a recording"
    ),
    "bad_tag": (
        "these datagrams fail authentication: an attacker changed or forged them, or the network damaged them"
    ),
    "malformed": (
        "these datagrams are authentic, but have a form that no sender of this format creates: upgrade "
        "one of the two ends"
    ),
    "shards_old": "these datagrams belong to old blocks: an attacker or another host replays a recording",
    "keys_damaged": "these are key frames that are truncated or wrongly encrypted",
    "keys_of_strangers": (
        "these are key frames of a sender whose public key is not in senderPublicKeyFile: if this is "
        "your sender, add its public key; otherwise, find out which host sends to this address"
    ),
    "keys_badly_signed": (
        "these are key frames with the name of an accepted sender, but without its valid signature: an "
        "attacker forges them, or the network damages them"
    ),
    "keys_for_others": (
        "these are key frames of an accepted sender, encrypted for another public key: set publicKeyFile "
        "of the sender to the public key of this receiving end"
    ),
    "keys_old": (
        "these are key frames of a former session or a former key: an attacker replays a recording, two "
        "senders use the same private key, or the clock of the sender was set back"
    ),
    "keys_over_rate": (
        "the number of key frames per second is above the limit: a host floods this address, so the "
        "receiving end may accept a new key of the sender late"
    ),
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
