"""What administrators ask of a cluster and change there, through the one Client, a file for each kind.

The modules of the same names beside this package are pure: they say what there is to be.
"""
