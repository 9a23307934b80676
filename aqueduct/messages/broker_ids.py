"""Messages about brokers whose ids were changed."""

from aqueduct.messages.message import Area, DeclaredMessage

BROKER_IDS = (
    DeclaredMessage(
        id="lost-folder-invalid",
        area=Area.BROKER_IDS,
        meaning="A folder of `--lost-folder` is not lost, or no other folder tells whose it was.",
        fix="Pass folders that have logs with `--data-folder`, and at least one of the broker.",
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
        fix="Start the brokers, or inspect their folders, that the message identifies.",
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
        meaning="The plan of a confirmed repair repairs or loses more than the plan that was read.",
        fix=(
            "Run `playbooks/repair_broker_ids.yml` without `-e confirm`, read the new plan, and confirm that "
            "one with the same options."
        ),
    ),
    DeclaredMessage(
        id="repair-plan-unreadable",
        area=Area.BROKER_IDS,
        meaning="The file with the plan that was read cannot be read, so the plans cannot be compared.",
        fix="Make the plan again, and read it.",
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
            "Inspect the disks and pass the file with `--look`. If they are lost for good, pass the id with "
            "`--lost`."
        ),
    ),
    DeclaredMessage(
        id="broker-looked-at-twice",
        area=Area.BROKER_IDS,
        meaning="Two files of `--look` are of one host or of one broker. Nothing was done.",
        fix="Pass one file for each host, called after the host.",
    ),
    DeclaredMessage(
        id="broker-log-damaged",
        area=Area.BROKER_IDS,
        meaning=(
            "A log on a broker's disk is damaged, and the broker would truncate it. Nothing was assigned."
        ),
        fix="Restore the partition from a backup, or move the damaged log away.",
    ),
    DeclaredMessage(
        id="controller-vote-unknown",
        area=Area.BROKER_IDS,
        meaning="The metadata of a folder do not tell whether its node is a controller. Nothing was done.",
        fix="If the node is only a broker, run `aqueduct quorum put-aside --broker-only`.",
    ),
    DeclaredMessage(
        id="controller-has-vote",
        area=Area.BROKER_IDS,
        meaning="Another id would end the vote of a controller. Nothing was done.",
        fix="Set the former id in the host's `server.properties`.",
    ),
)
