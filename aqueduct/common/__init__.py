"""Basics that need no cluster and no store: names, offsets, times, keys, files, wording."""
