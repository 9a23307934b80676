"""Messages of the state of an estate."""

from aqueduct.messages.message import Area, DeclaredMessage


def _message(id_: str, meaning: str, fix: str) -> DeclaredMessage:
    return DeclaredMessage(id=id_, area=Area.STATUS, meaning=meaning, fix=fix)


STATUS = (
    _message(
        "host-not-answering",
        "A host did not answer, so the state of all objects on this host is unknown.",
        "Check that the host runs, and that the control node can reach the host by SSH.",
    ),
    _message(
        "exporter-principal-wrong",
        "The metrics of a host came with the certificate of another service, so these metrics are not used.",
        "Check which process listens on the metrics port of this host. A service with a certificate for the "
        "name of the host may be compromised. `playbooks/monitoring.yml` starts `monitoring.service`.",
    ),
    _message(
        "object-not-answered",
        "The hosts of an object answered, but returned no state of this object.",
        "Run the command in the message on the host, and read the error of the command.",
    ),
    _message(
        "unit-not-active",
        "A systemd unit that the inventory declares is not active.",
        "Read the journal of the unit. Correct the cause, and start the unit.",
    ),
    _message(
        "unit-failed",
        "A systemd unit of the host failed.",
        "Read the journal of the unit. After the repair, `systemctl reset-failed UNIT` clears the failed "
        "state.",
    ),
    _message("unit-run-failed", "The last run of a periodic unit failed.", "Read the journal of the unit."),
    _message("disk-filling", "A file system is fuller than the limit.", "Free space, or enlarge the disk."),
    _message(
        "clock-skewed",
        "The clock of a host differs from the clock of the control node by more than the limit.",
        "Synchronise the clocks with NTP.",
    ),
    _message(
        "certificate-expiring",
        "A certificate has expired, or expires within the limit.",
        "Run `playbooks/site.yml`. If you provide the certificates, provide a new certificate first.",
    ),
    _message(
        "authority-expiring",
        "The certificate of the certificate authority has expired, or expires within the limit.",
        "Replace the authority with `playbooks/authority.yml`, or provide another certificate authority.",
    ),
    _message(
        "partitions-offline",
        "Partitions have no leader, so clients cannot read or write these partitions.",
        "Start the brokers that have replicas of these partitions.",
    ),
    _message(
        "partitions-under-replicated",
        "Partitions are under-replicated: they have fewer in-sync replicas than replicas.",
        "Start the stopped broker, or wait until its replicas have caught up.",
    ),
    _message(
        "cluster-node-unhealthy",
        "A broker is fenced or is not in the inventory, or a controller does not follow the quorum.",
        "Read the journal of the node.",
    ),
    _message(
        "node-not-in-cluster",
        "A broker or controller of the inventory is not part of the cluster.",
        "Read the journal of the node, and start the node.",
    ),
    _message(
        "mirror-not-well",
        "A mirror does not run as declared, or has lost records.",
        "Correct the fault as the message describes.",
    ),
    _message(
        "link-records-missing",
        "Records of a one-way link did not arrive.",
        "Send the missing records again with `playbooks/resend.yml`.",
    ),
    _message(
        "link-not-current",
        "The ledger of a link is out of date or incomplete, so it is unknown whether more records are "
        "missing.",
        "Check that both ends of the link and dedup run.",
    ),
    _message(
        "link-records-lost",
        "Records of a one-way link were deleted at the source before they could be sent again.",
        "List the lost offsets with `aqueduct diode lost`. Resend more often, or increase the retention of "
        "the source topics. `status_lost_records` sets the accepted number of lost records.",
    ),
    _message(
        "link-silent",
        "The receiving end of a one-way link receives no keepalive messages of the sending service.",
        "Check the sending service, its network interface and the cable. A resend does not replace the "
        "sending service.",
    ),
    _message(
        "lag-over-limit",
        "The lag of a flow, a link or a landing is larger than the limit.",
        "Read the journal of the service, or increase `status_lag_records` or `status_lag_seconds`.",
    ),
    _message(
        "time-in-future",
        "A host or a store reports a time in the future, so the age of the object is unknown.",
        "Synchronise the clocks with NTP. The age of a snapshot with such a time stays unknown until the "
        "snapshot is pruned.",
    ),
    _message(
        "rounds-standing-still",
        "A service has completed no round for longer than the limit.",
        "Read the journal of the service.",
    ),
    _message(
        "connector-not-running",
        "A connector, or one of its tasks, is missing or not in the declared state.",
        "Correct the cause in the message, and run `playbooks/connectors.yml`.",
    ),
    _message(
        "connector-topic-missing",
        "A topic name or pattern of a sink matches no topic of the cluster, so the sink delivers no records "
        "for this name or pattern.",
        "Correct `topics` or `topics.regex` in `connect_connectors`, and run `playbooks/connectors.yml`. Or "
        "create the topic.",
    ),
    _message(
        "dead-letters-waiting",
        "The number of dead-letter records of a connector that were not sent back is larger than the limit.",
        "Correct the cause, and run `playbooks/dlq_replay.yml`. Or increase `status_dead_letters`.",
    ),
    _message(
        "landing-skips",
        "A landing skips a topic or a partition, or the lag of a partition cannot be measured.",
        "Correct the cause in the message.",
    ),
    _message(
        "landing-catalogue-behind",
        "The Hive metastore lacks files or partitions that have landed, or does not answer.",
        "Check the metastore. The landing service updates it in its next round.",
    ),
    _message(
        "no-snapshot-yet",
        "The store has no snapshot, or the periodic backup has never run.",
        "Run `playbooks/backup.yml`.",
    ),
    _message(
        "backup-old",
        "The newest snapshot is older than the limit.",
        "Read the journal of the backup, and run `playbooks/backup.yml`.",
    ),
    _message(
        "backup-skips",
        "The newest run of a backup skipped topics, partitions or groups, or Kafka deleted records before "
        "the backup read them.",
        "Read the journal of the unit `backup`, which lists the skipped items, and correct the cause. If "
        "records were deleted, back up more often, or increase the retention.",
    ),
    _message(
        "snapshots-damaged",
        "Snapshots of the store cannot be used.",
        "Restore lost or damaged objects from a copy of the store.",
    ),
    _message(
        "backup-not-verified",
        "A backup was never verified, so it is unknown whether its objects are intact.",
        "Run the command in the message, and read the journal of the unit `backup_verify`.",
    ),
    _message(
        "backup-verify-failed",
        "The last run of `aqueduct verify` for a backup found damage, or failed.",
        "Read the journal of the unit `backup_verify`. Copy damaged objects from a copy of the store.",
    ),
    _message(
        "backup-verify-old",
        "The last successful run of `aqueduct verify` for a backup is older than the limit.",
        "Run the command in the message, and read the journal of the unit `backup_verify`.",
    ),
    _message("drill-missing", "No drill has run, or no drill was successful.", "Run `playbooks/drill.yml`."),
    _message(
        "drill-failed",
        "The last drill failed, or found a difference.",
        "Read the report of the drill and the journal of the unit `drill`.",
    ),
    _message(
        "drill-old",
        "The last successful drill is older than the limit.",
        "Read the journal of the unit `drill`, and run `playbooks/drill.yml`.",
    ),
    _message(
        "facts-file-invalid",
        "The file of `--facts` cannot be read, or is not a file that `playbooks/status.yml` wrote.",
        "Pass the file that `playbooks/status.yml` wrote.",
    ),
    _message(
        "estate-file-invalid",
        "The file of `--estate` cannot be read, or is not a description of an inventory.",
        "Pass `estate.json`, which `playbooks/monitoring.yml` writes. If the file is damaged, run the "
        "playbook again.",
    ),
    _message(
        "estate-not-asked",
        "No host answered, so the state of the estate is unknown.",
        "Check that the control node can reach the hosts.",
    ),
)
