"""Messages about a new quorum in place of a lost one."""

from aqueduct.messages.message import Area, DeclaredMessage

QUORUM = (
    DeclaredMessage(
        id="quorum-plan-changed",
        area=Area.QUORUM,
        meaning="The plan of a confirmed run loses more than the plan that was read, or has other metadata.",
        fix=(
            "Run `playbooks/restore_quorum.yml` without `-e confirm`, read the new plan, and confirm that "
            "one with the same options."
        ),
    ),
    DeclaredMessage(
        id="quorum-plan-unreadable",
        area=Area.QUORUM,
        meaning="The file with the plan that was read cannot be read, so the plans cannot be compared.",
        fix="Make the plan again, and read it.",
    ),
    DeclaredMessage(
        id="quorum-clusters-differ",
        area=Area.QUORUM,
        meaning="The snapshot and the copies of metadata are of different clusters. Nothing was done.",
        fix="Pass the store and the copies of one cluster.",
    ),
    DeclaredMessage(
        id="quorum-copies-behind",
        area=Area.QUORUM,
        meaning=(
            "The backup is newer than the copies of all brokers. Copies of running brokers are at most "
            "seconds old, so they may be of wrong hosts. Nothing was done."
        ),
        fix="Check the copies. To use the backup all the same, pass its number with `--snapshot`.",
    ),
)
