"""Messages about a new quorum in place of a lost one."""

from aqueduct.messages.message import Area, DeclaredMessage

QUORUM = (
    DeclaredMessage(
        id="quorum-plan-changed",
        area=Area.QUORUM,
        meaning=(
            "The plan changed after the first run: the confirmed run would lose more records or would use "
            "other metadata."
        ),
        fix=(
            "Run `playbooks/restore_quorum.yml` without `-e confirm`. Read the new plan. Then confirm the "
            "new plan with the same options."
        ),
    ),
    DeclaredMessage(
        id="quorum-plan-unreadable",
        area=Area.QUORUM,
        meaning=(
            "The plan file of the first run cannot be read, so the confirmed run cannot compare its plan "
            "with the first one."
        ),
        fix="Run the playbook without `-e confirm`. Read the new plan, and confirm the new plan.",
    ),
    DeclaredMessage(
        id="quorum-clusters-differ",
        area=Area.QUORUM,
        meaning="The snapshot and the copies of metadata belong to different clusters. Nothing was done.",
        fix="Pass the store and the copies of one cluster.",
    ),
    DeclaredMessage(
        id="quorum-copies-behind",
        area=Area.QUORUM,
        meaning=(
            "The backup is newer than the metadata copies of all brokers. The copy of a running broker is "
            "at most a few seconds old, so these copies may belong to wrong hosts. Nothing was done."
        ),
        fix="Check the copies. If the backup is correct, pass the number of its snapshot with `--snapshot`.",
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
        fix="Use the metadata log of another node, or a backup.",
    ),
    DeclaredMessage(
        id="quorum-metadata-outdated",
        area=Area.QUORUM,
        meaning=(
            "The metadata of the node are older than the newest snapshot. The metadata log was truncated, "
            "or the node does not follow the quorum. The backup was not kept."
        ),
        fix="Back up from another node. If the quorum is new, pass another folder of the store.",
    ),
    DeclaredMessage(
        id="quorum-metadata-stale",
        area=Area.QUORUM,
        meaning=(
            "The newest record of the backed-up metadata is older than `--within`. Running controllers "
            "write a record at least once per second, so the node is stopped or does not follow the quorum. "
            "The snapshot was kept, but lacks all later changes."
        ),
        fix=(
            "Start the node, or back up from another node. If the controllers have "
            "`metadata.max.idle.interval.ms=0`, they write no records while the metadata do not change. In "
            "this case, pass `--within 0s`."
        ),
    ),
    DeclaredMessage(
        id="controller-folder-mismatch",
        area=Area.QUORUM,
        meaning=(
            "The cluster ID, node ID or directory ID of a controller's folder differs from the metadata. "
            "Nothing was done."
        ),
        fix="Set the former node ID and mount the former folder on each host.",
    ),
    DeclaredMessage(
        id="controller-metadata-exists",
        area=Area.QUORUM,
        meaning=(
            "The controller still has its metadata, and these metadata are newer than all backups. "
            "Nothing was done."
        ),
        fix=(
            "Start the controller. If the controller cannot start, move its metadata folder to another disk "
            "and keep it. The restore then uses older metadata, so later changes of topics, ACLs and "
            "settings are lost."
        ),
    ),
    DeclaredMessage(
        id="controller-metadata-protected",
        area=Area.QUORUM,
        meaning=(
            "The node is a controller, or may be a controller. The metadata of a controller are not "
            "replaced. Nothing was done."
        ),
        fix="If `process.roles` of the node is only `broker`, pass `--broker-only`.",
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
        meaning=(
            "All controllers of a site have lost their disks, but brokers still have logs of the cluster."
        ),
        fix="Run `playbooks/restore_quorum.yml`.",
    ),
)
