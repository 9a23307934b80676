"""Restoring a snapshot: `plan` says which records go where, `run` brings them there, `report` tells it."""
