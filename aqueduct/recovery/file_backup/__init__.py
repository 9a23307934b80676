"""Incremental backups of folders with rsync: create, list, measure, verify, restore and prune them."""
