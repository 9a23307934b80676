"""Deploys, connects, protects and verifies Apache Kafka clusters in several data centres."""

# What pip installs. On PyPI, `aqueduct` is another project.
DISTRIBUTION = "aqueduct-estate"
