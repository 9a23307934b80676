"""Messages of a restore."""

from aqueduct.messages.message import Area, DeclaredMessage

RESTORE = (
    DeclaredMessage(
        id="target-not-empty",
        area=Area.RESTORE,
        meaning="A target topic contains records, but a restore writes only to empty topics.",
        fix=(
            "Restore under another name (`--topics orders:orders-restored`). With `--append`, the restore "
            "adds the records to the topic. Before that, wait until mirrors have caught up, and pass "
            "`--mirror`, because otherwise they copy restored records twice. Deleting the topic destroys "
            "its records. To resume an interrupted restore, run the command of that restore again."
        ),
    ),
    DeclaredMessage(
        id="target-changed",
        area=Area.RESTORE,
        meaning=(
            "The restored topics do not contain exactly the restored records. A topic was deleted or "
            "re-created, or another program wrote or deleted records."
        ),
        fix=(
            "Stop the program that changed the topics. Then restore under another name (`--topics "
            "orders:orders-restored`). Deleting the topics instead also destroys the records that the other "
            "program wrote."
        ),
    ),
    DeclaredMessage(
        id="partition-count-mismatch",
        area=Area.RESTORE,
        meaning="The number of partitions of a target topic differs from the backup.",
        fix=(
            "Restore under another name (`--topics orders:orders-restored`). Or delete the target topic, "
            "which destroys its records, and run the command again."
        ),
    ),
    DeclaredMessage(
        id="restore-in-progress",
        area=Area.RESTORE,
        meaning="Another restore writes to the topic, or another restore of the topic was interrupted.",
        fix=(
            "Complete the other restore with its own command, or restore under another name (`--topics "
            "orders:orders-restored`). Deleting the topics destroys the records that the other restore "
            "wrote."
        ),
    ),
    DeclaredMessage(
        id="restore-id-taken",
        area=Area.RESTORE,
        meaning=(
            "The restore ID belongs to a restore with another snapshot, or with other topics, times or "
            "instances."
        ),
        fix="Repeat the command of that restore, or pass another `--restore-id`.",
    ),
    DeclaredMessage(
        id="restore-id-invalid",
        area=Area.RESTORE,
        meaning=(
            "The restore ID is too long, or contains characters that are not allowed in the name of a "
            "consumer group."
        ),
        fix="Use at most 100 characters of a-z, A-Z, 0-9, `_` and `-`.",
    ),
    DeclaredMessage(
        id="restore-version-mismatch",
        area=Area.RESTORE,
        meaning=(
            "Another version of Aqueduct began the restore, so the progress of the restore cannot be read."
        ),
        fix=(
            "Complete the restore with that version, or restore under another name (`--topics "
            "orders:orders-restored`). Deleting the topics instead destroys their records."
        ),
    ),
    DeclaredMessage(
        id="task-principal-mismatch",
        area=Area.RESTORE,
        meaning=(
            "The restore granted ACLs to its tasks, but the client of `--task-command-config` cannot "
            "describe the restored topics."
        ),
        fix=(
            "With `--task-principal`, pass the principal that brokers derive from the certificate or login "
            "of `--task-command-config`. Check that no ACL denies access to this principal."
        ),
    ),
    DeclaredMessage(
        id="task-rights-left",
        area=Area.RESTORE,
        meaning=(
            "The restore could not remove the ACLs that it granted to its tasks. The principal of the tasks "
            "can still read and write the restored topics."
        ),
        fix=(
            "Remove the ACLs of `--task-principal` with `kafka-acls.sh`, or run `playbooks/kafka.yml`, "
            "which also removes them."
        ),
    ),
    DeclaredMessage(
        id="restore-key-sent",
        area=Area.RESTORE,
        meaning=(
            "The restore runs on a Spark cluster and sends a client key to each worker. The principal of "
            "this key has more rights than the tasks need, or keeps its rights after the restore. An "
            "attacker who controls a worker can use the key."
        ),
        fix=(
            "Pass a key that no other client uses with `--task-command-config`, and its principal with "
            "`--task-principal`. The restore then grants this principal only the ACLs that the tasks need, "
            "and removes these ACLs at the end. Replace a key that was already sent."
        ),
    ),
    DeclaredMessage(
        id="restore-state-too-large",
        area=Area.RESTORE,
        meaning=(
            "The restore stores metadata with committed offsets, and these metadata are larger than "
            "Kafka accepts."
        ),
        fix="Check `offset.metadata.max.bytes` of the brokers, or pass a shorter `--groups-pattern`.",
    ),
    DeclaredMessage(
        id="restore-progress-expired",
        area=Area.RESTORE,
        meaning=(
            "The target cluster has deleted the progress of the restore because of "
            "`offsets.retention.minutes`, so offsets cannot be translated."
        ),
        fix=(
            "Restore under another name (`--topics orders:orders-restored`). The restore translates group "
            "offsets to the new topic. Deleting the topic instead also destroys the records that clients "
            "wrote after the restore."
        ),
    ),
    DeclaredMessage(
        id="restore-records-expired",
        area=Area.RESTORE,
        meaning="A lifecycle rule of the store deleted records after the restore began.",
        fix=(
            "Restore under another name (`--topics orders:orders-restored`). The report lists the deleted "
            "records. Deleting the topic instead destroys restored records that the store no longer "
            "contains."
        ),
    ),
    DeclaredMessage(
        id="restored-records-compacted",
        area=Area.RESTORE,
        meaning=(
            "Kafka may have compacted the restored records after the restore, so offsets cannot be "
            "translated."
        ),
        fix=(
            "Restore under another name (`--topics orders:orders-restored`). The restore translates group "
            "offsets to the new topic. Deleting the topic instead also destroys the records that clients "
            "wrote after the restore."
        ),
    ),
    DeclaredMessage(
        id="restored-records-missing",
        area=Area.RESTORE,
        meaning="Restored records are missing from the target, so offsets cannot be translated.",
        fix=(
            "Stop the program that deleted the records. Then restore under another name (`--topics "
            "orders:orders-restored`). Deleting the topic instead also destroys the records that clients "
            "wrote after the restore."
        ),
    ),
    DeclaredMessage(
        id="transaction-open",
        area=Area.RESTORE,
        meaning=(
            "A transaction of another producer is open in a restored partition, so offsets cannot be "
            "translated."
        ),
        fix="Complete or abort the transaction, and run the command again.",
    ),
    DeclaredMessage(
        id="resumed-snapshot-missing",
        area=Area.RESTORE,
        meaning="An interrupted restore used a snapshot that is no longer in the store.",
        fix=(
            "Restore another snapshot under other names (`--topics orders:orders-restored`), and compare "
            "the topics. Deleting the topics of the interrupted restore destroys their records, and these "
            "records are no longer in the store."
        ),
    ),
    DeclaredMessage(
        id="snapshot-without-topics",
        area=Area.RESTORE,
        meaning=(
            "The snapshot contains consumer groups but no topics, so the offsets of the groups refer to "
            "no records."
        ),
        fix="Also back up the topics of the groups.",
    ),
    DeclaredMessage(
        id="snapshot-topic-unknown",
        area=Area.RESTORE,
        meaning="The snapshot does not contain a topic that `--topics` lists.",
        fix="Run `aqueduct snapshots --store URL` to list the topics of each snapshot.",
    ),
    DeclaredMessage(
        id="snapshot-offsets-missing",
        area=Area.RESTORE,
        meaning=(
            "`restore --groups-only` found no offsets to set. The snapshot contains no offset of the "
            "selected groups, or contains no offset of these groups in a topic of `--topics`."
        ),
        fix=(
            "Check `--topics` and `--groups-pattern`. With `--snapshot`, select a snapshot that contains "
            "the offsets. If the groups never had an offset in the topic, remove the topic from `--topics`."
        ),
    ),
    DeclaredMessage(
        id="snapshot-instance-unknown",
        area=Area.RESTORE,
        meaning="The snapshot does not contain the instance of a topic that `--instance` selects.",
        fix="Run `aqueduct snapshots --store URL` to list the instances of each topic.",
    ),
    DeclaredMessage(
        id="instance-invalid",
        area=Area.RESTORE,
        meaning="The value of `--instance` is not valid.",
        fix="Pass `activate`, `passivate` or `g` and a number, such as `g2`.",
    ),
    DeclaredMessage(
        id="topic-reserved",
        area=Area.RESTORE,
        meaning=(
            "The topic is an internal topic of Kafka, and its records are not valid in another cluster."
        ),
        fix="Remove the topic from `--topics`.",
    ),
    DeclaredMessage(
        id="group-has-offsets",
        area=Area.RESTORE,
        meaning=(
            "The consumer group already has committed offsets in the restored topics. The restore did "
            "not change these offsets."
        ),
        fix=(
            "To keep the present offsets, no action is needed. To set the offsets of the backup, run "
            "`kafka-consumer-groups.sh --delete-offsets` for the group, which deletes its present offsets. "
            "Then run the command again."
        ),
    ),
    DeclaredMessage(
        id="group-offsets-rejected",
        area=Area.RESTORE,
        meaning="The cluster rejected the offsets of a consumer group.",
        fix=(
            "Check the error in the message, the rights of the client and the state of the group, and run "
            "the command again."
        ),
    ),
    DeclaredMessage(
        id="waiting-offset-unreadable",
        area=Area.RESTORE,
        meaning=(
            "The restore stored offsets in a waiting group, because the consumer group had members. A "
            "stored offset cannot be read, so no offset of the consumer group was set."
        ),
        fix=(
            "Run the command with the release of Aqueduct that began the restore. Or set the offsets of the "
            "group with `kafka-consumer-groups.sh --reset-offsets`. Then delete the waiting group in the "
            "message, which deletes the offsets that are stored in it."
        ),
    ),
    DeclaredMessage(
        id="topic-missing",
        area=Area.RESTORE,
        meaning="The topic does not exist in the cluster.",
        fix="Restore the topic, or remove it from `--topics`.",
    ),
    DeclaredMessage(
        id="link-position-unknown",
        area=Area.RESTORE,
        meaning=(
            "The position of a one-way link cannot be translated to the restored records, or the snapshot "
            "does not contain the position. The link stays stopped."
        ),
        fix=(
            "To send all restored records again, start the link on its sending host: `systemctl start "
            "diode_upstream@NAME`, with the name of the link."
        ),
    ),
    DeclaredMessage(
        id="link-topic-not-recreated",
        area=Area.RESTORE,
        meaning=(
            "The topic of a one-way link was not re-created before the restore, so the downstream end "
            "would treat restored records as new. The link stays stopped."
        ),
        fix="If that is intended, start the link on its sending host: `systemctl start diode_upstream@NAME`.",
    ),
    DeclaredMessage(
        id="link-records-repeated",
        area=Area.RESTORE,
        meaning="The one-way link sends records again that it had sent after the backup of its position.",
        fix="No action is needed if the downstream end discards duplicates.",
    ),
    DeclaredMessage(
        id="link-ahead",
        area=Area.RESTORE,
        meaning=(
            "The one-way link has sent records that were written after the snapshot. The restored site does "
            "not have these records."
        ),
        fix="To recover the records, copy the records at the offsets in the report from the downstream end.",
    ),
    DeclaredMessage(
        id="mirror-position-unknown",
        area=Area.RESTORE,
        meaning=(
            "The position of a mirror cannot be translated to the restored records. No position of the "
            "mirror was changed."
        ),
        fix="Correct the cause in the message, and run the command again before the mirror starts.",
    ),
    DeclaredMessage(
        id="mirror-batches-restored",
        area=Area.RESTORE,
        meaning=(
            "The restore includes a topic that a flow with the engine `batches` has mirrored. The flow "
            "would mirror all restored records again, so the records would arrive twice."
        ),
        fix=(
            "Remove the flow from the inventory, deploy the target site, and restore. Then declare the flow "
            "with another `name` and `naming: prefix`, so that the flow writes to new topics. The former "
            "topics of the flow stay at the target."
        ),
    ),
    DeclaredMessage(
        id="mirror-unknown",
        area=Area.RESTORE,
        meaning=(
            "The cluster of `--mirror` has no positions topic of a flow with this name, so no position was "
            "changed."
        ),
        fix="Check the name and the brokers in `--mirror`. Omit a mirror that never ran.",
    ),
    DeclaredMessage(
        id="principal-unknown",
        area=Area.RESTORE,
        meaning="The snapshot contains no ACL of a principal in `--acls-of`.",
        fix="Check the name of the principal. Write the name without `User:`.",
    ),
    DeclaredMessage(
        id="mirror-ahead",
        area=Area.RESTORE,
        meaning=(
            "The target of a mirror does not have exactly the restored records. The target has records that "
            "were written after the snapshot and that the restored site does not have, or restored records "
            "arrive at the target twice."
        ),
        fix=(
            "If the restored site lacks records, copy the records at the offsets in the report from the "
            "lake. If records arrived twice, configure consumers to skip the duplicates, and run `aqueduct "
            "mirror --accept-ranges`. Do not delete the topic at the target."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-unbound",
        area=Area.RESTORE,
        meaning=(
            "No topic ID is stored with the position of a mirror, because `aqueduct mirror` has not run "
            "after the mirror read the first records of the topic. The restore assumed that the position "
            "belongs to the topic in the backup."
        ),
        fix=(
            "If the topic was re-created between the backup and the restore, compare both ends with "
            "`aqueduct reconcile`. Run `aqueduct mirror` regularly: it stores the topic IDs."
        ),
    ),
    DeclaredMessage(
        id="records-expired",
        area=Area.RESTORE,
        meaning="A lifecycle rule of the store deleted records before the restore.",
        fix="If you need these records, restore them from another store.",
    ),
    DeclaredMessage(
        id="authorizer-missing",
        area=Area.RESTORE,
        meaning="The target cluster has no authorizer, so ACLs cannot be set.",
        fix=(
            "Configure `authorizer.class.name` on the brokers and run the command again, or remove `--acls`."
        ),
    ),
    DeclaredMessage(
        id="acl-not-allowed",
        area=Area.RESTORE,
        meaning="The backup contains ACLs that `--acls-within` does not allow.",
        fix="If the principal needs these ACLs, pass the principal with `--acls-of`.",
    ),
    DeclaredMessage(
        id="acl-denies",
        area=Area.RESTORE,
        meaning="ACLs of the backup that deny access were set. `--acls-within` does not limit such ACLs.",
        fix=(
            "Read the list in `rights.denied` of the report. If these clients need access, remove the ACLs "
            "with `kafka-acls.sh`."
        ),
    ),
    DeclaredMessage(
        id="acl-file-unreadable",
        area=Area.RESTORE,
        meaning="The file of `--acls-within` cannot be read.",
        fix="Check the path, and run the command as a user who can read the file.",
    ),
    DeclaredMessage(
        id="acl-file-invalid",
        area=Area.RESTORE,
        meaning="The file of `--acls-within` is not a JSON list of ACLs.",
        fix="Write each entry in the form of the Ansible module `kafka_acls`.",
    ),
    DeclaredMessage(
        id="replication-factor-reduced",
        area=Area.RESTORE,
        meaning=(
            "The replication factor in the backup is larger than the number of brokers of the target "
            "cluster, so topics were created with fewer replicas."
        ),
        fix="Add brokers, and increase the replication factor.",
    ),
    DeclaredMessage(
        id="min-insync-replicas-reduced",
        area=Area.RESTORE,
        meaning=("A topic has fewer replicas than in the backup, so its `min.insync.replicas` was reduced."),
        fix="Add brokers, increase the replication factor, and set `min.insync.replicas` again.",
    ),
    DeclaredMessage(
        id="retention-held",
        area=Area.RESTORE,
        meaning=(
            "Retention would delete restored records immediately, so retention stays disabled for the topic."
        ),
        fix=(
            "To keep the records, leave retention disabled. To let Kafka delete them, run the same "
            "command with `--release-retention`."
        ),
    ),
    DeclaredMessage(
        id="restores-overlap",
        area=Area.RESTORE,
        meaning=(
            "An earlier restore wrote some of the same records, so `--append` cannot continue after that "
            "restore."
        ),
        fix="Restore under another name, or repeat the options of the earlier restore.",
    ),
    DeclaredMessage(
        id="earlier-restore-unknown",
        area=Area.RESTORE,
        meaning=(
            "The target no longer stores the progress of the earlier restore, so `--append` cannot "
            "continue it."
        ),
        fix="Restore under another name.",
    ),
    DeclaredMessage(
        id="append-origin-unknown",
        area=Area.RESTORE,
        meaning=(
            "A partition has records of transactions that are not newer than the backup, and the target does "
            "not store which restore wrote them. Kafka deletes the progress of a restore after "
            "`offsets.retention.minutes`. `--append` may write records twice there, so it writes nothing to "
            "this partition."
        ),
        fix=(
            "Restore the topic under another name, and compare both. If the records are not those of the "
            "backup, pass a new `--restore-id`: `--append` then writes all records of the chosen topics."
        ),
    ),
    DeclaredMessage(
        id="restored-again",
        area=Area.RESTORE,
        meaning="With `--restore-id`, `--append` writes records again that an earlier restore wrote.",
        fix="Leave `--restore-id` out. `--append` then writes only the missing records.",
    ),
    DeclaredMessage(
        id="restore-superseded",
        area=Area.RESTORE,
        meaning="A restore of a newer snapshot wrote to the partition, so an offset of this one is unknown.",
        fix="Restore the offsets of the newer snapshot.",
    ),
    DeclaredMessage(
        id="setting-unsupported",
        area=Area.RESTORE,
        meaning="The target cluster refuses a setting of a topic, such as one that its version lacks.",
        fix="Set what replaces it in the version of the target. All other settings were restored.",
    ),
    DeclaredMessage(
        id="acl-unsupported",
        area=Area.RESTORE,
        meaning=(
            "The target cluster rejected an ACL, for example because its version does not support the "
            "resource type."
        ),
        fix="Grant an equivalent ACL that the version of the target supports. All other ACLs were restored.",
    ),
    DeclaredMessage(
        id="quota-unsupported",
        area=Area.RESTORE,
        meaning=(
            "The target cluster rejected a quota, for example because its version does not support the "
            "key of the quota."
        ),
        fix=(
            "Set an equivalent quota that the version of the target supports. All other quotas were restored."
        ),
    ),
    DeclaredMessage(
        id="mirror-has-unread-records",
        area=Area.RESTORE,
        meaning="With `--append`, a target topic has records that a mirror has not read yet.",
        fix=(
            "Start the mirror, stop the clients that write, and wait until `aqueduct mirror "
            "--until-caught-up` exits with 0. Then run the command again."
        ),
    ),
    DeclaredMessage(
        id="restore-run-failed",
        area=Area.RESTORE,
        meaning=(
            "The command that `playbooks/restore.yml` runs failed. The lines after the message show the "
            "error of the command."
        ),
        fix="Correct the cause, and run the same command again. The restore resumes.",
    ),
    DeclaredMessage(
        id="restore-note-unreadable",
        area=Area.RESTORE,
        meaning=(
            "`playbooks/restore.yml` cannot read the list of mirrors and links that an earlier run stopped "
            "and did not start again. This run stopped no service and wrote nothing."
        ),
        fix=(
            "Make the file in the message readable for root, and run the same command again. If the file is "
            "damaged, start the stopped mirrors and links manually. Then delete the file."
        ),
    ),
    DeclaredMessage(
        id="restore-run-incomplete",
        area=Area.RESTORE,
        meaning="`playbooks/restore.yml` restored the cluster except for the items in the message.",
        fix="Check each item. If the backup stays stopped, resume the backup as the message describes.",
    ),
    DeclaredMessage(
        id="restore-unit-failed",
        area=Area.RESTORE,
        meaning="A mirror or link that the restore had stopped was started again, but does not run.",
        fix="Read the journals of the units in the message.",
    ),
)
