"""The counters of a receiver; each field is a metric's name, and only ever rises."""

from dataclasses import dataclass


@dataclass(kw_only=True)
class Counters:
    """The counters of a receiver.

    Fields marked (*) count by what a datagram says of itself: strangers can make them rise, no others.
    Each datagram counts once among those from `shards` to `keys_over_rate`.
    """

    datagrams: int = 0
    bytes: int = 0

    # Datagrams that are taken.
    shards: int = 0
    beats: int = 0  # the end of a session, too
    keys: int = 0

    # Datagrams that are dropped.
    not_of_the_link: int = 0  # (*) other magic bytes, or too short for a header
    other_version: int = 0  # (*)
    other_link: int = 0  # (*) or a reserved byte is not 0
    unknown_session: int = 0  # (*) or an unknown key: not announced yet, too old, or another receiver's
    bad_tag: int = 0  # not what the session's sender made
    malformed: int = 0  # authentic, but no sender of this format makes it
    shards_spare: int = 0  # (*) parity that its block did not need
    shards_again: int = 0  # (*) of data that are there or given up: duplicated, late or replayed
    shards_old: int = 0  # (*) of blocks more than a window ago: a replay
    beats_old: int = 0  # (*) overtaken, duplicated or replayed

    # Key frames.
    keys_repeated: int = 0  # the very bytes of one that was taken
    keys_damaged: int = 0
    keys_of_strangers: int = 0  # (*)
    keys_badly_signed: int = 0
    keys_for_others: int = 0  # a known sender's, sealed for another receiver
    keys_old: int = 0  # of a session or a key that was replaced: replays, or the sender's clock was set back
    keys_over_rate: int = 0  # (*) not looked at

    # Blocks.
    blocks: int = 0  # whole
    blocks_repaired: int = 0  # of them, by parity
    shards_repaired: int = 0
    blocks_malformed: int = 0  # of them, authentic, but no sender of this format makes their chunks
    blocks_lost: int = 0
    blocks_crowded_out: int = 0  # of the lost ones, by the limit of memory

    # Values: frames and announcements.
    values: int = 0
    values_bytes: int = 0
    values_incomplete: int = 0  # given up, since parts of them were lost
    values_oversized: int = 0
    values_malformed: int = 0

    sessions: int = 0
