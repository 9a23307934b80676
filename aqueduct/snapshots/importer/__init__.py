"""Stores of other programs: what their files hold becomes a snapshot.

`kafka_backup` and `s3_binary` know a layout each, `fields` makes records of what they find, `run` reads and
commits it, `report` tells it.
"""
