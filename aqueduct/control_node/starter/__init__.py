"""A user's own repository, as `aqueduct init` creates it."""
