"""Backup of the metadata of a KRaft quorum, and their restore as the start of a new quorum."""
