"""Prunes: `plan` selects the snapshots to remove, `run` removes them, `report` prints the result."""
