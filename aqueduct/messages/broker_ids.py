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
