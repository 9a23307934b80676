"""What a restore is, apart from doing it: which records go where, and with which settings."""
