"""Messages about groups in backups and restores."""

from aqueduct.messages.message import Area, DeclaredMessage

GROUPS = (
    DeclaredMessage(
        id="group-unknown",
        area=Area.GROUPS,
        meaning="The cluster has no group of this name, or the client may not describe it.",
        fix="Check the name, and the rights of the client.",
    ),
    DeclaredMessage(
        id="group-type-unsupported",
        area=Area.GROUPS,
        meaning="The type of the group is not supported, so only its committed offsets are backed up.",
        fix="Upgrade Aqueduct, or back up the rest of the group's state by other means.",
    ),
    DeclaredMessage(
        id="group-coordinator-unavailable",
        area=Area.GROUPS,
        meaning=(
            "The coordinator of a consumer group does not answer, as its partition of `__consumer_offsets` "
            "has no leader. The offsets of the group were not read or set."
        ),
        fix=(
            "Start the brokers that `aqueduct doctor cluster --groups NAME` lists, and run the command again."
        ),
    ),
    DeclaredMessage(
        id="groups-unlisted",
        area=Area.GROUPS,
        meaning=(
            "No broker lists the consumer groups of a partition of `__consumer_offsets` without a leader, so "
            "the backup does not contain them."
        ),
        fix=(
            "Start the brokers that `aqueduct doctor cluster` lists, and back up again. The client needs "
            "`Describe` on `__consumer_offsets`."
        ),
    ),
    DeclaredMessage(
        id="partition-unavailable",
        area=Area.GROUPS,
        meaning="The leader of a partition does not answer, so offsets of groups in it were not set.",
        fix="Start the brokers of the partition, and run the command again.",
    ),
    DeclaredMessage(
        id="share-group-state-unreadable",
        area=Area.GROUPS,
        meaning="Acknowledgements of share groups cannot be read, so only their start offsets are backed up.",
        fix=(
            "Grant the client `Read` on `__share_group_state`. After a restore without them, consumers "
            "receive some acknowledged records again."
        ),
    ),
    DeclaredMessage(
        id="share-groups-unsupported",
        area=Area.GROUPS,
        meaning="The target cluster has no share groups, so their offsets were not set.",
        fix="Upgrade Kafka to 4.2 or later, and enable the feature `share.version`.",
    ),
)
