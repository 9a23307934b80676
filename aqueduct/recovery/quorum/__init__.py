"""What a KRaft cluster's controllers keep: kept apart from them, and made the beginning of a new quorum."""
