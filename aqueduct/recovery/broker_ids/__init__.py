"""Brokers whose ids were changed: bring their partitions back, with the logs that their data folders have."""
