"""A one-way link: `upstream` sends, `downstream` receives, `dedup` makes clean topics of what arrived.

`wire` is the format (pure), `ledger` what is missing. `create` lists that in a bundle, `resend` sends it
again.
"""
