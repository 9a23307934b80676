"""The mirror engine `batches`: copies Kafka's record batches from one cluster to another, exactly once.

A transaction at the target contains the records and the positions at the source up to which they were read.
"""
