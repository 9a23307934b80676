"""Messages about mirrors."""

from aqueduct.messages.message import Area, DeclaredMessage

MIRROR = (
    DeclaredMessage(
        id="mirror-workers-running",
        area=Area.MIRROR,
        meaning="A position of a mirror must be moved, but one of the workers of the mirror runs.",
        fix="Stop the mirror on all its hosts, and run the command again.",
    ),
    DeclaredMessage(
        id="mirror-maker-position-unreadable",
        area=Area.MIRROR,
        meaning=(
            "A record of MirrorMaker's topic of positions at the target is neither a position nor a binding. "
            "MirrorMaker would treat it as missing, and mirror the partition again from its beginning."
        ),
        fix=(
            "Keep the mirror stopped. Write the record again with the offset of the last mirrored record, or "
            "a tombstone if the partition may be mirrored again."
        ),
    ),
    DeclaredMessage(
        id="mirror-state-unreadable",
        area=Area.MIRROR,
        meaning="A record of MirrorMaker's topic of configurations at the target has another form.",
        fix="Restart the units of the mirror. Its leader writes the record again.",
    ),
    DeclaredMessage(
        id="classic-positions-unchecked",
        area=Area.MIRROR,
        meaning=(
            "A classic mirror stores its position without the topic's id. `aqueduct mirror` "
            "stores the id at the target. It did not store it before, has no right to store it, "
            "or the source is older than Kafka 2.8 and has no topic ids. If a topic was "
            "re-created or truncated and has grown past the position, the mirror continued in its "
            "middle. The exit code does not change."
        ),
        fix=(
            "Compare both ends with `aqueduct reconcile`, and run `aqueduct mirror` again: it now knows the "
            "topic's id. Stop the mirror before you re-create a topic at a source without topic ids."
        ),
    ),
    DeclaredMessage(
        id="classic-position-outdated",
        area=Area.MIRROR,
        meaning=(
            "A topic was re-created or truncated at the source of a classic mirror after the last "
            "check of its position. A process that ran meanwhile may have continued in the middle "
            "of the new log."
        ),
        fix=(
            "Compare both ends with `aqueduct reconcile`. To send missing records, stop the mirror, reset "
            "its group with `kafka-consumer-groups --reset-offsets`, and start it. Then run "
            "`aqueduct mirror` with `--accept-ranges`."
        ),
    ),
    DeclaredMessage(
        id="synchronised-groups-unchecked",
        area=Area.MIRROR,
        meaning=(
            "A topic was re-created, truncated or restored at the source of a mirror that synchronises "
            "consumer groups. The offsets that MirrorMaker committed for them at the target were not checked."
        ),
        fix=(
            "Compare the groups' offsets at both ends before a consumer moves to the target. Then run "
            "`aqueduct mirror` with `--accept-ranges`."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-missing",
        area=Area.MIRROR,
        meaning=(
            "The flow has no position of a partition, and the target has records that may be of the same "
            "source: the flow's own, or those of another engine. They would arrive twice."
        ),
        fix=(
            "If the flow has mirrored the partition, restore the topic "
            "`aqueduct-mirror-positions.FLOW.internal`. If another engine has, leave the topic to it, or "
            "declare a flow with another `name` and `naming: prefix`. If the records are of others, stop the "
            "flow's unit, run `aqueduct replicate` once with `--first-start` and `--until-caught-up`, and "
            "start the unit."
        ),
    ),
    DeclaredMessage(
        id="mirror-engine-differs",
        area=Area.MIRROR,
        meaning=(
            "The engine of the flow was changed in the inventory, and another engine has mirrored the flow. "
            "The new engine has no positions of it, or outdated ones, and would mirror its records again."
        ),
        fix=(
            "Run `playbooks/switch_mirror.yml`, which moves the positions, or set `engine` back. For the "
            "engine `classic`, declare a second flow with another `name` and `naming: prefix`."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-unproven",
        area=Area.MIRROR,
        meaning=(
            "The position of a partition cannot be moved to another engine. It is not bound to a topic ID, "
            "was not written in a transaction, or does not fit the present topic, so records could be lost "
            "or arrive twice."
        ),
        fix=(
            "Let the flow run with its former engine until `aqueduct mirror` reports nothing of the "
            "partition, and run `playbooks/switch_mirror.yml` again."
        ),
    ),
    DeclaredMessage(
        id="mirror-position-left",
        area=Area.MIRROR,
        meaning=(
            "The position of MirrorMaker 2 in a topic was not moved to the engine `batches`, "
            "because the source does not have the topic, or the flow no longer mirrors it."
        ),
        fix=(
            "Nothing needs to be done. If the flow mirrors the topic later, `batches` refuses its "
            "partitions that have records."
        ),
    ),
    DeclaredMessage(
        id="mirror-switch-refused",
        area=Area.MIRROR,
        meaning=(
            "Positions of a flow cannot be moved to its other engine, so none was moved. The message lists "
            "them with their identifiers."
        ),
        fix=(
            "Set `engine` back and run `playbooks/site.yml`, which starts the flow with its former engine. "
            "Follow the remedy of each listed partition, and run `playbooks/switch_mirror.yml` again."
        ),
    ),
    DeclaredMessage(
        id="mirror-flow-unknown",
        area=Area.MIRROR,
        meaning=(
            "`playbooks/switch_mirror.yml` was run for a flow that the site does not have, or that has the "
            "engine `classic`."
        ),
        fix="Pass `-e site` with the site where the flow arrives, and `-e flow` with the name of the flow.",
    ),
    DeclaredMessage(
        id="mirror-host-uninspected",
        area=Area.MIRROR,
        meaning=(
            "`playbooks/switch_mirror.yml` does not reach all hosts of a flow. A worker that it does not "
            "stop would mirror the same records as the other engine."
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
            "`playbooks/switch_mirror.yml` was run for a flow whose engine in the inventory is "
            "already deployed and has the positions."
        ),
        fix="Change `engine` of the flow in the inventory, and run the playbook again.",
    ),
    DeclaredMessage(
        id="mirror-position-outdated",
        area=Area.MIRROR,
        meaning=(
            "A position is older than the flow's newest checkpoint: the topic of positions lost its end. "
            "Records after the position would arrive twice."
        ),
        fix=(
            "To keep the target topic, declare a flow with another `name` and `naming: prefix`, which "
            "writes to a new topic. Otherwise, stop the flow's unit, delete the target topic, and run "
            "`aqueduct replicate` once with `--again TOPIC` and `--until-caught-up`. Deleting the topic"
            " destroys its records, also those that the source no longer has."
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
            "Update Aqueduct on the host of the flow. Let no other program write to the flow's topics: if no "
            "service of the flow wrote the record, replace the key of its site."
        ),
    ),
    DeclaredMessage(
        id="mirror-target-recreated",
        area=Area.MIRROR,
        meaning="The target topic was deleted and re-created after records of it were mirrored.",
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
            "writes to a new topic. Otherwise, stop the flow's unit, delete the target topic, and run "
            "`aqueduct replicate` once with `--again TOPIC` and `--until-caught-up`. Deleting the topic"
            " destroys its records, also those that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-target-not-empty",
        area=Area.MIRROR,
        meaning="A topic is to be mirrored from its beginning, and its topic at the target has records.",
        fix=(
            "Check the name of the topic. To keep its records at the target, declare a flow with "
            "another `name` and `naming: prefix`. Deleting the target topic instead destroys its "
            "records, also those that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-source-diverged",
        area=Area.MIRROR,
        meaning=(
            "The leader of a source partition does not know the leader epoch of the last mirrored record. It "
            "is unknown which records it lost."
        ),
        fix=(
            "To keep the target topic, declare a flow with another `name` and `naming: prefix`, which "
            "writes to a new topic. Otherwise, stop the flow's unit, delete the target topic, and run "
            "`aqueduct replicate` once with `--again TOPIC` and `--until-caught-up`. Deleting the topic"
            " destroys its records, also those that the source no longer has."
        ),
    ),
    DeclaredMessage(
        id="mirror-partition-offline",
        area=Area.MIRROR,
        meaning=(
            "A partition has no leader at the source or at the target, so it is not mirrored. "
            "Mirroring is tried again."
        ),
        fix="Start the brokers that have its replicas.",
    ),
    DeclaredMessage(
        id="mirror-batch-unreadable",
        area=Area.MIRROR,
        meaning=(
            "A batch of a source partition is damaged, or has a message format older than Kafka "
            "0.11. A flow with the engine `batches` mirrors the partition up to that batch, and "
            "all other partitions. It reads the batch again each time it checks the topics."
        ),
        fix=(
            "If the batch is damaged, let the broker fetch the partition from another replica. If the "
            "format is old, mirror the topic with a flow whose engine is `mm2`, which converts it."
        ),
    ),
    DeclaredMessage(
        id="mirror-batch-unopened",
        area=Area.MIRROR,
        meaning=(
            "A batch of a source partition decompresses to more than the limit, or has too many "
            "records. A flow with the engine `batches` copies such a batch without decompression "
            "if possible. It must decompress the batch if the broker set the times of its "
            "records, if its records were compacted, or if it is too large for the target. The "
            "partition is mirrored up to that batch; all other partitions are mirrored."
        ),
        fix=(
            "Check which client wrote the batch: it may be an attack. If the batch is too large "
            "for the target, raise `max.message.bytes` of the target topic. Otherwise, mirror the "
            "topic with a flow whose engine is `mm2`."
        ),
    ),
    DeclaredMessage(
        id="mirror-partition-rejected",
        area=Area.MIRROR,
        meaning=(
            "The target does not accept a batch of a partition. The other partitions are mirrored. It is "
            "tried again."
        ),
        fix="Correct the cause in the message, for example the permissions of the flow's principal.",
    ),
    DeclaredMessage(
        id="mirror-time-rejected",
        area=Area.MIRROR,
        meaning=(
            "The target does not accept the time of a record: it is too old or too far in the future for the "
            "target topic."
        ),
        fix=(
            "Raise `message.timestamp.before.max.ms` or `message.timestamp.after.max.ms` of the target topic."
        ),
    ),
    DeclaredMessage(
        id="mirror-times-replaced",
        area=Area.MIRROR,
        meaning=(
            "The target topic would give every record the time of its arrival, because it has "
            "`message.timestamp.type=LogAppendTime`."
        ),
        fix="Set `message.timestamp.type=CreateTime` for the target topic.",
    ),
    DeclaredMessage(
        id="mirror-ranges-listed",
        area=Area.MIRROR,
        meaning=(
            "A flow with the engine `batches` did not mirror a range of source offsets, or the source "
            "has lost a range that the target has. Retention deleted it, the topic was re-created, or "
            "its log was truncated. For a re-created topic, the range begins at the last mirrored "
            "offset of the deleted topic, and its end is unknown."
        ),
        fix=(
            "Save the list with `aqueduct mirror --report FILE`, because `--accept-ranges` removes it. "
            "Copy the records from another source, if one has them. Stop the flow's unit on all its "
            "hosts, run `aqueduct replicate` once with the options of the flow, `--accept-ranges` and "
            "`--until-caught-up`, and start the unit."
        ),
    ),
    DeclaredMessage(
        id="mirror-membership-failed",
        area=Area.MIRROR,
        meaning=(
            "A process of the mirror engine `batches` cannot be a member of the group that shares the flow's "
            "tasks at the target."
        ),
        fix=(
            "Grant its principal `Read` of the group `aqueduct-mirror-FLOW` and of the topic of positions. "
            "The playbook of the target site grants both."
        ),
    ),
    DeclaredMessage(
        id="mirror-source-topic-deleted",
        area=Area.MIRROR,
        meaning=(
            "The source no longer shows a topic that a flow with the engine `batches` has mirrored. It is "
            "unknown whether all its records were mirrored: the flow read the end of its log before."
        ),
        fix=(
            "If the topic should exist, restore it under another name, or give the mirror's principal the "
            "permission to describe it. If it was deleted on purpose, stop the flow's unit, run `aqueduct "
            "replicate` once with the options of the flow, `--accept-ranges` and `--until-caught-up`, and "
            "start the unit."
        ),
    ),
    DeclaredMessage(
        id="mirror-task-silent",
        area=Area.MIRROR,
        meaning=(
            "A task of the mirror engine `batches` has not reported for a minute. Its process has ended, is "
            "stopped, or cannot write to the target."
        ),
        fix="Read the journal of `mirror_maker@FLOW` on the host in the message, and start the unit.",
    ),
    DeclaredMessage(
        id="mirror-task-taken",
        area=Area.MIRROR,
        meaning=(
            "A process without `--shared`, such as a run by hand, runs a task of a flow that "
            "other processes share. The other processes wait until it has ended."
        ),
        fix=(
            "Wait until the other process has ended, or stop it on the host in the message. "
            "The others continue within 20 seconds, or 80 seconds if it was killed."
        ),
    ),
    DeclaredMessage(
        id="mirror-task-failed",
        area=Area.MIRROR,
        meaning=(
            "A task of the mirror engine `batches` ended with an unexpected error. Other tasks continue, and "
            "the task is tried again within a minute."
        ),
        fix="Read the journal of `mirror_maker@FLOW` on the host of the task, and report the error.",
    ),
    DeclaredMessage(
        id="mirror-partition-stalled",
        area=Area.MIRROR,
        meaning=(
            "A task of the mirror engine `batches` runs, but has mirrored nothing of a partition for five "
            "minutes, although the source has more records or the partition has no leader."
        ),
        fix=(
            "Check the brokers of the source, and their quotas for the flow's principal. If they "
            "are healthy, restart `mirror_maker@FLOW` on the host of the task."
        ),
    ),
    DeclaredMessage(
        id="mirror-tasks-differ",
        area=Area.MIRROR,
        meaning=(
            "The flow's topics of positions and checkpoints have different numbers of partitions, or another "
            "number than when positions were stored. Each partition belongs to a task."
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
            "Records between two checkpoints of a mirror were compacted, or its source lost the end of its "
            "log, or the group is behind the offset at which `batches` continued after MirrorMaker 2. The "
            "group's offset at the target is before its next record: it reads some records again."
        ),
        fix="None is needed if the group's application tolerates records that it has processed.",
    ),
    DeclaredMessage(
        id="mirror-state-missing",
        area=Area.MIRROR,
        meaning="The target has no state of this flow: no worker has ever run, or its topics were deleted.",
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
        meaning="The workers of the flow are assigning tasks. No task runs until they have ended.",
        fix="Wait, and inspect again. If it lasts, read the journals of the workers.",
    ),
    DeclaredMessage(
        id="mirror-task-missing",
        area=Area.MIRROR,
        meaning="A connector or a task of the flow has not started.",
        fix="Wait, and inspect again. If it lasts, restart the unit of the mirror.",
    ),
    DeclaredMessage(
        id="mirror-worker-gone",
        area=Area.MIRROR,
        meaning="The worker of a connector or a task no longer runs.",
        fix="If no other worker takes over, start the unit of the mirror on that host.",
    ),
    DeclaredMessage(
        id="mirror-task-not-running",
        area=Area.MIRROR,
        meaning="A connector or a task of the flow is in another state than `RUNNING`.",
        fix="If it lasts, restart the unit of the mirror on that host, and read its journal.",
    ),
    DeclaredMessage(
        id="mirror-waits-for-transaction",
        area=Area.MIRROR,
        meaning=(
            "A worker waits for an open transaction in its internal topics, and cannot start before it has "
            "ended."
        ),
        fix="If the transaction hangs, end it with the command in the message. Otherwise, wait.",
    ),
    DeclaredMessage(
        id="mirror-partition-hidden",
        area=Area.MIRROR,
        meaning=(
            "The source does not list a partition that the flow mirrors, or it has no leader. Its lag is "
            "unknown."
        ),
        fix="Check whether the topic exists and has a leader, and whether the client may describe it.",
    ),
    DeclaredMessage(
        id="mirror-topic-recreated",
        area=Area.MIRROR,
        meaning="A topic was deleted and re-created at the source of a classic mirror.",
        fix="Restart the unit of the mirror before the new log is as long as the earlier one.",
    ),
    DeclaredMessage(
        id="mirror-records-lost",
        area=Area.MIRROR,
        meaning="The source deleted records before they were mirrored.",
        fix="Raise the retention at the source, or make the mirror faster.",
    ),
    DeclaredMessage(
        id="mirror-behind",
        area=Area.MIRROR,
        meaning=(
            "Partitions are not caught up, or a run with `--until-caught-up` was ended before it had caught "
            "up."
        ),
        fix=(
            "Wait, or pass a longer `--wait`. If the lag grows, add tasks. If a run was ended, run the "
            "command again."
        ),
    ),
    DeclaredMessage(
        id="mirror-refusals-unlisted",
        area=Area.MIRROR,
        meaning="A task fails to mirror more partitions than its status lists.",
        fix="Read the journal of the unit of the mirror, which lists all of them.",
    ),
    DeclaredMessage(
        id="mirror-target-topic-missing",
        area=Area.MIRROR,
        meaning="The target of a classic mirror lacks topics or partitions, and the mirror creates none.",
        fix="Declare them in `kafka_topics` of the target's site.",
    ),
)
