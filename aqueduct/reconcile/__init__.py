"""Comparing the two ends of a flow, without the clients that read them.

`flow` says which partitions belong together, `digest` sums up what was read of them, `verdict` says which are
equal, `difference` finds where the others differ, `findings` tells it. spark_apps/reconcile.py runs all this.
"""
