"""Kafka: record batches fetched and produced as they are, offsets, groups, and the admin API.

It stands on kafka-python's protocol layer (requests and responses made from Kafka's own schemas) and on its
connections (TLS, SASL, reconnecting, a broker's throttling). `batches` is pure.
"""
