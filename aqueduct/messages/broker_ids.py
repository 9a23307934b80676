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
    DeclaredMessage(
        id="repair-plan-changed",
        area=Area.BROKER_IDS,
        meaning="The plan of a confirmed repair repairs or loses more than the plan that was read.",
        fix=(
            "Run `playbooks/mend_broker_ids.yml` without `-e confirm`, read the new plan, and confirm that "
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
)
