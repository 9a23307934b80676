"""The ledger: what of every source partition crossed a link, and what is missing, in memory.

`spans` are sets of offsets, `lineage` holds the rules by which frames and announcements change them,
`entry` is what the gap topic's records say, `bundle` the file that lists gaps for a resend. As on the link,
and unlike elsewhere, both ends of every range are inclusive.
"""
