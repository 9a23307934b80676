"""Messages of a restore."""

from aqueduct.messages.message import Area, DeclaredMessage

RESTORE = (
    DeclaredMessage(
        id="target-not-empty",
        area=Area.RESTORE,
        meaning="A topic of the target contains records, and a restore writes only to empty topics.",
        fix=(
            "Restore under another name (`--topics orders:orders-restored`). With `--append` the "
            "restore adds to the topic; let mirrors catch up first and pass `--mirror`, or they copy "
            "restored records twice. Deleting the topic destroys its records. To resume an interrupted "
            "restore, run its own command again."
        ),
    ),
    DeclaredMessage(
        id="target-changed",
        area=Area.RESTORE,
        meaning=(
            "The restored topics do not contain what was restored: a topic was deleted or re-created, or "
            "another program wrote or deleted records."
        ),
        fix=(
            "Stop the program that changed the topics. Then restore under another name (`--topics "
            "orders:orders-restored`). Deleting the topics instead destroys their records, also those "
            "that the program wrote."
        ),
    ),
    DeclaredMessage(
        id="partition-count-mismatch",
        area=Area.RESTORE,
        meaning="A topic of the target has another number of partitions than the topic in the backup.",
        fix=(
            "Restore under another name. Or delete the topic, which deletes its records, and run the "
            "command again."
        ),
    ),
    DeclaredMessage(
        id="restore-in-progress",
        area=Area.RESTORE,
        meaning="Another restore writes to the topic, or was interrupted before it was complete.",
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
            "The restore ID belongs to a restore of another snapshot, or of other topics, times or instances."
        ),
        fix="Repeat the command of that restore, or pass another `--restore-id`.",
    ),
    DeclaredMessage(
        id="restore-id-invalid",
        area=Area.RESTORE,
        meaning=(
            "The restore ID contains characters that a consumer group name for it cannot have, or is too "
            "long."
        ),
        fix="Use up to 100 of the characters a-z, A-Z, 0-9, `_` and `-`.",
    ),
    DeclaredMessage(
        id="restore-version-mismatch",
        area=Area.RESTORE,
        meaning="Another version of Aqueduct began the restore, and its progress cannot be read.",
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
            "With `--task-principal`, pass the principal that brokers derive from the certificate or "
            "login of `--task-command-config`. Check that no ACL denies it access."
        ),
    ),
    DeclaredMessage(
        id="task-rights-left",
        area=Area.RESTORE,
        meaning=(
            "The restore could not revoke the ACLs that it granted its tasks, so their principal can still "
            "read and write the restored topics."
        ),
        fix="Remove the ACLs of `--task-principal` with `kafka-acls.sh`. `playbooks/kafka.yml` does so, too.",
    ),
    DeclaredMessage(
        id="restore-key-sent",
        area=Area.RESTORE,
        meaning=(
            "The restore runs on a Spark cluster, and each worker gets a key that may do more than the tasks "
            "need, or for longer than the restore runs. An attacker with a worker can use it."
        ),
        fix=(
            "Pass a key that no other client uses with `--task-command-config`, and its principal with "
            "`--task-principal`. The restore then grants it what tasks need, and revokes that at the end. "
            "Replace a key that was sent."
        ),
    ),
    DeclaredMessage(
        id="restore-state-too-large",
        area=Area.RESTORE,
        meaning="The restore must store more metadata with a committed offset than Kafka accepts.",
        fix="Check the settings of the topic, or pass a shorter `--groups-pattern`.",
    ),
    DeclaredMessage(
        id="restore-progress-expired",
        area=Area.RESTORE,
        meaning=(
            "The target cluster has deleted the progress of the restore (`offsets.retention.minutes`), so "
            "offsets cannot be translated."
        ),
        fix=(
            "Restore under another name (`--topics orders:orders-restored`); group offsets follow the "
            "new name. Deleting the topic instead destroys its records, also those that clients wrote "
            "after the restore."
        ),
    ),
    DeclaredMessage(
        id="restore-records-expired",
        area=Area.RESTORE,
        meaning="A lifecycle rule of the store deleted records after the restore began.",
        fix=(
            "Restore under another name (`--topics orders:orders-restored`); the report lists the "
            "expired records. Deleting the topic instead destroys restored records that the store no "
            "longer has."
        ),
    ),
    DeclaredMessage(
        id="restored-records-compacted",
        area=Area.RESTORE,
        meaning=(
            "Kafka may have compacted the restored records since the restore was complete, so offsets "
            "cannot be translated."
        ),
        fix=(
            "Restore under another name (`--topics orders:orders-restored`); group offsets follow the "
            "new name. Deleting the topic instead destroys its records, also those that clients wrote "
            "after the restore."
        ),
    ),
    DeclaredMessage(
        id="restored-records-missing",
        area=Area.RESTORE,
        meaning="Restored records are missing from the target, so offsets cannot be translated.",
        fix=(
            "Stop the program that deleted the records. Then restore under another name (`--topics "
            "orders:orders-restored`). Deleting the topic instead destroys its records, also those that"
            " clients wrote after the restore."
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
        meaning="An interrupted restore began with a snapshot that is no longer in the store.",
        fix=(
            "Restore another snapshot under other names (`--topics orders:orders-restored`), and "
            "compare. Deleting the topics that the restore began destroys their records, and the "
            "snapshot that contained them no longer exists."
        ),
    ),
    DeclaredMessage(
        id="snapshot-without-topics",
        area=Area.RESTORE,
        meaning=("The snapshot contains consumer groups and no topic, so their offsets refer to no records."),
        fix="Back up the topics of the groups, too.",
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
            "`restore --groups-only` has nothing to set: the snapshot contains no offset of the selected "
            "groups, or none in a topic that `--topics` lists."
        ),
        fix=(
            "Check `--topics` and `--groups-pattern`. Select a snapshot that contains the offsets with "
            "`--snapshot`. If the groups never had an offset in the topic, remove it from `--topics`."
        ),
    ),
    DeclaredMessage(
        id="snapshot-instance-unknown",
        area=Area.RESTORE,
        meaning="The snapshot does not contain the instance of a topic that `--instance` asks for.",
        fix="Run `aqueduct snapshots --store URL` to list the instances of each topic.",
    ),
    DeclaredMessage(
        id="instance-invalid",
        area=Area.RESTORE,
        meaning="The value of `--instance` is not an instance.",
        fix="Pass `activate`, `passivate` or `g` and a number, such as `g2`.",
    ),
    DeclaredMessage(
        id="topic-reserved",
        area=Area.RESTORE,
        meaning=("The topic belongs to Kafka brokers, and its records have no meaning in another cluster."),
        fix="Remove the topic from `--topics`.",
    ),
    DeclaredMessage(
        id="group-has-offsets",
        area=Area.RESTORE,
        meaning="The consumer group already has offsets in the restored topics, and keeps them.",
        fix=(
            "To keep the present offsets, do nothing. To set the offsets of the backup, run "
            "`kafka-consumer-groups.sh --delete-offsets` for the group, which loses its present "
            "offsets, and run the command again."
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
            "An offset waits for a consumer group that had members, and cannot be read. All offsets of the "
            "group keep waiting, and none is set."
        ),
        fix=(
            "Run the command with the release of Aqueduct that began the restore. Or set the offsets of the "
            "group with `kafka-consumer-groups.sh --reset-offsets`, and delete the waiting group that the "
            "message shows, which loses the offsets that wait in it."
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
            "does not contain it. The link stays stopped."
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
        meaning="Records that crossed the one-way link after its position was backed up cross it again.",
        fix="No action is needed if the downstream end discards duplicates.",
    ),
    DeclaredMessage(
        id="link-ahead",
        area=Area.RESTORE,
        meaning=(
            "The one-way link has sent records that were written after the snapshot, so the restored site "
            "has lost them."
        ),
        fix="To recover the records, copy the offsets in the report back from the downstream end.",
    ),
    DeclaredMessage(
        id="mirror-position-unknown",
        area=Area.RESTORE,
        meaning=(
            "The position of a mirror cannot be translated to the restored records. No position of the "
            "mirror was changed."
        ),
        fix="Follow the reason in the message, and run the command again before the mirror starts.",
    ),
    DeclaredMessage(
        id="mirror-batches-restored",
        area=Area.RESTORE,
        meaning=(
            "A flow with the engine `batches` has mirrored a topic that is to be restored. It would mirror "
            "all restored records again, so they would arrive twice."
        ),
        fix=(
            "Remove the flow from the inventory, deploy its site, and restore. Then declare the flow "
            "with another `name` and `naming: prefix`, so that it writes to new topics. The topics that"
            " it filled before stay at the target."
        ),
    ),
    DeclaredMessage(
        id="mirror-unknown",
        area=Area.RESTORE,
        meaning=(
            "The cluster of `--mirror` has no topic of positions for a flow of this name, so no position was "
            "adjusted."
        ),
        fix="Check the name and the brokers in `--mirror`. Leave out a mirror that never ran.",
    ),
    DeclaredMessage(
        id="principal-unknown",
        area=Area.RESTORE,
        meaning="The snapshot has no ACL of a principal that `--acls-of` lists.",
        fix="Check the name. Write it without `User:`.",
    ),
    DeclaredMessage(
        id="mirror-ahead",
        area=Area.RESTORE,
        meaning=(
            "The target of a mirror does not have exactly the restored records. It has records from after "
            "the snapshot, which the restored site has lost, or restored records arrive there twice."
        ),
        fix=(
            "For records that the site has lost, copy the offsets in the report back from the lake. For"
            " records that arrived twice, configure consumers to skip them, and run `aqueduct mirror "
            "--accept-ranges`. Do not delete the topic at the target."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-unbound",
        area=Area.RESTORE,
        meaning=(
            "`aqueduct mirror` has not run since the mirror read the first records of a topic, so no "
            "topic ID is stored with its position. The restore assumed that the position belongs to the"
            " topic of the backup."
        ),
        fix=(
            "If the topic was re-created between the backup and the restore, compare both ends with "
            "`aqueduct reconcile`. To have positions bound, run `aqueduct mirror` regularly."
        ),
    ),
    DeclaredMessage(
        id="records-expired",
        area=Area.RESTORE,
        meaning="A lifecycle rule of the store deleted records before the restore.",
        fix="If the records are needed, restore them from another store.",
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
        fix="If the principal is to get them, pass it with `--acls-of`.",
    ),
    DeclaredMessage(
        id="acl-denies",
        area=Area.RESTORE,
        meaning="ACLs of the backup that deny access were set. `--acls-within` does not hold them back.",
        fix=(
            "Read the list in `rights.denied` of the report. If these clients are to have access, remove the "
            "ACLs with `kafka-acls.sh`."
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
        fix="Write entries as the Ansible module `kafka_acls` has them.",
    ),
    DeclaredMessage(
        id="replication-factor-reduced",
        area=Area.RESTORE,
        meaning=(
            "The target cluster has fewer brokers than the replication factor in the backup, so topics "
            "are created with fewer replicas."
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
        meaning="Retention would delete restored records at once, so it stays disabled for the topic.",
        fix=(
            "To keep the records, leave retention disabled. To let Kafka delete them, run the same "
            "command with `--release-retention`."
        ),
    ),
    DeclaredMessage(
        id="restores-overlap",
        area=Area.RESTORE,
        meaning="An earlier restore wrote some of the same records, and `--append` cannot continue after it.",
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
        meaning="The target cluster refuses an ACL, such as one for a resource type that its version lacks.",
        fix="Grant what replaces it in the version of the target. All other ACLs were restored.",
    ),
    DeclaredMessage(
        id="quota-unsupported",
        area=Area.RESTORE,
        meaning="The target cluster refuses a quota, such as one with a key that its version lacks.",
        fix="Set what replaces it in the version of the target. All other quotas were restored.",
    ),
    DeclaredMessage(
        id="mirror-has-unread-records",
        area=Area.RESTORE,
        meaning="A topic to append to has records that a mirror has not read yet.",
        fix=(
            "Start the mirror, stop the clients that write, and wait until `aqueduct mirror "
            "--until-caught-up` exits with 0. Then run the command again."
        ),
    ),
    DeclaredMessage(
        id="restore-run-failed",
        area=Area.RESTORE,
        meaning=(
            "The command that `playbooks/restore.yml` runs failed. The lines after the message have its "
            "error."
        ),
        fix="Remove the cause, and run the same command again: it resumes.",
    ),
    DeclaredMessage(
        id="restore-note-unreadable",
        area=Area.RESTORE,
        meaning=(
            "`playbooks/restore.yml` cannot read the list of mirrors and links that an earlier run stopped "
            "and did not start again. This run stopped and wrote nothing."
        ),
        fix=(
            "Make the file in the message readable for root, and run the same command again. If the file is "
            "damaged, start the stopped mirrors and links yourself, then delete the file."
        ),
    ),
    DeclaredMessage(
        id="restore-run-incomplete",
        area=Area.RESTORE,
        meaning="`playbooks/restore.yml` restored the cluster except for the items in the message.",
        fix="Check each item. If the backup stays stopped, resume it as the message describes.",
    ),
    DeclaredMessage(
        id="restore-unit-failed",
        area=Area.RESTORE,
        meaning="A mirror or link that the restore had stopped does not run after it was started again.",
        fix="Read the journals of the units in the message.",
    ),
)
