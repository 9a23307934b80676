"""Kafka's record batches, format v2 (KIP-98): walked, cut, merged and made ready to be written, in memory.

`batch` walks from header to header, `committed` leaves out what read-committed consumers never see, `records`
looks inside (with `codecs` and `varints`), `cut` keeps a range of offsets or a window of time, `produce`
makes what a Produce request takes, `offsets` describes the batches of a segment.
"""
