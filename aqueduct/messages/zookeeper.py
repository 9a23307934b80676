"""Messages about ZooKeeper ensembles."""

from aqueduct.messages.message import Area, DeclaredMessage

ZOOKEEPER = (
    DeclaredMessage(
        id="quorum-key-unreadable",
        area=Area.ZOOKEEPER,
        meaning="A file with a server's key or with certificates of the quorum cannot be read, or is a link.",
        fix="Run `playbooks/hosts.yml`, which brings the key, and then `playbooks/zookeeper.yml`.",
    ),
    DeclaredMessage(
        id="quorum-key-unsafe",
        area=Area.ZOOKEEPER,
        meaning=(
            "A file with a server's key or with certificates of the quorum is not a plain file of the "
            "service's user or of root. The service may have made it."
        ),
        fix=(
            "Find out who made the file. Remove it, and run `playbooks/hosts.yml` and then "
            "`playbooks/zookeeper.yml`. This deletes the key; the playbooks make another one."
        ),
    ),
    DeclaredMessage(
        id="zookeeper-unreachable",
        area=Area.ZOOKEEPER,
        meaning="No server of the ensemble answers, or the servers stopped answering.",
        fix=(
            "Check the addresses, the TLS settings of the client and the logs of the servers, and run the "
            "command again."
        ),
    ),
    DeclaredMessage(
        id="zookeeper-access-refused",
        area=Area.ZOOKEEPER,
        meaning="An ACL of a znode does not allow the client to read or change it.",
        fix="Use the certificate of a broker.",
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
        meaning="The ensemble does not have the znode below which the cluster is.",
        fix=(
            "Correct the chroot after the addresses: it is in `zookeeper.connect` of the brokers. For a "
            "restore that creates it, pass it with `--prefix`."
        ),
    ),
    DeclaredMessage(
        id="znode-parent-ephemeral",
        area=Area.ZOOKEEPER,
        meaning="A znode cannot be created, because the one above it is ephemeral: it belongs to a session.",
        fix="Use another chroot or `--prefix`, or stop the client of the session.",
    ),
    DeclaredMessage(
        id="znode-malformed",
        area=Area.ZOOKEEPER,
        meaning="A znode of Kafka has content that no broker writes.",
        fix=(
            "If the snapshot has it, pass another one with `--snapshot`. If the ensemble has it, restore "
            "the znode."
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
        meaning="The target is below `/zookeeper`, which belongs to the ensemble itself.",
        fix="Pass another `--prefix`.",
    ),
    DeclaredMessage(
        id="znode-not-kept",
        area=Area.ZOOKEEPER,
        meaning="The snapshot lacks a znode: the client may not read it, or its ACL cannot be restored.",
        fix="Use the certificate of a broker, or correct the ACL of the znode, and back up again.",
    ),
    DeclaredMessage(
        id="snapshot-without-cluster",
        area=Area.ZOOKEEPER,
        meaning="The snapshot does not identify a Kafka cluster, so no logs can be compared with it.",
        fix="Pass another snapshot with `--snapshot`, or run the command without `--inspection`.",
    ),
    DeclaredMessage(
        id="zookeeper-id-differs",
        area=Area.ZOOKEEPER,
        meaning="A data directory is of another server than `zookeeper_id` declares.",
        fix=(
            "Set `zookeeper_id` to the number in the message, or copy the data directory of the declared "
            "server."
        ),
    ),
    DeclaredMessage(
        id="zookeeper-data-outvoted",
        area=Area.ZOOKEEPER,
        meaning=(
            "A minority of the servers has data. The others would outvote it, and all znodes would be lost."
        ),
        fix="Stop brokers and servers, copy the data to the other servers, and run the playbook again.",
    ),
    DeclaredMessage(
        id="zookeeper-site-unfit",
        area=Area.ZOOKEEPER,
        meaning=(
            "The run has several sites, lacks the server that restores the znodes, or has a site without a "
            "backup of its ensemble."
        ),
        fix="Pass one site with `--limit`. Set `zookeeper_backup_store_url` if it is missing.",
    ),
    DeclaredMessage(
        id="zookeeper-not-ready",
        area=Area.ZOOKEEPER,
        meaning="A server does not answer, or the ensemble does not have exactly one leader.",
        fix="Start the servers in the message, and check that they reach each other.",
    ),
    DeclaredMessage(
        id="quorum-key-untrusted",
        area=Area.ZOOKEEPER,
        meaning=(
            "Other servers of the ensemble do not trust the new certificate of a server, which keeps its "
            "former one."
        ),
        fix="Repair the servers in the message, and run the playbook again.",
    ),
    DeclaredMessage(
        id="quorum-keys-unavailable",
        area=Area.ZOOKEEPER,
        meaning="The files of the ensemble's keys cannot be read or written on the host.",
        fix="Correct the reason in the message, and run the playbook again.",
    ),
)
