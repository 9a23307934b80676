"""Exports: write the records of a snapshot to Parquet or Avro files, which are read without Kafka."""
