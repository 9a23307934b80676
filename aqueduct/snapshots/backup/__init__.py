"""Backups of topics: `plan` selects the offsets to read, `run` reads and commits them, `report` prints it."""
