"""Runners of plain functions over small descriptions: in this process, in threads, or on Spark."""
