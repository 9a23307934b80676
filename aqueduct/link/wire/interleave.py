"""The order in which a group of blocks is sent, and what goes together in one send.

A kernel drops a send of many datagrams (UDP_SEGMENT) as a whole, and losses come in bursts: so shards of all
blocks take turns, and one lost send takes at most half of each block's parity.
"""

from collections.abc import Iterator
from functools import lru_cache

from aqueduct.link.wire.datagram import LARGEST_SEND, MOST_IN_SEND

Shape = tuple[int, int]  # k, m of a block
ShardPlace = tuple[int, int]  # block in the group, shard in the block


@lru_cache(maxsize=32)  # full groups are all alike
def interleaved(shapes: tuple[Shape, ...], size: int) -> tuple[tuple[ShardPlace, ...], ...]:
    """Return the sends of a group, every shard of it in one of them, for datagrams of `size` bytes."""
    most = max(1, min(MOST_IN_SEND, LARGEST_SEND // size))
    # A block without parity is lost with any of its shards, so its losses had better be together.
    allowed = [max(1, m // 2) if m else most for _, m in shapes]
    sends: list[tuple[ShardPlace, ...]] = []
    send: list[ShardPlace] = []
    taken = [0] * len(shapes)
    for shard_place in _order(shapes):
        block = shard_place[0]
        if len(send) == most or taken[block] == allowed[block]:
            sends.append(tuple(send))
            send = []
            taken = [0] * len(shapes)
        send.append(shard_place)
        taken[block] += 1
    return (*sends, tuple(send)) if send else tuple(sends)


def _order(shapes: tuple[Shape, ...]) -> Iterator[ShardPlace]:
    """Spread each block evenly over the whole group; blocks without parity follow one after the other."""

    def when(shard_place: ShardPlace) -> tuple[float, int]:
        block, shard = shard_place
        k, m = shapes[block]
        return ((shard + 0.5) / (k + m) if m else 0, block)

    places = [(block, shard) for block, (k, m) in enumerate(shapes) for shard in range(k + m)]
    return iter(sorted(places, key=when))
