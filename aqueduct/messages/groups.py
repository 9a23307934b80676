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
        meaning=(
            "The type of the group is not supported, so only the committed offsets of the group are "
            "backed up."
        ),
        fix="Upgrade Aqueduct, or back up the other state of the group with another program.",
    ),
    DeclaredMessage(
        id="group-coordinator-unavailable",
        area=Area.GROUPS,
        meaning=(
            "The coordinator of a consumer group does not answer, because the group's partition of "
            "`__consumer_offsets` has no leader. The offsets of the group were neither read nor set."
        ),
        fix=(
            "Start the brokers that `aqueduct doctor cluster --groups NAME` lists, and run the command again."
        ),
    ),
    DeclaredMessage(
        id="groups-unlisted",
        area=Area.GROUPS,
        meaning=(
            "A partition of `__consumer_offsets` has no leader, or its leader cannot load its groups, so no "
            "broker lists the consumer groups in this partition. The backup does not contain these groups, "
            "the mirror engine does not synchronise them, and their lag is unknown."
        ),
        fix=(
            "Start the brokers that `aqueduct doctor cluster` lists, and run the command again. If all "
            "brokers run, read in the log of the leader why it could not load the partition. The client "
            "needs `Describe` on `__consumer_offsets`."
        ),
    ),
    DeclaredMessage(
        id="partition-unavailable",
        area=Area.GROUPS,
        meaning=(
            "The leader of a partition does not answer, so the offsets of consumer groups for this "
            "partition were not set."
        ),
        fix="Start the brokers of the partition, and run the command again.",
    ),
    DeclaredMessage(
        id="share-group-state-unreadable",
        area=Area.GROUPS,
        meaning=(
            "The acknowledgements of share groups cannot be read, so only the start offsets of share "
            "groups are backed up."
        ),
        fix=(
            "Grant the client `Read` on `__share_group_state`. After a restore without acknowledgements, "
            "consumers receive some acknowledged records again."
        ),
    ),
    DeclaredMessage(
        id="share-groups-unsupported",
        area=Area.GROUPS,
        meaning=(
            "The target cluster does not support share groups, so the offsets of share groups were not set."
        ),
        fix="Upgrade Kafka to 4.2 or later, and enable the feature `share.version`.",
    ),
    DeclaredMessage(
        id="group-stopped",
        area=Area.GROUPS,
        meaning="A group without members has unread records, and its committed offset does not advance.",
        fix=(
            "Start the consumers of the group, or skip the group with `--exclude`. If no application needs "
            "the group, you can delete the group, which deletes its committed offsets."
        ),
    ),
    DeclaredMessage(
        id="group-stuck",
        area=Area.GROUPS,
        meaning="A group with members has unread records, and its committed offset does not advance.",
        fix=(
            "Read the logs of the consumers. `aqueduct transactions find-hanging` lists transactions that "
            "block consumers. Use a `--window` that is longer than the time between two commits of the "
            "group."
        ),
    ),
    DeclaredMessage(
        id="group-falling-behind",
        area=Area.GROUPS,
        meaning="Producers write the topics of a group faster than the group reads them.",
        fix="Add consumers, up to the number of partitions, or increase the throughput of each consumer.",
    ),
    DeclaredMessage(
        id="group-lag-unknown",
        area=Area.GROUPS,
        meaning="The lag of a group in a partition cannot be measured.",
        fix="Correct the cause in the message. The client needs `Describe` on groups and `Read` on topics.",
    ),
    DeclaredMessage(
        id="group-records-expired",
        area=Area.GROUPS,
        meaning="Retention deleted records that a group had not read.",
        fix="Raise `retention.ms` or `retention.bytes` of the topic until the group has caught up.",
    ),
)
