"""Imports: create a snapshot from the files of another backup program.

`kafka_backup` and `s3_binary` each read one layout, and `fields` builds their records. `run` imports the
files and commits the snapshot, `report` prints the result.
"""
