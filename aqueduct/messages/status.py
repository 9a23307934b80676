"""Messages of the state of an estate."""

from aqueduct.messages.message import Area, DeclaredMessage


def _message(id_: str, meaning: str, fix: str) -> DeclaredMessage:
    return DeclaredMessage(id=id_, area=Area.STATUS, meaning=meaning, fix=fix)


STATUS = (
    _message(
        "host-not-answering",
        "A host did not answer, so the state of all objects that only it knows is unknown.",
        "Check that the host runs and that the control node reaches it by SSH.",
    ),
    _message(
        "exporter-principal-wrong",
        "Metrics of a host were answered with the certificate of another service, so they are not used.",
        "Check what listens at the port of metrics on this host. Another service with a certificate for the "
        "host's name may be compromised. `playbooks/monitoring.yml` starts `monitoring.service`.",
    ),
    _message(
        "object-not-answered",
        "The hosts of an object answered, but not about this object.",
        "Run the command in the message on the host, and read its error.",
    ),
    _message(
        "unit-not-active",
        "A systemd unit that the inventory declares is not active.",
        "Read its journal, correct the cause and start the unit.",
    ),
    _message(
        "unit-failed",
        "A systemd unit of the host failed.",
        "Read its journal. `systemctl reset-failed UNIT` clears a failure that is repaired.",
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
        "Run `playbooks/site.yml`, or provide a new file if you sign certificates.",
    ),
    _message(
        "authority-expiring",
        "The certificate of the certificate authority has expired, or expires within the limit.",
        "Replace the authority with `playbooks/authority.yml`, or provide another one.",
    ),
    _message(
        "partitions-offline",
        "Partitions have no leader, so nothing can be read from them or written to them.",
        "Start the brokers that have their replicas.",
    ),
    _message(
        "partitions-under-replicated",
        "Partitions have fewer in-sync replicas than replicas.",
        "Start the broker that is missing, or wait until it has caught up.",
    ),
    _message(
        "cluster-node-unhealthy",
        "A broker is fenced or not expected, or a controller does not follow the quorum.",
        "Read the journal of the node.",
    ),
    _message(
        "node-not-in-cluster",
        "The cluster does not count on a declared broker or controller.",
        "Read the journal of the node, and start it.",
    ),
    _message(
        "mirror-not-well",
        "A mirror does not run as declared, or lost records.",
        "Follow the remedy in the message.",
    ),
    _message(
        "link-records-missing",
        "Records of a one-way link did not arrive.",
        "Send them again with `playbooks/resend.yml`.",
    ),
    _message(
        "link-not-current",
        "What the ledger of a link knows is old, or incomplete, so later losses are unknown.",
        "Check that both ends of the link and dedup run.",
    ),
    _message(
        "link-records-lost",
        "Records of a one-way link were deleted at the source before they could be sent again.",
        "Read the ranges with `aqueduct diode lost`. Resend more often, or raise the retention of the "
        "source's topics. `status_lost_records` is the accepted number.",
    ),
    _message(
        "link-silent",
        "The receiving end of a one-way link receives no keepalive of the live sender.",
        "Check the sending end, its network card and the cable. A resend does not replace the live sender.",
    ),
    _message(
        "lag-over-limit",
        "A flow, a link or a landing lags by more than the limit.",
        "Read the journal of the service, or raise `status_lag_records` or `status_lag_seconds`.",
    ),
    _message(
        "time-in-future",
        "A time that a host or a store reports is in the future, so its age is unknown.",
        "Synchronise the clocks with NTP. A snapshot with such a time counts as unknown until it is pruned.",
    ),
    _message(
        "rounds-standing-still",
        "A service has ended no round for longer than the limit.",
        "Read the journal of the service.",
    ),
    _message(
        "connector-not-running",
        "A connector, or one of its tasks, is missing or not in the declared state.",
        "Correct the cause in the message, and run `playbooks/connectors.yml`.",
    ),
    _message(
        "connector-topic-missing",
        "A topic or pattern of a sink matches no topic of its cluster, so the sink delivers nothing of it.",
        "Correct `topics` or `topics.regex` in `connect_connectors` and run `playbooks/connectors.yml`, or "
        "create the topic.",
    ),
    _message(
        "dead-letters-waiting",
        "A connector has more dead-letter records than the limit that were not sent back.",
        "Correct the cause, and run `playbooks/dlq_replay.yml`; or raise `status_dead_letters`.",
    ),
    _message(
        "landing-skips",
        "A landing skips a topic or a partition, or the lag of a partition cannot be measured.",
        "Follow the reason in the message.",
    ),
    _message(
        "landing-catalogue-behind",
        "The Hive metastore lacks what has landed, or does not answer.",
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
        "The newest round of a backup skipped topics, partitions or groups, or Kafka had deleted records "
        "before the round read them.",
        "Read the journal of the unit `backup`, which lists them, and correct the cause. If records were "
        "deleted, back up more often, or raise the retention.",
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
        "The last verify of a backup found damage, or failed.",
        "Read the journal of the unit `backup_verify`. Copy damaged objects from a copy of the store.",
    ),
    _message(
        "backup-verify-old",
        "The last verify of a backup that found no damage is older than the limit.",
        "Run the command in the message, and read the journal of the unit `backup_verify`.",
    ),
    _message("drill-missing", "No drill has run, or none was successful.", "Run `playbooks/drill.yml`."),
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
        "The file of `--facts` cannot be read, or is not a file of facts.",
        "Pass the file that `playbooks/status.yml` wrote.",
    ),
    _message(
        "estate-file-invalid",
        "The file of `--estate` cannot be read, or is not a list of what an inventory declares.",
        "Pass `estate.json`, which `playbooks/monitoring.yml` writes. If it is damaged, run the playbook.",
    ),
    _message(
        "estate-not-asked",
        "No host answered, so nothing is known about the estate.",
        "Check that the control node reaches the hosts.",
    ),
)
