"""Snapshots of topics and groups in a store: back up, restore, prune, export, import, drill."""
