"""Messages about a Kafka cluster and its client."""

from aqueduct.messages.message import Area, DeclaredMessage

CLUSTER = (
    DeclaredMessage(
        id="cluster-unreachable",
        area=Area.CLUSTER,
        meaning="No broker answered at the bootstrap servers.",
        fix=(
            "Check the addresses, that the brokers run, and that the TLS settings of the client match the "
            "listener."
        ),
    ),
    DeclaredMessage(
        id="broker-address-unreachable",
        area=Area.CLUSTER,
        meaning="A broker cannot be reached at the address that it advertises to clients.",
        fix=("Make the host resolve and reach the address, or correct `advertised.listeners` of the broker."),
    ),
    DeclaredMessage(
        id="cluster-request-failed",
        area=Area.CLUSTER,
        meaning="The cluster rejected a request, or did not answer it.",
        fix="Check the error in the message, the rights of the client and the state of the brokers.",
    ),
    DeclaredMessage(
        id="cluster-topics-hidden",
        area=Area.CLUSTER,
        meaning=(
            "The cluster shows the client no topic, and the client may not describe all topics. The state of "
            "partitions is unknown."
        ),
        fix="Grant the client's principal the ACL `Describe` on all topics, or use another client.",
    ),
    DeclaredMessage(
        id="compacted-topic-too-large",
        area=Area.CLUSTER,
        meaning="A topic of a service's state has more keys and values than the service writes.",
        fix="Find out which client writes to the topic, and revoke its rights.",
    ),
    DeclaredMessage(
        id="cluster-not-responding",
        area=Area.CLUSTER,
        meaning="The cluster stopped answering, or answered with errors that did not pass.",
        fix="Check the brokers that the message identifies, and run the command again.",
    ),
    DeclaredMessage(
        id="cluster-not-ready",
        area=Area.CLUSTER,
        meaning=(
            "The cluster did not reach the expected state in time: brokers are missing, or partitions are "
            "offline or under-replicated."
        ),
        fix="Start the brokers that the message identifies, read their journals, and run the command again.",
    ),
    DeclaredMessage(
        id="cluster-mismatch",
        area=Area.CLUSTER,
        meaning=(
            "A data folder, a snapshot or an ensemble belongs to another Kafka cluster than the rest of the "
            "command. Nothing was changed."
        ),
        fix="Pass the folders, the store or the ensemble of one cluster.",
    ),
    DeclaredMessage(
        id="topic-ids-unsupported",
        area=Area.CLUSTER,
        meaning="The brokers have no topic IDs, which Kafka has since 2.8.",
        fix="Upgrade the brokers.",
    ),
    DeclaredMessage(
        id="client-config-unreadable",
        area=Area.CLUSTER,
        meaning="The file of client properties, or a file that it lists, cannot be read.",
        fix="Check the path, and run the command as a user who can read the file.",
    ),
    DeclaredMessage(
        id="client-config-invalid",
        area=Area.CLUSTER,
        meaning="A client property has a value that cannot be used.",
        fix="Correct the property that the message identifies.",
    ),
    DeclaredMessage(
        id="client-property-ignored",
        area=Area.CLUSTER,
        meaning="No client of Aqueduct uses a property of the file; the command continues without it.",
        fix="Check the spelling of the property, or remove it from the file.",
    ),
    DeclaredMessage(
        id="client-key-mismatch",
        area=Area.CLUSTER,
        meaning=("The private key of the client does not match its certificate, or its password is wrong."),
        fix="Pass a key and a certificate that belong together, and check `ssl.key.password`.",
    ),
    DeclaredMessage(
        id="batch-damaged",
        area=Area.CLUSTER,
        meaning="A record batch is damaged, or has a format that Aqueduct cannot read.",
        fix=(
            "If the batch is in a store, run `aqueduct verify --store URL`. If it is in a cluster, "
            "restore the partition from another replica."
        ),
    ),
    DeclaredMessage(
        id="producer-fenced",
        area=Area.CLUSTER,
        meaning="Another process uses the same transactional ID, or a transaction took too long.",
        fix="Wait until the other process is complete. Then run the command again.",
    ),
    DeclaredMessage(
        id="transaction-failed",
        area=Area.CLUSTER,
        meaning="The cluster did not complete a transaction in time.",
        fix=(
            "Check that the brokers run, and run the command again: it continues after the last complete "
            "transaction."
        ),
    ),
    DeclaredMessage(
        id="group-has-members",
        area=Area.CLUSTER,
        meaning="The consumer group has active members, so Kafka rejects new offsets.",
        fix="Stop the consumers of the group, and run the command again.",
    ),
    DeclaredMessage(
        id="topic-recreated",
        area=Area.CLUSTER,
        meaning=("The topic was deleted and re-created, so offsets of the old topic refer to other records."),
        fix=(
            "Run the command again for the new topic. For a restore: restore the topic together with its "
            "groups, or set the offsets of the groups by hand."
        ),
    ),
    DeclaredMessage(
        id="decompression-limit-exceeded",
        area=Area.CLUSTER,
        meaning="A record batch decompresses to more than the limit, so Aqueduct does not open it.",
        fix=(
            "For a restore, pass neither `--from-time` nor `--to-time`: most batches are then written "
            "without being opened. A landing skips the batch. To land its records, write them to the topic "
            "again in smaller batches."
        ),
    ),
    DeclaredMessage(
        id="record-too-large",
        area=Area.CLUSTER,
        meaning="A record makes a batch that is larger than the topic allows.",
        fix="Increase `max.message.bytes` of the topic, and run the command again.",
    ),
    DeclaredMessage(
        id="acl-rejected",
        area=Area.CLUSTER,
        meaning="The controller rejected ACLs.",
        fix="Check the rights of the client: it needs `Alter` on the cluster.",
    ),
    DeclaredMessage(
        id="acl-not-visible",
        area=Area.CLUSTER,
        meaning="The brokers do not show new ACLs that the controller accepted.",
        fix="Check that all brokers run, and run the command again.",
    ),
    DeclaredMessage(
        id="quota-rejected",
        area=Area.CLUSTER,
        meaning="The controller rejected quotas.",
        fix="Check the rights of the client: it needs `AlterConfigs` on the cluster.",
    ),
    DeclaredMessage(
        id="acl-declaration-invalid",
        area=Area.CLUSTER,
        meaning="Declared ACLs have a field or a value that Kafka does not know.",
        fix="Correct all entries that the message lists.",
    ),
    DeclaredMessage(
        id="topic-declaration-invalid",
        area=Area.CLUSTER,
        meaning="Declared topics have a name, a number or a setting that Kafka does not accept.",
        fix="Correct all entries that the message lists.",
    ),
    DeclaredMessage(
        id="topic-partitions-exceed-declaration",
        area=Area.CLUSTER,
        meaning=(
            "Topics have more partitions than declared. Kafka cannot remove partitions, so nothing was "
            "changed."
        ),
        fix="Declare the number of partitions that the topics have.",
    ),
    DeclaredMessage(
        id="feature-rejected",
        area=Area.CLUSTER,
        meaning="The controller rejected a higher feature level.",
        fix=(
            "Check that all brokers run a version that has the level, and that the client has `Alter` on "
            "the cluster."
        ),
    ),
    DeclaredMessage(
        id="feature-not-visible",
        area=Area.CLUSTER,
        meaning="The brokers do not show a feature level that the controller accepted.",
        fix="Check that all brokers run, and run the command again.",
    ),
    DeclaredMessage(
        id="listener-config-invalid",
        area=Area.CLUSTER,
        meaning="The listeners of a broker cannot be read from its `server.properties`.",
        fix="Correct `listeners` or `listener.security.protocol.map` of the broker.",
    ),
    DeclaredMessage(
        id="topic-rejected",
        area=Area.CLUSTER,
        meaning="The controller rejected a topic, its name or its settings.",
        fix=(
            "Correct the setting that the message identifies. To restore without the settings of the "
            "backup, pass `--no-settings`."
        ),
    ),
    DeclaredMessage(
        id="topic-not-ready",
        area=Area.CLUSTER,
        meaning=(
            "A new topic has no leader, or does not have the expected partitions; or the brokers do not tell "
            "which partitions a topic has."
        ),
        fix="Check that all brokers run, and run the command again.",
    ),
    DeclaredMessage(
        id="features-plan-changed",
        area=Area.CLUSTER,
        meaning="A confirmed run would raise features to other levels than the plan that was read.",
        fix=(
            "Run `playbooks/upgrade_features.yml` without `-e confirm`, read the new plan, and confirm that "
            "one."
        ),
    ),
    DeclaredMessage(
        id="features-plan-unreadable",
        area=Area.CLUSTER,
        meaning=(
            "The plan file of the first run cannot be read, so the confirmed run cannot check that its "
            "plan is the same."
        ),
        fix="Run the playbook without `-e confirm`, read the new plan, and confirm it.",
    ),
    DeclaredMessage(
        id="cluster-describe-denied",
        area=Area.CLUSTER,
        meaning="The client may not describe ACLs or quotas, so the snapshot contains none.",
        fix="Grant the client `Describe` and `DescribeConfigs` on the cluster.",
    ),
    DeclaredMessage(
        id="broker-properties-invalid",
        area=Area.CLUSTER,
        meaning="The file of `--properties` is not `server.properties` of a broker of the expected kind.",
        fix="Pass the file that the broker was started with.",
    ),
    DeclaredMessage(
        id="broker-version-unsupported",
        area=Area.CLUSTER,
        meaning="The brokers are too old for a function of Kafka that the command needs.",
        fix="Update the brokers to the version in the message.",
    ),
    DeclaredMessage(
        id="partitions-without-replicas",
        area=Area.CLUSTER,
        meaning=(
            "All replicas of partitions are on brokers that do not run or do not exist. Clients wait "
            "without an error."
        ),
        fix="Start a host with the broker id and the data folders that it had.",
    ),
    DeclaredMessage(
        id="partitions-awaiting-replicas",
        area=Area.CLUSTER,
        meaning="Partitions have no leader, because their in-sync replicas are on brokers that do not run.",
        fix=(
            "Start the brokers in the message. An unclean leader election loses the records that only they "
            "have."
        ),
    ),
    DeclaredMessage(
        id="partitions-without-leader",
        area=Area.CLUSTER,
        meaning=(
            "Partitions have no leader, although brokers with replicas run. The cluster accepts none of "
            "them as in sync."
        ),
        fix="Start the other brokers first. Then repair the partitions, as the message describes.",
    ),
    DeclaredMessage(
        id="coordinator-without-leader",
        area=Area.CLUSTER,
        meaning=(
            "A partition of `__consumer_offsets` or `__transaction_state` has no leader. Its groups or "
            "producers wait without an error."
        ),
        fix="Repair the partition, as the other findings describe.",
    ),
    DeclaredMessage(
        id="group-positions-dated",
        area=Area.CLUSTER,
        meaning="Since when groups have waited, by the newest position in a data folder.",
        fix="Repair the partitions of `__consumer_offsets`.",
    ),
    DeclaredMessage(
        id="partitions-short-of-replicas",
        area=Area.CLUSTER,
        meaning="Replicas are assigned to brokers that do not exist, so partitions keep too few replicas.",
        fix="Give the host its old broker id again, or reassign the partitions.",
    ),
    DeclaredMessage(
        id="broker-id-unused",
        area=Area.CLUSTER,
        meaning="A broker id is registered, but no broker with it runs and no partition is assigned to it.",
        fix="If no host has that id any more, unregister it with `kafka-cluster.sh`.",
    ),
    DeclaredMessage(
        id="data-folder-cluster-differs",
        area=Area.CLUSTER,
        meaning="A data folder is of another cluster than the one that was inspected.",
        fix="Correct `--data-folder` or `--bootstrap-server`.",
    ),
    DeclaredMessage(
        id="data-folder-broker-stopped",
        area=Area.CLUSTER,
        meaning="A data folder has logs of a broker that does not run.",
        fix="Start the broker with this id and this folder.",
    ),
    DeclaredMessage(
        id="data-folder-broker-unregistered",
        area=Area.CLUSTER,
        meaning="A data folder is of a broker that is not registered in the cluster.",
        fix="Start the broker. If its id was changed, run `aqueduct repair plan`.",
    ),
    DeclaredMessage(
        id="data-folder-logs-unassigned",
        area=Area.CLUSTER,
        meaning="A data folder has logs that the cluster does not assign to its broker.",
        fix="Keep the logs until you know which broker they are of. `aqueduct repair plan` shows it.",
    ),
    DeclaredMessage(
        id="data-folder-logs-quarantined",
        area=Area.CLUSTER,
        meaning="A data folder has logs that a broker has set aside.",
        fix="Keep them until you know the reason.",
    ),
    DeclaredMessage(
        id="data-folder-logs-missing",
        area=Area.CLUSTER,
        meaning="The cluster assigns partitions to a broker, and no folder in the command has their logs.",
        fix=(
            "Pass all data folders of the broker. If a disk was lost, let the replicas be restored from "
            "other brokers."
        ),
    ),
    DeclaredMessage(
        id="broker-unexpected",
        area=Area.CLUSTER,
        meaning="A broker runs, or has replicas, that the inventory does not have.",
        fix="Reassign its partitions and unregister it, or add its host to the inventory.",
    ),
    DeclaredMessage(
        id="client-protocol-mismatch",
        area=Area.CLUSTER,
        meaning=(
            "Clients connect to a listener again and again with another protocol, according to the "
            "broker's log."
        ),
        fix="Give the clients the security protocol of the listener.",
    ),
    DeclaredMessage(
        id="broker-cannot-start",
        area=Area.CLUSTER,
        meaning="A broker with ZooKeeper may not start with these data folders and this ensemble.",
        fix="Follow the message: set the former id, or give the host its own folder.",
    ),
)
