"""Messages about mirrors."""

from aqueduct.messages.message import Area, DeclaredMessage

MIRROR = (
    DeclaredMessage(
        id="mirror-workers-running",
        area=Area.MIRROR,
        meaning="A position of a mirror must be changed, but a worker of the mirror runs.",
        fix="Stop the mirror on all its hosts, and run the command again.",
    ),
    DeclaredMessage(
        id="mirror-maker-position-unreadable",
        area=Area.MIRROR,
        meaning=(
            "A record in MirrorMaker's offsets topic at the target cannot be read. MirrorMaker would treat "
            "the position as missing, and mirror the partition again from its beginning."
        ),
        fix=(
            "Do not start the mirror. Write the record again with the offset of the last mirrored record. "
            "If the partition may be mirrored again, write a tombstone instead."
        ),
    ),
    DeclaredMessage(
        id="mirror-state-unreadable",
        area=Area.MIRROR,
        meaning="A record in MirrorMaker's config topic at the target cannot be read.",
        fix="Restart the units of the mirror. The leader of the workers writes the record again.",
    ),
    DeclaredMessage(
        id="classic-positions-unchecked",
        area=Area.MIRROR,
        meaning=(
            "It is unknown whether the position of a classic mirror belongs to the present topic. A classic "
            "mirror stores its position without the topic ID, so `aqueduct mirror` stores the topic ID at "
            "the target. The topic ID was not stored before, the client may not store it, or the source is "
            "older than Kafka 2.8 and has no topic IDs. If a topic was re-created or truncated and the new "
            "log is longer than the position, the mirror has skipped records. This finding does not change "
            "the exit code."
        ),
        fix=(
            "Compare both ends with `aqueduct reconcile`. Run `aqueduct mirror` again: it compares the "
            "stored topic ID. If the source has no topic IDs, stop the mirror before you re-create a topic."
        ),
    ),
    DeclaredMessage(
        id="classic-position-outdated",
        area=Area.MIRROR,
        meaning=(
            "A topic was re-created or truncated at the source of a classic mirror after the last check of "
            "its position. A mirror process that ran at this time may have skipped records of the new log."
        ),
        fix=(
            "Compare both ends with `aqueduct reconcile`. To mirror missing records, stop the mirror, reset "
            "the offsets of its group with `kafka-consumer-groups --reset-offsets`, and start the mirror. "
            "Then run `aqueduct mirror` with `--accept-ranges`."
        ),
    ),
    DeclaredMessage(
        id="synchronised-groups-unchecked",
        area=Area.MIRROR,
        meaning=(
            "A topic was re-created, truncated or restored at the source of a mirror that synchronises "
            "consumer groups. The offsets that MirrorMaker committed for these groups at the target were "
            "not checked."
        ),
        fix=(
            "Before a consumer moves to the target, compare the offsets of its group at both ends. Then run "
            "`aqueduct mirror` with `--accept-ranges`."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-missing",
        area=Area.MIRROR,
        meaning=(
            "The flow has no position of a partition, but the target has records that the flow or another "
            "engine may have mirrored. These records would arrive twice."
        ),
        fix=(
            "If the flow mirrored the partition, restore the topic "
            "`aqueduct-mirror-positions.FLOW.internal`. If another engine mirrored the partition, exclude "
            "the topic from this flow, or declare a flow with another `name` and `naming: prefix`. If the "
            "records come from other producers, stop the unit of the flow, run `aqueduct replicate` once "
            "with `--first-start` and `--until-caught-up`, and start the unit."
        ),
    ),
    DeclaredMessage(
        id="mirror-engine-differs",
        area=Area.MIRROR,
        meaning=(
            "The engine of the flow was changed in the inventory. The new engine has no positions or "
            "outdated positions of the flow, so it would mirror records again."
        ),
        fix=(
            "Run `playbooks/switch_mirror.yml`, which moves the positions, or set `engine` to the former "
            "engine. For the engine `classic`, declare a second flow with another `name` and `naming: "
            "prefix`."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-unproven",
        area=Area.MIRROR,
        meaning=(
            "The position of a partition cannot be moved to another engine, because records could be lost "
            "or arrive twice. The position has no topic ID, was not written in a transaction, or does not "
            "fit the present topic."
        ),
        fix=(
            "Run the flow with its former engine until `aqueduct mirror` has no finding for the partition. "
            "Then run `playbooks/switch_mirror.yml` again."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-left",
        area=Area.MIRROR,
        meaning=(
            "MirrorMaker 2's position in a topic was not moved to the engine `batches`, because the topic "
            "does not exist at the source, or the flow no longer mirrors the topic."
        ),
        fix=(
            "No action is needed. If the flow mirrors the topic later, `batches` does not mirror its "
            "partitions that have records."
        ),
    ),
    DeclaredMessage(
        id="mirror-switch-refused",
        area=Area.MIRROR,
        meaning=(
            "Some positions of a flow cannot be moved to the new engine, so no position was moved. The "
            "message lists these positions with their identifiers."
        ),
        fix=(
            "Set `engine` to the former engine, and run `playbooks/site.yml`, which starts the flow. Repair "
            "each listed partition as its identifier describes. Then set the new engine, and run "
            "`playbooks/switch_mirror.yml` again."
        ),
    ),
    DeclaredMessage(
        id="mirror-flow-unknown",
        area=Area.MIRROR,
        meaning=(
            "`playbooks/switch_mirror.yml` was run for a flow that the site does not have, or that has the "
            "engine `classic`."
        ),
        fix="Pass `-e site` with the target site of the flow, and `-e flow` with the name of the flow.",
    ),
    DeclaredMessage(
        id="mirror-host-uninspected",
        area=Area.MIRROR,
        meaning=(
            "`playbooks/switch_mirror.yml` cannot reach all hosts of a flow. A worker that still runs would "
            "mirror the same records as the new engine."
        ),
        fix=(
            "Omit `--limit` and make the host reachable. If the host no longer exists, remove it "
            "from the group `mirror_maker`."
        ),
    ),
    DeclaredMessage(
        id="mirror-switch-unneeded",
        area=Area.MIRROR,
        meaning=(
            "`playbooks/switch_mirror.yml` was run for a flow, but the engine in the inventory is already "
            "deployed and already has the positions."
        ),
        fix="Change `engine` of the flow in the inventory, and run the playbook again.",
    ),
    DeclaredMessage(
        id="mirror-position-outdated",
        area=Area.MIRROR,
        meaning=(
            "A position is older than the newest checkpoint of the flow, because the log of the positions "
            "topic was truncated. Records after the position would arrive twice."
        ),
        fix=(
            "To keep the target topic, declare a flow with another `name` and `naming: prefix`, which "
            "writes to a new topic. Otherwise, stop the unit of the flow, delete the target topic, and run "
            "`aqueduct replicate` once with `--again TOPIC` and `--until-caught-up`. Deleting the topic "
            "also destroys records that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-unreadable",
        area=Area.MIRROR,
        meaning=(
            "A record in the flow's topics of positions or checkpoints cannot be read. A newer version of "
            "Aqueduct or another program wrote it. A restore is refused before it stops or writes anything."
        ),
        fix=(
            "Upgrade Aqueduct on the host of the flow. If no service of the flow wrote the record, another "
            "client has write permission on the topics of the flow: replace the private key of the site."
        ),
    ),
    DeclaredMessage(
        id="mirror-target-recreated",
        area=Area.MIRROR,
        meaning="The target topic was deleted and re-created after the flow had mirrored records to it.",
        fix="Run the flow once with `--again TOPIC` to mirror the topic from its beginning.",
    ),
    DeclaredMessage(
        id="mirror-target-cut",
        area=Area.MIRROR,
        meaning=(
            "The target partition lost records that the flow had written, for example by an unclean leader "
            "election."
        ),
        fix=(
            "To keep the target topic, declare a flow with another `name` and `naming: prefix`, which "
            "writes to a new topic. Otherwise, stop the unit of the flow, delete the target topic, and run "
            "`aqueduct replicate` once with `--again TOPIC` and `--until-caught-up`. Deleting the topic "
            "also destroys records that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-target-not-empty",
        area=Area.MIRROR,
        meaning=(
            "The flow should mirror a topic again from its beginning, but the target topic contains records."
        ),
        fix=(
            "Check the name of the topic. To keep the records at the target, declare a flow with another "
            "`name` and `naming: prefix`. If you do not need these records, delete the target topic. "
            "Deleting the topic also destroys records that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-source-diverged",
        area=Area.MIRROR,
        meaning=(
            "The leader of a source partition does not have the leader epoch of the last mirrored record. "
            "It is unknown which records the leader lost."
        ),
        fix=(
            "To keep the target topic, declare a flow with another `name` and `naming: prefix`, which "
            "writes to a new topic. Otherwise, stop the unit of the flow, delete the target topic, and run "
            "`aqueduct replicate` once with `--again TOPIC` and `--until-caught-up`. Deleting the topic "
            "also destroys records that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-partition-offline",
        area=Area.MIRROR,
        meaning=(
            "A partition has no leader at the source or at the target, so the partition is not mirrored. "
            "The flow retries automatically."
        ),
        fix="Start the brokers that have its replicas.",
    ),
    DeclaredMessage(
        id="mirror-batch-unreadable",
        area=Area.MIRROR,
        meaning=(
            "A batch of a source partition is damaged, or has a message format older than Kafka 0.11. A "
            "flow with the engine `batches` mirrors the partition up to this batch. All other partitions "
            "are mirrored. The flow retries the batch at each refresh of its topics."
        ),
        fix=(
            "If the batch is damaged, let the broker fetch the partition from another replica. If the "
            "format is old, mirror the topic with the engine `mm2`, which converts the format."
        ),
    ),
    DeclaredMessage(
        id="mirror-batch-unopened",
        area=Area.MIRROR,
        meaning=(
            "A batch of a source partition is larger than the limit after decompression, or has too many "
            "records. The engine `batches` must decompress a batch if the broker set the timestamps of its "
            "records, if records of the batch were compacted, or if the batch is too large for the target. "
            "The flow mirrors the partition up to this batch. All other partitions are mirrored."
        ),
        fix=(
            "Check which client wrote the batch, because such a batch may be an attack. If the batch is too "
            "large for the target, increase `max.message.bytes` of the target topic. Otherwise, mirror the "
            "topic with the engine `mm2`."
        ),
    ),
    DeclaredMessage(
        id="mirror-partition-rejected",
        area=Area.MIRROR,
        meaning=(
            "The target does not accept a batch of a partition. The flow retries the batch, and mirrors all "
            "other partitions."
        ),
        fix="Correct the cause in the message, for example the permissions of the flow's principal.",
    ),
    DeclaredMessage(
        id="mirror-time-rejected",
        area=Area.MIRROR,
        meaning=(
            "The target does not accept the timestamp of a record. The timestamp is too old or too far in "
            "the future for the target topic."
        ),
        fix=(
            "Increase `message.timestamp.before.max.ms` or `message.timestamp.after.max.ms` of the target "
            "topic."
        ),
    ),
    DeclaredMessage(
        id="mirror-times-replaced",
        area=Area.MIRROR,
        meaning=(
            "The target topic has `message.timestamp.type=LogAppendTime`, so its brokers would replace the "
            "timestamps of all records."
        ),
        fix="Set `message.timestamp.type=CreateTime` for the target topic.",
    ),
    DeclaredMessage(
        id="mirror-ranges-listed",
        area=Area.MIRROR,
        meaning=(
            "A flow with the engine `batches` did not mirror a range of source offsets, or the source lost "
            "a range that was mirrored. Retention deleted the range, the topic was re-created, or the log "
            "was truncated. For a re-created topic, the range begins at the last mirrored offset of the "
            "deleted topic, and the end of the range is unknown."
        ),
        fix=(
            "Save the list of ranges with `aqueduct mirror --report FILE`, because `--accept-ranges` "
            "removes the list. If another cluster has the records, copy them from there. Stop the flow's "
            "unit on all its hosts, run `aqueduct replicate` once with the options of the flow, "
            "`--accept-ranges` and `--until-caught-up`, and start the unit."
        ),
    ),
    DeclaredMessage(
        id="mirror-membership-failed",
        area=Area.MIRROR,
        meaning=(
            "A process of the mirror engine `batches` cannot join the consumer group that assigns the tasks "
            "of the flow at the target."
        ),
        fix=(
            "Grant the principal of the process `Read` on the group `aqueduct-mirror-FLOW` and on the "
            "positions topic. The playbook of the target site grants both."
        ),
    ),
    DeclaredMessage(
        id="mirror-source-topic-deleted",
        area=Area.MIRROR,
        meaning=(
            "The client can no longer see a source topic that a flow with the engine `batches` has "
            "mirrored. It is unknown whether the topic received more records after the flow last read the "
            "end of its log."
        ),
        fix=(
            "If the topic should exist, restore the topic under another name, or grant the mirror's "
            "principal `Describe` on the topic. If the topic was deleted on purpose, stop the flow's unit, "
            "run `aqueduct replicate` once with the options of the flow, `--accept-ranges` and "
            "`--until-caught-up`, and start the unit."
        ),
    ),
    DeclaredMessage(
        id="mirror-task-silent",
        area=Area.MIRROR,
        meaning=(
            "A task of the mirror engine `batches` has written no status for one minute. The process of the "
            "task has ended, is suspended, or cannot write to the target."
        ),
        fix="Read the journal of `mirror_maker@FLOW` on the host in the message, and start the unit.",
    ),
    DeclaredMessage(
        id="mirror-task-taken",
        area=Area.MIRROR,
        meaning=(
            "A process without `--shared`, such as a manual run of `aqueduct replicate`, runs a task of the "
            "flow. The processes of the flow's units wait until this process has ended."
        ),
        fix=(
            "Wait until the process has ended, or stop the process on the host in the message. The units of "
            "the flow continue within 20 seconds, or within 80 seconds if the process was killed."
        ),
    ),
    DeclaredMessage(
        id="mirror-task-failed",
        area=Area.MIRROR,
        meaning=(
            "A task of the mirror engine `batches` ended with an unexpected error. Other tasks continue. "
            "The task is restarted within one minute."
        ),
        fix=(
            "Read the journal of `mirror_maker@FLOW` on the host of the task, and report the error as a "
            "fault of Aqueduct."
        ),
    ),
    DeclaredMessage(
        id="mirror-partition-stalled",
        area=Area.MIRROR,
        meaning=(
            "A task of the mirror engine `batches` runs, but has mirrored no record of a partition for five "
            "minutes. The source has more records, or the partition has no leader."
        ),
        fix=(
            "Check the brokers of the source, and the quotas of the flow's principal. If the brokers and "
            "quotas are correct, restart `mirror_maker@FLOW` on the host of the task."
        ),
    ),
    DeclaredMessage(
        id="mirror-tasks-differ",
        area=Area.MIRROR,
        meaning=(
            "The positions topic and the checkpoints topic of the flow have different numbers of "
            "partitions, or the number changed after positions were stored. Each partition of these topics "
            "belongs to one task."
        ),
        fix=(
            "Restore both topics with their former number of partitions, for example from a backup. Never "
            "change this number."
        ),
    ),
    DeclaredMessage(
        id="group-offset-inexact",
        area=Area.MIRROR,
        meaning=(
            "The offset of a consumer group at the target is lower than the offset of the next record of "
            "the group, so the group reads some records again. Records between two checkpoints of the "
            "mirror were compacted, the source log was truncated, or the group is behind the offset at "
            "which `batches` replaced MirrorMaker 2."
        ),
        fix="No action is needed if the application of the group can process records twice.",
    ),
    DeclaredMessage(
        id="mirror-state-missing",
        area=Area.MIRROR,
        meaning=(
            "The target has no state of this flow. No worker of the flow has ever run, or the internal "
            "topics of the flow were deleted."
        ),
        fix="Start the unit of the mirror, and read its journal.",
    ),
    DeclaredMessage(
        id="mirror-workers-missing",
        area=Area.MIRROR,
        meaning="No worker of the flow runs.",
        fix="Start the unit of the mirror, and read its journal.",
    ),
    DeclaredMessage(
        id="mirror-tasks-unassigned",
        area=Area.MIRROR,
        meaning="The workers of the flow are rebalancing. No task runs until the rebalance has ended.",
        fix=(
            "Run `aqueduct mirror` again after one minute. If the rebalance continues, read the journals "
            "of the workers."
        ),
    ),
    DeclaredMessage(
        id="mirror-task-missing",
        area=Area.MIRROR,
        meaning="A connector or a task of the flow has not started.",
        fix=(
            "Run `aqueduct mirror` again after one minute. If the connector or the task has still not "
            "started, restart the unit of the mirror."
        ),
    ),
    DeclaredMessage(
        id="mirror-worker-gone",
        area=Area.MIRROR,
        meaning="The worker of a connector or a task no longer runs.",
        fix=(
            "If no other worker runs the connector or the task, start the unit of the mirror on the host "
            "in the message."
        ),
    ),
    DeclaredMessage(
        id="mirror-task-not-running",
        area=Area.MIRROR,
        meaning="A connector or a task of the flow is in another state than `RUNNING`.",
        fix=(
            "If the state does not change, restart the unit of the mirror on the host in the message, "
            "and read its journal."
        ),
    ),
    DeclaredMessage(
        id="mirror-waits-for-transaction",
        area=Area.MIRROR,
        meaning=(
            "A worker waits for an open transaction in its internal topics. The worker cannot start before "
            "the transaction has ended."
        ),
        fix=(
            "If the transaction hangs, end the transaction with the command in the message. Otherwise, "
            "wait until the transaction ends."
        ),
    ),
    DeclaredMessage(
        id="mirror-partition-hidden",
        area=Area.MIRROR,
        meaning=(
            "The source does not list a partition that the flow mirrors, or the partition has no leader. "
            "The lag of the partition is unknown."
        ),
        fix=(
            "Check whether the topic exists, whether its partitions have leaders, and whether the client "
            "may describe the topic."
        ),
    ),
    DeclaredMessage(
        id="mirror-topic-recreated",
        area=Area.MIRROR,
        meaning="A topic was deleted and re-created at the source of a classic mirror.",
        fix=(
            "Restart the unit of the mirror before the log of the new topic reaches the position of the "
            "mirror."
        ),
    ),
    DeclaredMessage(
        id="mirror-records-lost",
        area=Area.MIRROR,
        meaning="The source deleted records before they were mirrored.",
        fix="Increase the retention at the source, or add tasks to the mirror.",
    ),
    DeclaredMessage(
        id="mirror-behind",
        area=Area.MIRROR,
        meaning=(
            "The mirror has not caught up with some partitions, or a run with `--until-caught-up` was ended "
            "before it had caught up."
        ),
        fix=(
            "Wait, or pass a longer `--wait`. If the lag grows, add tasks to the mirror. If the run was "
            "ended, run the command again."
        ),
    ),
    DeclaredMessage(
        id="mirror-refusals-unlisted",
        area=Area.MIRROR,
        meaning="A task does not mirror more partitions than its status can list.",
        fix="Read the journal of the unit of the mirror, which lists all these partitions.",
    ),
    DeclaredMessage(
        id="mirror-target-topic-missing",
        area=Area.MIRROR,
        meaning=(
            "The target of a classic mirror lacks topics or partitions, and a classic mirror does not "
            "create topics or partitions."
        ),
        fix="Declare the topics and their numbers of partitions in `kafka_topics` of the target site.",
    ),
)
