"""Kafka Connect: a worker's configuration and what is wrong with it, connectors, and their dead letters."""
