"""Dated, incremental copies of folders, made by rsync: listed, measured, verified, restored, pruned."""
