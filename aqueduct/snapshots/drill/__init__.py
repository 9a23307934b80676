"""Drills: a snapshot is restored into a scratch cluster, and it is looked at what came back.

`scratch` refuses a cluster that isn't one, `consume` reads as a user would, `live` compares with the cluster
that was backed up, `run` does all that by restore and reconcile, `outcome` judges it, `report` tells it.
"""
