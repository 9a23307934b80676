"""Export: the records of a snapshot as files of Parquet or Avro, for those who have no Kafka."""
