"""Deploys, connects, protects and proves an estate of Apache Kafka clusters."""
