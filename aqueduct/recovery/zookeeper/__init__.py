"""Backup, comparison and restore of the znodes of a ZooKeeper ensemble."""
