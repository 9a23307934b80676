"""Messages about backups of a cluster's topics."""

from aqueduct.messages.message import Area, DeclaredMessage

BACKUP = (
    DeclaredMessage(
        id="snapshot-number-taken",
        area=Area.BACKUP,
        meaning=(
            "Another run committed the snapshot of this number first, so this run committed nothing. Its "
            "objects are not part of any snapshot."
        ),
        fix="Run the command again, and let only one run at a time write to a store.",
    ),
    DeclaredMessage(
        id="backup-option-missing",
        area=Area.BACKUP,
        meaning=(
            "Earlier snapshots of the store were signed, encrypted, or expire by lifecycle rules, and this "
            "run lacks the option that continues that."
        ),
        fix=(
            "Pass the option in the message as in earlier runs: `--signing-key`, `--recipient` or "
            "`--lifecycle-days`."
        ),
    ),
    DeclaredMessage(
        id="backup-cluster-changed",
        area=Area.BACKUP,
        meaning="The store has backups of another cluster. Nothing was backed up.",
        fix=(
            "Check the address of the cluster and the URL of the store. If the cluster was re-created, "
            "restore it first. To continue the store with the new cluster, run once with `--other-cluster`."
        ),
    ),
    DeclaredMessage(
        id="backup-read-nothing",
        area=Area.BACKUP,
        meaning="No partition could be read, so no snapshot was committed.",
        fix="Correct the reason in the message, and run the command again.",
    ),
    DeclaredMessage(
        id="partition-log-cut",
        area=Area.BACKUP,
        meaning=(
            "The log of a partition is not the one that was backed up: it was truncated, for example by an "
            "unclean leader election. The partition was not backed up further."
        ),
        fix=(
            "Find out why the log was truncated. To continue with the topic as it is now, back it up into "
            "another store."
        ),
    ),
    DeclaredMessage(
        id="task-key-missing",
        area=Area.BACKUP,
        meaning="A task did not get the key that its objects are encrypted with. It wrote nothing.",
        fix="Run the command again. If that happens again, read the log of the Spark driver.",
    ),
    DeclaredMessage(
        id="backup-run-incomplete",
        area=Area.BACKUP,
        meaning="A backup is committed, but skipped some items.",
        fix="Read the lines that follow in the message.",
    ),
)
