"""Recovery of what a cluster needs beside its records: metadata, broker ids, files of hosts."""
