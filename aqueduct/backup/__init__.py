"""What a backup run decides: which topics and groups, from where on, and when a generation is due."""
