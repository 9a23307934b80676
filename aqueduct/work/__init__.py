"""Running plain functions over small descriptions: here, in a pool of threads, or by Spark."""
