"""Repair of brokers whose ids were changed: their partitions get the logs in their data folders again."""
