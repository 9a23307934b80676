"""What a backup keeps in an object store: names, manifests, and the snapshots they add up to."""
