"""Spark applications: a pipeline each. What a task does is a plain function over a small description."""
