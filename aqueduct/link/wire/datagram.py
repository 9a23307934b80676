"""A datagram: a header of 32 bytes, and what AES-256-GCM makes of its content.

The header is the associated data, and its last 12 bytes are the nonce: within a session type, shard and
counter never come twice under one key. All datagrams of a session but key frames have the same size.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from aqueduct.errors import Refused
from aqueduct.link.wire.erasure import ALIGNMENT

# Magic, version, zero, link | session, key number | type, shard, k, m, counter.
HEADER = struct.Struct(">2sBBI8sIBBBBQ")
PREFIX = slice(0, 8)  # the same in all datagrams of a link
KEY = slice(8, 20)  # names the key
NONCE = slice(20, 32)
FIELDS = struct.Struct(">BBBBQ")  # the nonce's

MAGIC = b"\xa9\xd1"
VERSION = 1
TAG = 16  # bytes that AES-GCM adds
OVERHEAD = HEADER.size + TAG
MOST_IN_SEND = 44  # of datagrams; Linux takes up to 64, but drops a send as a whole (UDP_SEGMENT)
LARGEST_SEND = 65_507  # bytes

_IP_AND_UDP = {4: 28, 6: 48}
_LINKS = 1 << 32

# What sendmsg takes: header, content, header, content, ... of datagrams that all have the session's size, by
# which the kernel cuts them apart. A key frame is alone in its send.
Send = list[bytes]


class Type(IntEnum):
    DATA = 0  # a shard of block `counter`
    BEAT = 1  # the sender lives; number `counter`
    END = 2  # as BEAT: the last block was sent
    KEY = 3  # a key frame; shard, k, m and counter are 0


class Beat(NamedTuple):
    """The content of BEAT and END; the rest up to the datagram's size is zeros."""

    blocks: int  # that were sent so far, so the next one's number
    wall: int  # the sender's clock: milliseconds since 1970


BEAT = struct.Struct(">QQ")


def prefix(link: int) -> bytes:
    return HEADER.pack(MAGIC, VERSION, 0, link, b"", 0, 0, 0, 0, 0, 0)[PREFIX]


def check_link(link: int) -> int:
    """Check a link's number; Refused if it isn't one."""
    if not 0 <= link < _LINKS:
        raise Refused(
            "link-options-invalid",
            f"{link} is not a valid number of a link. Use a number from 0 to {_LINKS - 1}.",
        )
    return link


def payload_of(mtu: int, ip_version: int) -> int:
    """Return the largest datagram payload that no router must cut."""
    return mtu - _IP_AND_UDP[ip_version]


def shard_length(payload: int) -> int:
    """Return the bytes of a block that a datagram of at most `payload` bytes carries. Refused: none fit."""
    length = (payload - OVERHEAD) // ALIGNMENT * ALIGNMENT
    if length < BEAT.size:
        raise Refused(
            "datagram-size-unsuitable",
            f"Datagrams of {payload} bytes are too small: a link needs at least {OVERHEAD + ALIGNMENT} "
            "bytes. Increase payloadSize or mtu.",
        )
    if payload > LARGEST_SEND:
        raise Refused(
            "datagram-size-unsuitable",
            f"Datagrams of {payload} bytes are too large: UDP allows at most {LARGEST_SEND} bytes. Reduce "
            "payloadSize.",
        )
    return length


def split(send: Send) -> list[bytes]:
    """Return a send's datagrams."""
    return [header + content for header, content in zip(send[::2], send[1::2], strict=True)]
