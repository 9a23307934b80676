"""Administrators' requests and changes to a cluster, through the one Client, a file for each kind.

The modules of the same names beside this package are pure: they plan what there should be.
"""
