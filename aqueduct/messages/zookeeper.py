"""Messages about ZooKeeper ensembles."""

from aqueduct.messages.message import Area, DeclaredMessage

ZOOKEEPER = (
    DeclaredMessage(
        id="quorum-key-unreadable",
        area=Area.ZOOKEEPER,
        meaning=(
            "A file with the key of a ZooKeeper server or with certificates of the quorum cannot be "
            "read, or is a link."
        ),
        fix="Run `playbooks/hosts.yml`, which installs the key. Then run `playbooks/zookeeper.yml`.",
    ),
    DeclaredMessage(
        id="quorum-key-unsafe",
        area=Area.ZOOKEEPER,
        meaning=(
            "A file with the key of a ZooKeeper server or with certificates of the quorum is not a regular "
            "file, or has a wrong owner. A compromised service may have created the file."
        ),
        fix=(
            "Find out which user created the file. Remove the file, which deletes the key. Run "
            "`playbooks/hosts.yml` and then `playbooks/zookeeper.yml`, which create a new key."
        ),
    ),
    DeclaredMessage(
        id="zookeeper-unreachable",
        area=Area.ZOOKEEPER,
        meaning="No server of the ZooKeeper ensemble answers, or the servers stopped answering.",
        fix=(
            "Check the addresses, the TLS settings of the client and the logs of the servers, and run the "
            "command again."
        ),
    ),
    DeclaredMessage(
        id="zookeeper-access-refused",
        area=Area.ZOOKEEPER,
        meaning="The ACL of a znode does not allow the client to read or change the znode.",
        fix="Use the client certificate of a broker.",
    ),
    DeclaredMessage(
        id="zookeeper-request-failed",
        area=Area.ZOOKEEPER,
        meaning="The ensemble rejected a request.",
        fix="Check the error in the message and the logs of the servers.",
    ),
    DeclaredMessage(
        id="zookeeper-chroot-missing",
        area=Area.ZOOKEEPER,
        meaning="The ensemble does not have the root znode (chroot) of the Kafka cluster.",
        fix=(
            "Correct the chroot after the addresses. `zookeeper.connect` of the brokers contains the "
            "chroot. If a restore should create the chroot, pass it with `--prefix`."
        ),
    ),
    DeclaredMessage(
        id="znode-parent-ephemeral",
        area=Area.ZOOKEEPER,
        meaning=(
            "A znode cannot be created, because its parent znode is ephemeral and belongs to a client "
            "session."
        ),
        fix="Use another chroot or another `--prefix`, or stop the client of the session.",
    ),
    DeclaredMessage(
        id="znode-malformed",
        area=Area.ZOOKEEPER,
        meaning="A znode of Kafka contains data that no broker writes.",
        fix=(
            "If the znode in the snapshot is wrong, pass another snapshot with `--snapshot`. If the znode "
            "in the ensemble is wrong, restore the znode."
        ),
    ),
    DeclaredMessage(
        id="znode-unknown",
        area=Area.ZOOKEEPER,
        meaning="`--overwrite` lists a path that the snapshot does not have.",
        fix="Correct the path. `aqueduct zookeeper restore --dry-run` lists the paths that differ.",
    ),
    DeclaredMessage(
        id="znode-prefix-reserved",
        area=Area.ZOOKEEPER,
        meaning="The target is below `/zookeeper`, which ZooKeeper itself uses.",
        fix="Pass another `--prefix`.",
    ),
    DeclaredMessage(
        id="znode-not-kept",
        area=Area.ZOOKEEPER,
        meaning=(
            "The snapshot lacks a znode: the client may not read the znode, or the ACL of the znode "
            "cannot be restored."
        ),
        fix="Use the client certificate of a broker, or correct the ACL of the znode. Then back up again.",
    ),
    DeclaredMessage(
        id="snapshot-without-cluster",
        area=Area.ZOOKEEPER,
        meaning=(
            "The snapshot contains no Kafka cluster ID, so logs of brokers cannot be compared with the "
            "snapshot."
        ),
        fix="Pass another snapshot with `--snapshot`, or run the command without `--inspection`.",
    ),
    DeclaredMessage(
        id="zookeeper-id-differs",
        area=Area.ZOOKEEPER,
        meaning="A data directory belongs to another server than `zookeeper_id` declares.",
        fix=(
            "Set `zookeeper_id` to the number in the message, or copy the data directory of the declared "
            "server."
        ),
    ),
    DeclaredMessage(
        id="zookeeper-data-outvoted",
        area=Area.ZOOKEEPER,
        meaning=(
            "Only a minority of the servers has data. The servers without data would have the majority, and "
            "all znodes would be lost."
        ),
        fix="Stop brokers and servers, copy the data to the other servers, and run the playbook again.",
    ),
    DeclaredMessage(
        id="zookeeper-site-unfit",
        area=Area.ZOOKEEPER,
        meaning=(
            "The run selects several sites, lacks the server that restores the znodes, or selects a site "
            "without a backup of its ensemble."
        ),
        fix="Pass one site with `--limit`. Set `zookeeper_backup_store_url` if it is missing.",
    ),
    DeclaredMessage(
        id="zookeeper-not-ready",
        area=Area.ZOOKEEPER,
        meaning="A server does not answer, or the ensemble does not have exactly one leader.",
        fix="Start the servers in the message. Check that the servers can reach each other.",
    ),
    DeclaredMessage(
        id="quorum-key-untrusted",
        area=Area.ZOOKEEPER,
        meaning=(
            "Other servers of the ensemble do not trust the new certificate of a server. This server keeps "
            "its former certificate."
        ),
        fix="Repair the servers in the message, and run the playbook again.",
    ),
    DeclaredMessage(
        id="quorum-keys-unavailable",
        area=Area.ZOOKEEPER,
        meaning="The files of the ensemble's keys cannot be read or written on the host.",
        fix="Correct the cause in the message, and run the playbook again.",
    ),
)
