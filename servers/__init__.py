"""Real servers on this machine, for tests and benchmarks: each a process of its own, with its own files."""
