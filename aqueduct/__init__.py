"""Deploys, connects, protects and proves an estate of Apache Kafka clusters."""

__version__ = "0.1.0"
