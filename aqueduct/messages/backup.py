"""Messages about backups of a cluster's topics."""

from aqueduct.messages.message import Area, DeclaredMessage

BACKUP = (
    DeclaredMessage(
        id="snapshot-number-taken",
        area=Area.BACKUP,
        meaning=(
            "Another run committed the snapshot with this number first, so this run committed nothing. The "
            "objects of this run are not part of any snapshot."
        ),
        fix="Run the command again. Let only one run at a time write to a store.",
    ),
    DeclaredMessage(
        id="backup-option-missing",
        area=Area.BACKUP,
        meaning=(
            "Earlier snapshots of the store were signed or encrypted, or lifecycle rules delete them. This "
            "run lacks the option for this."
        ),
        fix=(
            "Pass the option that the message shows, as in earlier runs: `--signing-key`, `--recipient` or "
            "`--lifecycle-days`."
        ),
    ),
    DeclaredMessage(
        id="backup-cluster-changed",
        area=Area.BACKUP,
        meaning="The store contains backups of another cluster. Nothing was backed up.",
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
            "The log of a partition was truncated after the last backup, for example by an unclean leader "
            "election. New records of the partition were not backed up."
        ),
        fix=(
            "Find out why the log was truncated. To continue with the topic as it is now, back it up into "
            "another store."
        ),
    ),
    DeclaredMessage(
        id="task-key-missing",
        area=Area.BACKUP,
        meaning="A task did not receive the key that encrypts its objects. The task wrote nothing.",
        fix="Run the command again. If the error occurs again, read the log of the Spark driver.",
    ),
    DeclaredMessage(
        id="backup-run-incomplete",
        area=Area.BACKUP,
        meaning="The backup was committed, but some items were skipped.",
        fix="Read the lines that follow in the message.",
    ),
)
