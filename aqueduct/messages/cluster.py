"""Messages about a Kafka cluster and its client."""

from aqueduct.messages.message import Area, DeclaredMessage

CLUSTER = (
    DeclaredMessage(
        id="cluster-unreachable",
        area=Area.CLUSTER,
        meaning="No broker answered at the bootstrap servers.",
        fix=(
            "Check the addresses. Check that the brokers run, and that the TLS settings of the client match "
            "the listener."
        ),
    ),
    DeclaredMessage(
        id="broker-address-unreachable",
        area=Area.CLUSTER,
        meaning="A broker cannot be reached at the address that it advertises to clients.",
        fix=(
            "Make sure that the host can resolve and reach the address, or correct "
            "`advertised.listeners` of the broker."
        ),
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
            "The client can see no topic of the cluster, because it may not describe all topics. The state "
            "of partitions is unknown."
        ),
        fix="Grant the client's principal the ACL `Describe` on all topics, or use another client.",
    ),
    DeclaredMessage(
        id="compacted-topic-too-large",
        area=Area.CLUSTER,
        meaning=(
            "A topic that stores the state of a service contains more keys and values than the service "
            "writes."
        ),
        fix="Find out which other client writes to the topic, and revoke its rights.",
    ),
    DeclaredMessage(
        id="cluster-not-responding",
        area=Area.CLUSTER,
        meaning="The cluster stopped answering, or answered each retry with an error.",
        fix="Check the brokers in the message, and run the command again.",
    ),
    DeclaredMessage(
        id="cluster-not-ready",
        area=Area.CLUSTER,
        meaning=(
            "The cluster did not reach the expected state within the time limit: brokers are missing, or "
            "partitions are offline or under-replicated."
        ),
        fix="Start the brokers in the message, read their journals, and run the command again.",
    ),
    DeclaredMessage(
        id="cluster-mismatch",
        area=Area.CLUSTER,
        meaning=(
            "A data folder, a snapshot or an ensemble belongs to another Kafka cluster than the other items "
            "of the command. Nothing was changed."
        ),
        fix="Pass folders, a store or an ensemble of the same cluster.",
    ),
    DeclaredMessage(
        id="topic-ids-unsupported",
        area=Area.CLUSTER,
        meaning="The brokers do not support topic IDs. Kafka supports topic IDs since version 2.8.",
        fix="Upgrade the brokers to Kafka 2.8 or later.",
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
        meaning="Aqueduct does not use a property of the file. The command continues without this property.",
        fix="Check the spelling of the property, or remove it from the file.",
    ),
    DeclaredMessage(
        id="client-key-mismatch",
        area=Area.CLUSTER,
        meaning=("The private key of the client does not match its certificate, or its password is wrong."),
        fix="Pass a key that matches its certificate, and check `ssl.key.password`.",
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
        meaning="Another process uses the same transactional ID, or a transaction exceeded its timeout.",
        fix="Wait until the other process has ended. Then run the command again.",
    ),
    DeclaredMessage(
        id="transaction-failed",
        area=Area.CLUSTER,
        meaning="The cluster did not complete a transaction within the time limit.",
        fix=(
            "Check that the brokers run. Then run the command again. The command continues after the last "
            "complete transaction."
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
        meaning=(
            "The topic was deleted and re-created. Offsets of the deleted topic refer to other records "
            "in the new topic."
        ),
        fix=(
            "Run the command again for the new topic. For a restore, restore the topic together with its "
            "groups, or set the offsets of the groups manually."
        ),
    ),
    DeclaredMessage(
        id="decompression-limit-exceeded",
        area=Area.CLUSTER,
        meaning=(
            "A record batch is larger than the limit after decompression, so Aqueduct does not decompress it."
        ),
        fix=(
            "For a restore, pass neither `--from-time` nor `--to-time`: Aqueduct then writes most batches "
            "without decompression. A landing skips the batch. To land the records of the batch, write them "
            "to the topic again in smaller batches."
        ),
    ),
    DeclaredMessage(
        id="record-too-large",
        area=Area.CLUSTER,
        meaning="A record needs a batch that is larger than the topic allows.",
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
        meaning="The controller accepted new ACLs, but the brokers do not list them.",
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
        meaning="Declared ACLs have a field or a value that Kafka does not have.",
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
        meaning="The controller accepted a feature level, but the brokers do not report it.",
        fix="Check that all brokers run, and run the command again.",
    ),
    DeclaredMessage(
        id="listener-config-invalid",
        area=Area.CLUSTER,
        meaning="Aqueduct cannot read the listeners of a broker from its `server.properties`.",
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
            "A new topic has partitions without a leader or lacks partitions, the leaders of a topic do not "
            "use its new settings, or the brokers do not return the list of partitions of a topic."
        ),
        fix="Check that all brokers run, and run the command again.",
    ),
    DeclaredMessage(
        id="features-plan-changed",
        area=Area.CLUSTER,
        meaning="A confirmed run would raise features to other levels than the plan of the first run.",
        fix=(
            "Run `playbooks/upgrade_features.yml` without `-e confirm`. Read the new plan, and confirm the "
            "new plan."
        ),
    ),
    DeclaredMessage(
        id="features-plan-unreadable",
        area=Area.CLUSTER,
        meaning=(
            "The plan file of the first run cannot be read, so the confirmed run cannot compare its plan "
            "with the first one."
        ),
        fix="Run the playbook without `-e confirm`. Read the new plan, and confirm the new plan.",
    ),
    DeclaredMessage(
        id="cluster-describe-denied",
        area=Area.CLUSTER,
        meaning="The client may not describe ACLs or quotas, so the snapshot contains no ACLs or no quotas.",
        fix="Grant the client `Describe` and `DescribeConfigs` on the cluster.",
    ),
    DeclaredMessage(
        id="broker-properties-invalid",
        area=Area.CLUSTER,
        meaning=(
            "The file of `--properties` is not the `server.properties` file of a broker of the expected kind."
        ),
        fix="Pass the file with which the broker was started.",
    ),
    DeclaredMessage(
        id="broker-version-unsupported",
        area=Area.CLUSTER,
        meaning="The version of the brokers lacks a function of Kafka that the command needs.",
        fix="Upgrade the brokers to the version in the message.",
    ),
    DeclaredMessage(
        id="partitions-without-replicas",
        area=Area.CLUSTER,
        meaning=(
            "All replicas of some partitions are on brokers that do not run or do not exist. Clients of "
            "these partitions wait and receive no error."
        ),
        fix="Start a broker with the former broker id and the former data folders.",
    ),
    DeclaredMessage(
        id="partitions-awaiting-replicas",
        area=Area.CLUSTER,
        meaning=(
            "Some partitions have no leader, because their in-sync replicas are on brokers that do not run."
        ),
        fix=(
            "Start the brokers in the message. An unclean leader election would lose the records that exist "
            "only on these brokers."
        ),
    ),
    DeclaredMessage(
        id="partitions-without-leader",
        area=Area.CLUSTER,
        meaning=(
            "Some partitions have no leader, although brokers with replicas run. No running replica is in "
            "the set of in-sync replicas."
        ),
        fix="Start the stopped brokers first. Then repair the partitions as the message describes.",
    ),
    DeclaredMessage(
        id="coordinator-without-leader",
        area=Area.CLUSTER,
        meaning=(
            "A partition of `__consumer_offsets` or `__transaction_state` has no leader. Its consumer "
            "groups or transactional producers wait and receive no error."
        ),
        fix="Repair the partition as the other findings describe.",
    ),
    DeclaredMessage(
        id="group-positions-dated",
        area=Area.CLUSTER,
        meaning=(
            "A data folder shows when consumer groups last committed an offset in partitions of "
            "`__consumer_offsets` without a leader. The groups have waited since about that time."
        ),
        fix="Repair the partitions of `__consumer_offsets`.",
    ),
    DeclaredMessage(
        id="partitions-short-of-replicas",
        area=Area.CLUSTER,
        meaning=(
            "Some replicas are assigned to brokers that do not exist, so their partitions stay "
            "under-replicated."
        ),
        fix="Set the former broker id on the host, or reassign the partitions.",
    ),
    DeclaredMessage(
        id="broker-id-unused",
        area=Area.CLUSTER,
        meaning=(
            "A broker id is registered, but no broker with this id runs, and no partition is assigned to it."
        ),
        fix="If no host has this id any more, unregister the id with `kafka-cluster.sh unregister`.",
    ),
    DeclaredMessage(
        id="data-folder-cluster-differs",
        area=Area.CLUSTER,
        meaning="A data folder belongs to another cluster than the inspected cluster.",
        fix="Correct `--data-folder` or `--bootstrap-server`.",
    ),
    DeclaredMessage(
        id="data-folder-broker-stopped",
        area=Area.CLUSTER,
        meaning="A data folder contains logs of a broker that does not run.",
        fix="Start the broker with this id and this folder.",
    ),
    DeclaredMessage(
        id="data-folder-broker-unregistered",
        area=Area.CLUSTER,
        meaning="A data folder belongs to a broker that is not registered in the cluster.",
        fix="Start the broker. If its id was changed, run `aqueduct repair plan`.",
    ),
    DeclaredMessage(
        id="data-folder-logs-unassigned",
        area=Area.CLUSTER,
        meaning="A data folder contains logs of partitions that the cluster does not assign to its broker.",
        fix=(
            "Keep the logs until you know to which broker they belong. `aqueduct repair plan` shows the "
            "broker."
        ),
    ),
    DeclaredMessage(
        id="data-folder-logs-quarantined",
        area=Area.CLUSTER,
        meaning=(
            "A data folder contains stray logs: a broker renamed them, because the cluster does not "
            "assign their partitions to it."
        ),
        fix="Keep the stray logs until you know why they are not assigned.",
    ),
    DeclaredMessage(
        id="data-folder-logs-missing",
        area=Area.CLUSTER,
        meaning=(
            "The cluster assigns partitions to a broker, but the passed data folders do not contain the "
            "logs of these partitions."
        ),
        fix=(
            "Pass all data folders of the broker. If a disk was lost, let the broker fetch the replicas "
            "from other brokers."
        ),
    ),
    DeclaredMessage(
        id="broker-unexpected",
        area=Area.CLUSTER,
        meaning="A broker that is not in the inventory runs or has replicas.",
        fix=(
            "Reassign the partitions of the broker and unregister the broker, or add its host to the "
            "inventory."
        ),
    ),
    DeclaredMessage(
        id="client-protocol-mismatch",
        area=Area.CLUSTER,
        meaning=(
            "The broker's log shows that clients repeatedly connect to a listener with the wrong security "
            "protocol."
        ),
        fix="In the clients, set the security protocol of the listener.",
    ),
    DeclaredMessage(
        id="broker-cannot-start",
        area=Area.CLUSTER,
        meaning="A broker with ZooKeeper must not start with these data folders and this ensemble.",
        fix="Set the former id, or mount the host's own data folder, as the message describes.",
    ),
)
