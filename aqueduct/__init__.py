"""Deploys, connects, protects and verifies Apache Kafka clusters in several data centres."""
