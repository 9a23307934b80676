"""Messages about drills."""

from aqueduct.messages.message import Area, DeclaredMessage

DRILL = (
    DeclaredMessage(
        id="scratch-cluster-wrong",
        area=Area.DRILL,
        meaning=(
            "The cluster is not marked as a scratch cluster, or it is the cluster of the backup. Nothing "
            "was done."
        ),
        fix="Pass the address of the drill's own broker, which the role `drill` starts.",
    ),
    DeclaredMessage(
        id="scratch-cluster-not-empty",
        area=Area.DRILL,
        meaning="The scratch cluster contains topics that the drill did not create. Nothing was done.",
        fix="Check the address. Start the scratch cluster with an empty data directory.",
    ),
    DeclaredMessage(
        id="drill-group-not-consuming",
        area=Area.DRILL,
        meaning="A restored group could not consume its next record in the scratch cluster.",
        fix="Check the error in the message, and read the journal of the scratch broker.",
    ),
    DeclaredMessage(
        id="records-deleted-while-read",
        area=Area.DRILL,
        meaning=(
            "Retention deleted records of a partition during the comparison, so the partition was not "
            "compared."
        ),
        fix=(
            "Run the command again. If retention deletes records again, run the command at another time "
            "of day."
        ),
    ),
    DeclaredMessage(
        id="live-cluster-differs",
        area=Area.DRILL,
        meaning=(
            "The live cluster is not the cluster of the snapshot, so nothing was compared with the live "
            "cluster."
        ),
        fix="Check the address of `--live-bootstrap-server`.",
    ),
    DeclaredMessage(
        id="live-topics-not-visible",
        area=Area.DRILL,
        meaning=(
            "The live cluster has no topic of the drill, or its client may not describe these topics. "
            "Nothing was compared with the live cluster."
        ),
        fix=(
            "Check the address of `--live-bootstrap-server`. Grant the client of the live cluster "
            "`Describe` and `Read` on the topics."
        ),
    ),
    DeclaredMessage(
        id="drill-run-failed",
        area=Area.DRILL,
        meaning="A drill failed or found a difference.",
        fix="Read the next lines of the message.",
    ),
)
