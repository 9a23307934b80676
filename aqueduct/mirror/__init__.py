"""Mirrors of flows, MirrorMaker 2 and the classic one: what each leaves is read, and judged by pure modules.

`reading` and `status` are of MirrorMaker 2, `classic_reading` and `classic` of the classic one.
"""
