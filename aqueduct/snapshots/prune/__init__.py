"""Pruning: `plan` says which snapshots go, `run` removes them and what they alone name, `report` tells it."""
