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
            "The command line declares a broker as lost, but an inspected folder contains logs of this "
            "broker. Nothing was done."
        ),
        fix="Remove the id of this broker from `--lost`.",
    ),
    DeclaredMessage(
        id="inspection-outdated",
        area=Area.BROKER_IDS,
        meaning=(
            "An inspection of data folders is older than one hour or has no time. The broker may have "
            "written records after the inspection."
        ),
        fix="Set the clocks of the hosts, and inspect the folders again.",
    ),
    DeclaredMessage(
        id="data-folders-mixed",
        area=Area.BROKER_IDS,
        meaning=(
            "The data folders of one host belong to several brokers, or the data folders of several hosts "
            "belong to one broker."
        ),
        fix="For each broker, pass only the folders of one host.",
    ),
    DeclaredMessage(
        id="partition-may-have-logs",
        area=Area.BROKER_IDS,
        meaning=(
            "A partition was not re-created as an empty partition, because a broker has a log of the "
            "partition or may have one. Nothing was assigned."
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
        meaning="Partitions did not receive their replicas or leaders within the time limit.",
        fix="Read the journals of the brokers, and run the command again.",
    ),
    DeclaredMessage(
        id="replaced-ids-unreadable",
        area=Area.BROKER_IDS,
        meaning="The file of `--replaced` cannot be read, or belongs to another cluster.",
        fix="Move the file to another folder. Pass the replaced ids with `--lost`.",
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
            "Run `playbooks/repair_broker_ids.yml` without `-e confirm`. Read the new plan. Then confirm "
            "the new plan with the same options."
        ),
    ),
    DeclaredMessage(
        id="repair-plan-unreadable",
        area=Area.BROKER_IDS,
        meaning=(
            "The plan file of the first run cannot be read, so the confirmed run cannot compare its plan "
            "with the first one."
        ),
        fix="Run the playbook without `-e confirm`. Read the new plan, and confirm the new plan.",
    ),
    DeclaredMessage(
        id="repair-plan-unwritable",
        area=Area.BROKER_IDS,
        meaning=(
            "The plan file cannot be written, so a confirmed run could not compare its plan with this plan."
        ),
        fix="Check the path and the free space, and run the command again.",
    ),
    DeclaredMessage(
        id="broker-disks-unseen",
        area=Area.BROKER_IDS,
        meaning=(
            "The disks of a broker were not inspected. Records that only this broker has could be "
            "truncated. Nothing was done."
        ),
        fix=(
            "Inspect the disks, and pass the file with `--inspection`. Pass the id with `--lost` only if "
            "the disks are permanently lost. Records that exist only on these disks are then lost."
        ),
    ),
    DeclaredMessage(
        id="broker-inspected-twice",
        area=Area.BROKER_IDS,
        meaning="Two files of `--inspection` describe the same host or the same broker. Nothing was done.",
        fix="Pass one file for each host. The name of the file must be the name of the host.",
    ),
    DeclaredMessage(
        id="broker-log-damaged",
        area=Area.BROKER_IDS,
        meaning=(
            "A log on a broker's disk is damaged, and the broker would truncate it. Nothing was assigned."
        ),
        fix=(
            "Move the damaged log to another disk, and keep it. Records that only this log contains are "
            "lost to the cluster. If the partition has no other replica, restore the partition from a "
            "backup."
        ),
    ),
    DeclaredMessage(
        id="controller-vote-unknown",
        area=Area.BROKER_IDS,
        meaning="The metadata of a folder do not show whether its node is a controller. Nothing was done.",
        fix="If the node is only a broker, run `aqueduct quorum set-aside --broker-only`.",
    ),
    DeclaredMessage(
        id="controller-has-vote",
        area=Area.BROKER_IDS,
        meaning=(
            "The node is a voter of the controller quorum. The quorum identifies a voter by its id, so the "
            "id cannot change. Nothing was done."
        ),
        fix="Set the former id in `server.properties` of the host.",
    ),
    DeclaredMessage(
        id="broker-host-uninspected",
        area=Area.BROKER_IDS,
        meaning="The run cannot inspect a host that may contain logs.",
        fix=(
            "Omit `--limit`, make the host reachable, or remove it from the inventory if it is permanently "
            "lost."
        ),
    ),
    DeclaredMessage(
        id="repair-folders-unreadable",
        area=Area.BROKER_IDS,
        meaning=(
            "The data folders of a host cannot be inspected. It is unknown which broker's logs the host "
            "contains. Nothing was done."
        ),
        fix=(
            "Correct the cause in the message. If the disk of one of several folders is permanently lost, "
            "pass `lost_folders` as the message describes."
        ),
    ),
    DeclaredMessage(
        id="repair-step-failed",
        area=Area.BROKER_IDS,
        meaning=(
            "A step of `playbooks/repair_broker_ids.yml` failed. The lines after the message show the error."
        ),
        fix="Correct the cause, and run the same command again.",
    ),
)
