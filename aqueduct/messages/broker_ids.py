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
)
