"""Messages about a new quorum in place of a lost one."""

from aqueduct.messages.message import Area, DeclaredMessage

QUORUM = (
    DeclaredMessage(
        id="quorum-plan-changed",
        area=Area.QUORUM,
        meaning=(
            "The plan changed after the first run: the confirmed run would lose more records or use "
            "other metadata."
        ),
        fix=(
            "Run `playbooks/restore_quorum.yml` without `-e confirm`, read the new plan, and confirm that "
            "one with the same options."
        ),
    ),
    DeclaredMessage(
        id="quorum-plan-unreadable",
        area=Area.QUORUM,
        meaning=(
            "The plan file of the first run cannot be read, so the confirmed run cannot check that its "
            "plan is the same."
        ),
        fix="Run the playbook without `-e confirm`, read the new plan, and confirm it.",
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
    DeclaredMessage(
        id="quorum-metadata-missing",
        area=Area.QUORUM,
        meaning="The folder has no metadata log.",
        fix="Pass the folder of `metadata.log.dir`, or the first of `log.dirs`.",
    ),
    DeclaredMessage(
        id="quorum-metadata-damaged",
        area=Area.QUORUM,
        meaning="The metadata log of the node is damaged.",
        fix="Use the metadata of another node, or a backup.",
    ),
    DeclaredMessage(
        id="quorum-metadata-outdated",
        area=Area.QUORUM,
        meaning=(
            "The metadata of the node end before those of the newest snapshot: its log was truncated, or the "
            "node does not follow the quorum. Nothing was kept."
        ),
        fix="Back up from another node. If the quorum is a new one, pass another folder of the store.",
    ),
    DeclaredMessage(
        id="quorum-metadata-stale",
        area=Area.QUORUM,
        meaning=(
            "The newest record of the metadata that were backed up is older than `--within`. Running "
            "controllers write records at least every second, so the node is stopped or does not follow the "
            "quorum. The snapshot was kept, but lacks all later changes."
        ),
        fix=(
            "Start the node, or back up from another one. If the controllers have "
            "`metadata.max.idle.interval.ms=0`, they write nothing while nothing changes: pass `--within 0s`."
        ),
    ),
    DeclaredMessage(
        id="controller-folder-mismatch",
        area=Area.QUORUM,
        meaning=(
            "The folder of a controller belongs to another cluster, node or directory ID than the metadata "
            "assume. Nothing was done."
        ),
        fix="Give each host the node ID and the folder that it had.",
    ),
    DeclaredMessage(
        id="controller-metadata-exists",
        area=Area.QUORUM,
        meaning="The controller has metadata of its own, which are newer than any backup. Nothing was done.",
        fix=(
            "Start the controller. If it cannot start, move its metadata folder to a safe place. The "
            "restore then uses older metadata, so later changes of topics, ACLs and settings are lost."
        ),
    ),
    DeclaredMessage(
        id="controller-metadata-protected",
        area=Area.QUORUM,
        meaning=(
            "The node is a controller or may be one, and its metadata are not replaced. Nothing was done."
        ),
        fix="If `process.roles` of the node is `broker`, pass `--broker-only`.",
    ),
    DeclaredMessage(
        id="quorum-host-uninspected",
        area=Area.QUORUM,
        meaning="The run cannot inspect a host that may have the newest metadata.",
        fix=(
            "Omit `--limit`, make the host reachable, or remove it from the inventory if its disk is "
            "permanently lost."
        ),
    ),
    DeclaredMessage(
        id="quorum-disks-lost",
        area=Area.QUORUM,
        meaning="All controllers of a site have lost their disks, but brokers have logs of their cluster.",
        fix="Run `playbooks/restore_quorum.yml`.",
    ),
)
