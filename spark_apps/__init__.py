"""Spark applications: one pipeline a module. What a task does is a plain function over a small description."""
