"""What a restore asks of a store and a cluster, and does there."""
