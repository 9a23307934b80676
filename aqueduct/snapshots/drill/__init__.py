"""Drills: restore a snapshot into a scratch cluster, and check the result.

`scratch` refuses other clusters, `consume` reads as an application does, `live` compares with the live
cluster. `run` calls these, the restore and the comparison with the store; `report` prints the `outcome`.
"""
