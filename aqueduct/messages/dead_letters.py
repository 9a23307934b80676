"""Messages about dead letters."""

from aqueduct.messages.message import Area, DeclaredMessage

DEAD_LETTERS = (
    DeclaredMessage(
        id="dead-letter-name-unknown",
        area=Area.DEAD_LETTERS,
        meaning="No dead letter has a connector of `--connector`, or an error class of `--error-class`.",
        fix="Check the names. `dlq replay --dry-run` without these options lists those of all dead letters.",
    ),
    DeclaredMessage(
        id="ledger-created",
        area=Area.DEAD_LETTERS,
        meaning="The topic of `--ledger` did not exist, and was created. It lists no earlier replay.",
        fix="If earlier replays used another ledger, check `--ledger`: their letters were sent again.",
    ),
)
