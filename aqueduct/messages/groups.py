"""Messages about groups in backups and restores."""

from aqueduct.messages.message import Area, DeclaredMessage

GROUPS = (
    DeclaredMessage(
        id="group-unknown",
        area=Area.GROUPS,
        meaning=(
            "The cluster has no group of this name, `--exclude` excludes all groups, or the client may "
            "not describe the group."
        ),
        fix="Check the name, `--exclude`, and the rights of the client.",
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
            "a backup does not contain them, and their lag is not known."
        ),
        fix=(
            "Start the brokers that `aqueduct doctor cluster` lists, and run the command again. The client "
            "needs `Describe` on `__consumer_offsets`."
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
    DeclaredMessage(
        id="group-stopped",
        area=Area.GROUPS,
        meaning="A group without members has unread records, and its offset does not move.",
        fix=(
            "Start its consumers, or skip the group with `--exclude`. Deleting the group deletes its "
            "committed offsets: do that only if no application needs it."
        ),
    ),
    DeclaredMessage(
        id="group-stuck",
        area=Area.GROUPS,
        meaning="A group with members has unread records, and its offset does not move.",
        fix=(
            "Read the logs of its consumers. `aqueduct transactions find-hanging` lists transactions that "
            "groups wait for. Use a `--window` longer than the time between two commits."
        ),
    ),
    DeclaredMessage(
        id="group-falling-behind",
        area=Area.GROUPS,
        meaning="A group reads more slowly than its topics are written.",
        fix="Add consumers, up to the number of partitions, or make them faster.",
    ),
    DeclaredMessage(
        id="group-lag-unknown",
        area=Area.GROUPS,
        meaning="The lag of a group in a partition cannot be measured.",
        fix="Follow the reason in the message. The client needs `Describe` on groups and `Read` on topics.",
    ),
    DeclaredMessage(
        id="group-records-expired",
        area=Area.GROUPS,
        meaning="Retention deleted records that a group had not read.",
        fix="Raise `retention.ms` or `retention.bytes` of the topic until the group has caught up.",
    ),
)
