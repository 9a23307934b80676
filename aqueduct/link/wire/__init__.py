"""A one-way link without its sockets, clocks and files: what bytes cross, and what either end makes of them.

`frame` says what of Kafka crosses. `sender` and `receiver` are the two ends; between them, from whole frames
to datagrams: `blocks` (frames in chunks, chunks in blocks), `erasure` (a block's parity), `interleave` (the
order on the wire), `datagram` (header and nonce). `keys` are the files of both sides' keys, `key_frame`
carries a session's. docs/link-format.md specifies every byte.
"""
