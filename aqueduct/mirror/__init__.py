"""MirrorMaker 2 flows: `reading` fetches what a flow leaves in its target, `status` judges it (pure)."""
