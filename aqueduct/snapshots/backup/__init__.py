"""Backing up: `plan` says what is read from where on, `run` reads and commits it, `report` tells it."""
