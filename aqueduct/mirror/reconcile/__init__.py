"""Comparing the two ends of a flow.

`flow` says which partitions belong together, `reader` reads them, `digest` sums up what was read, `verdict`
says which are equal, `difference` finds where the others differ, `report` tells it. `run` does all this.
"""
