"""Messages about brokers whose ids were changed."""

from aqueduct.messages.message import Area, DeclaredMessage

BROKER_IDS = (
    DeclaredMessage(
        id="lost-folder-invalid",
        area=Area.BROKER_IDS,
        meaning=(
            "A folder of `--lost-folder` contains files or cannot be read, or no other folder of the "
            "same broker was passed."
        ),
        fix=(
            "Pass folders that contain logs with `--data-folder`. Pass at least one remaining folder of"
            " the same broker."
        ),
    ),
    DeclaredMessage(
        id="lost-broker-has-logs",
        area=Area.BROKER_IDS,
        meaning=(
            "A broker that is declared as lost has logs in a folder that was inspected. Nothing was done."
        ),
        fix="Remove the broker from the lost ones.",
    ),
    DeclaredMessage(
        id="inspection-outdated",
        area=Area.BROKER_IDS,
        meaning=(
            "An inspection of data folders is older than an hour or has no time, and its broker may "
            "have written since."
        ),
        fix="Set the clocks of the hosts, and inspect the folders again.",
    ),
    DeclaredMessage(
        id="data-folders-mixed",
        area=Area.BROKER_IDS,
        meaning=(
            "The data folders of one host belong to several brokers, or those of several hosts to one broker."
        ),
        fix="Pass only the folders of one host for each broker.",
    ),
    DeclaredMessage(
        id="partition-may-have-logs",
        area=Area.BROKER_IDS,
        meaning=(
            "A partition was not re-created as empty, because a broker has a log of it or may have one. "
            "Nothing was assigned."
        ),
        fix="Start the brokers that the message lists, or inspect their data folders.",
    ),
    DeclaredMessage(
        id="partition-change-rejected",
        area=Area.BROKER_IDS,
        meaning="The controller rejected a reassignment or a leader election.",
        fix="Check the error in the message and the rights of the client, and run the command again.",
    ),
    DeclaredMessage(
        id="partition-change-not-visible",
        area=Area.BROKER_IDS,
        meaning="Partitions did not get their replicas or leaders in time.",
        fix="Read the journals of the brokers, and run the command again.",
    ),
    DeclaredMessage(
        id="replaced-ids-unreadable",
        area=Area.BROKER_IDS,
        meaning="The file of `--replaced` cannot be read, or is of another cluster.",
        fix="Move the file away, and pass the ids that were replaced with `--lost`.",
    ),
    DeclaredMessage(
        id="replaced-ids-unwritable",
        area=Area.BROKER_IDS,
        meaning="The file of `--replaced` cannot be written, so no partition was assigned.",
        fix="Check the path and the free space, and run the command again.",
    ),
    DeclaredMessage(
        id="repair-plan-changed",
        area=Area.BROKER_IDS,
        meaning=(
            "The plan changed after the first run: the confirmed run would repair more partitions or "
            "lose more records."
        ),
        fix=(
            "Run `playbooks/repair_broker_ids.yml` without `-e confirm`, read the new plan, and confirm that "
            "one with the same options."
        ),
    ),
    DeclaredMessage(
        id="repair-plan-unreadable",
        area=Area.BROKER_IDS,
        meaning=(
            "The plan file of the first run cannot be read, so the confirmed run cannot check that its "
            "plan is the same."
        ),
        fix="Run the playbook without `-e confirm`, read the new plan, and confirm it.",
    ),
    DeclaredMessage(
        id="repair-plan-unwritable",
        area=Area.BROKER_IDS,
        meaning="The plan cannot be stored, so a confirmed run could not be compared with it.",
        fix="Check the path and the free space, and run the command again.",
    ),
    DeclaredMessage(
        id="broker-disks-unseen",
        area=Area.BROKER_IDS,
        meaning=(
            "The disks of a broker were not inspected, so records that only it has may be truncated. Nothing "
            "was done."
        ),
        fix=(
            "Inspect the disks, and pass the file with `--inspection`. Pass the id with `--lost` only if the "
            "disks are permanently lost: records that only they have are then lost."
        ),
    ),
    DeclaredMessage(
        id="broker-inspected-twice",
        area=Area.BROKER_IDS,
        meaning="Two files of `--inspection` are of one host or of one broker. Nothing was done.",
        fix="Pass one file for each host, called after the host.",
    ),
    DeclaredMessage(
        id="broker-log-damaged",
        area=Area.BROKER_IDS,
        meaning=(
            "A log on a broker's disk is damaged, and the broker would truncate it. Nothing was assigned."
        ),
        fix=(
            "Move the damaged log to another disk, and keep it: records that only it has are lost to "
            "the cluster. If no other replica has the partition, restore it from a backup."
        ),
    ),
    DeclaredMessage(
        id="controller-vote-unknown",
        area=Area.BROKER_IDS,
        meaning="The metadata of a folder do not tell whether its node is a controller. Nothing was done.",
        fix="If the node is only a broker, run `aqueduct quorum set-aside --broker-only`.",
    ),
    DeclaredMessage(
        id="controller-has-vote",
        area=Area.BROKER_IDS,
        meaning=(
            "The node is a voter of the quorum, and its vote belongs to its id, so the id cannot "
            "change. Nothing was done."
        ),
        fix="Set the former id in the host's `server.properties`.",
    ),
    DeclaredMessage(
        id="broker-host-uninspected",
        area=Area.BROKER_IDS,
        meaning="The run cannot inspect a host that may have logs.",
        fix=(
            "Omit `--limit`, make the host reachable, or remove it from the inventory if it is permanently "
            "lost."
        ),
    ),
    DeclaredMessage(
        id="repair-folders-unreadable",
        area=Area.BROKER_IDS,
        meaning=(
            "The data folders of a host cannot be inspected, so it is unknown which broker's logs it has. "
            "Nothing was done."
        ),
        fix=(
            "Remove the reason in the message. If the disk of one of several folders is gone for good, pass "
            "`lost_folders` as the message describes."
        ),
    ),
    DeclaredMessage(
        id="repair-step-failed",
        area=Area.BROKER_IDS,
        meaning=(
            "A step of `playbooks/repair_broker_ids.yml` failed. The lines after the message have its error."
        ),
        fix="Remove the cause, and run the same command again.",
    ),
)
