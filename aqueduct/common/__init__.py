"""Shared basics that know nothing of clusters or stores: names, offsets, times, keys, files, wording."""
