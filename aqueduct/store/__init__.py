"""Backups in an object store: names of objects, manifests, and snapshots."""
