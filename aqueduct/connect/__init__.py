"""Kafka Connect: a worker's configuration and its faults, connectors, and their dead-letter records."""
