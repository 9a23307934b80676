"""Restores of topics: `plan` assigns records to partitions, `run` writes them, `report` prints the result."""
