"""The contents of an object store with backups: names, manifests, and the snapshots they add up to."""
