"""Messages about software and certificates on the control node."""

from aqueduct.messages.message import Area, DeclaredMessage

CONTROL_NODE = (
    DeclaredMessage(
        id="distribution-unsupported",
        area=Area.CONTROL_NODE,
        meaning=(
            "A host of the inventory has no `apt`. Aqueduct installs packages with `apt` only. RPM "
            "distributions are not supported."
        ),
        fix="Use a host with Debian 12 or 13.",
    ),
    DeclaredMessage(
        id="artifact-digest-unknown",
        area=Area.CONTROL_NODE,
        meaning="No lock file contains the SHA-256 digest of a software package.",
        fix="Use a version that `artifacts/` lists, or add the digest of the version.",
    ),
    DeclaredMessage(
        id="artifact-digest-mismatch",
        area=Area.CONTROL_NODE,
        meaning=(
            "A downloaded or cached software package does not have the expected SHA-256 digest. Nothing "
            "was installed."
        ),
        fix=(
            "Check which user or program changed the file or the digest. Move the wrong file out of the "
            "cache, and run the command again."
        ),
    ),
    DeclaredMessage(
        id="artifact-unavailable",
        area=Area.CONTROL_NODE,
        meaning="Software could not be downloaded or built.",
        fix="Correct the cause in the message, and check that the control node reaches the source.",
    ),
    DeclaredMessage(
        id="artifact-content-wrong",
        area=Area.CONTROL_NODE,
        meaning="A downloaded archive does not contain the expected file.",
        fix="Correct the variable that the message shows.",
    ),
    DeclaredMessage(
        id="maven-missing",
        area=Area.CONTROL_NODE,
        meaning="Maven is not installed on the control node.",
        fix="Run `apt-get install maven` on the control node, or declare a URL.",
    ),
    DeclaredMessage(
        id="maven-coordinates-invalid",
        area=Area.CONTROL_NODE,
        meaning="The Maven coordinates of a software package have a wrong form.",
        fix="Write `group:artifact:version[:type[:classifier]]`.",
    ),
    DeclaredMessage(
        id="authority-missing",
        area=Area.CONTROL_NODE,
        meaning="The control node does not have the estate's certificate authority.",
        fix=(
            "Run `playbooks/hosts.yml` without `--tags`. If another control node has the certificate "
            "authority, run the playbook on that control node."
        ),
    ),
    DeclaredMessage(
        id="authority-step-early",
        area=Area.CONTROL_NODE,
        meaning=(
            "A step of the replacement of the certificate authority was run too early, or after the "
            "replacement was complete. Nothing was changed."
        ),
        fix="Run the step in the message.",
    ),
    DeclaredMessage(
        id="private-key-unsupported",
        area=Area.CONTROL_NODE,
        meaning="A private key on the control node is not an elliptic-curve key.",
        fix="Move the file to another folder. The next run creates a new key.",
    ),
    DeclaredMessage(
        id="public-key-invalid",
        area=Area.CONTROL_NODE,
        meaning="A host sent data that are not a public key on the curve P-256. Nothing was signed.",
        fix="Check the host. Its software may be too old, or another program may have changed the file.",
    ),
    DeclaredMessage(
        id="authority-step-incomplete",
        area=Area.CONTROL_NODE,
        meaning="A step of the replacement of the certificate authority did not run on all hosts.",
        fix="Correct the cause on the hosts in the message. Run this step again before the next step.",
    ),
    DeclaredMessage(
        id="authority-step-missing",
        area=Area.CONTROL_NODE,
        meaning=(
            "The replacement of the certificate authority was started without a valid step, or with "
            "`--limit`."
        ),
        fix=(
            "Run `playbooks/authority.yml` three times without `--limit`: with `-e step=introduce`, then "
            "with `-e step=switch`, then with `-e step=retire`."
        ),
    ),
    DeclaredMessage(
        id="site-without-brokers",
        area=Area.CONTROL_NODE,
        meaning=(
            "The site does not exist, has no brokers, or its brokers do not keep their metadata in KRaft "
            "as the playbook requires."
        ),
        fix="Correct `-e site`.",
    ),
    DeclaredMessage(
        id="site-without-controllers",
        area=Area.CONTROL_NODE,
        meaning="The site does not exist, or has no controllers.",
        fix="Correct `-e site`.",
    ),
    DeclaredMessage(
        id="restore-site-missing",
        area=Area.CONTROL_NODE,
        meaning="The playbook was started without a site to restore.",
        fix="Pass one of the sites in the message with `-e site`.",
    ),
    DeclaredMessage(
        id="kafka-metadata-elsewhere",
        area=Area.CONTROL_NODE,
        meaning=(
            "The metadata mode of a node (ZooKeeper or KRaft) differs from the mode that the inventory "
            "declares."
        ),
        fix=(
            "Set `kafka_metadata` to the metadata mode of the node, or continue the migration with "
            "`playbooks/migrate_to_kraft.yml`."
        ),
    ),
    DeclaredMessage(
        id="controller-not-declared",
        area=Area.CONTROL_NODE,
        meaning="A site has no controller.",
        fix="Add `controller` to `kafka_roles` of one, three or five of its hosts.",
    ),
    DeclaredMessage(
        id="cluster-differs-from-inventory",
        area=Area.CONTROL_NODE,
        meaning="Topics or brokers of a cluster differ from the inventory. All other changes were applied.",
        fix="Correct the inventory or the cluster as the message describes.",
    ),
    DeclaredMessage(
        id="first-controller-missing",
        area=Area.CONTROL_NODE,
        meaning="The run would deploy a new site without its first controller.",
        fix="Omit `--limit`, or pass the whole site.",
    ),
    DeclaredMessage(
        id="migration-broker-unfit",
        area=Area.CONTROL_NODE,
        meaning="The settings of a broker do not allow a migration to KRaft.",
        fix="Correct the settings in the message, run `playbooks/kafka.yml`, and run the migration again.",
    ),
    DeclaredMessage(
        id="migration-site-unfit",
        area=Area.CONTROL_NODE,
        meaning="The declaration of a site does not allow a migration to KRaft.",
        fix="Correct the inventory as the message describes.",
    ),
    DeclaredMessage(
        id="migration-step-refused",
        area=Area.CONTROL_NODE,
        meaning="A step of the migration to KRaft is not possible at this time.",
        fix="First run the step in the message, or pass the option in the message.",
    ),
    DeclaredMessage(
        id="extra-variable-unknown",
        area=Area.CONTROL_NODE,
        meaning="A variable of the command line does not exist in any role.",
        fix="Correct its name.",
    ),
    DeclaredMessage(
        id="service-not-ready",
        area=Area.CONTROL_NODE,
        meaning="A service of a host was started, but did not become ready within the time limit.",
        fix=(
            "Read the reason and the journal lines in the message. Correct the cause, and run the playbook "
            "again."
        ),
    ),
    DeclaredMessage(
        id="role-called-directly",
        area=Area.CONTROL_NODE,
        meaning="A role was included without one of its entry points.",
        fix="Run the playbook in the message, or include one of the entry points.",
    ),
    DeclaredMessage(
        id="plan-not-confirmed",
        area=Area.CONTROL_NODE,
        meaning=(
            "A playbook that changes a damaged cluster has shown its plan. The playbook runs the plan only "
            "with a confirmation."
        ),
        fix="Read the plan. Then run the playbook again with the variable in the message.",
    ),
    DeclaredMessage(
        id="metastore-schema-newer",
        area=Area.CONTROL_NODE,
        meaning=(
            "The database of a metastore has a newer schema than this version of Hive needs. No tool can "
            "convert the schema to the older version."
        ),
        fix=(
            "Set the Hive version of the database, or set another database. Or restore the dump that was "
            "made before the upgrade."
        ),
    ),
    DeclaredMessage(
        id="metastore-schema-undumped",
        area=Area.CONTROL_NODE,
        meaning=(
            "The playbook would upgrade the schema of an external database, but the run does not confirm "
            "that a dump of the database exists."
        ),
        fix=(
            "Stop all metastores that use the database. Make a dump of the database. Then pass the "
            "variable in the message."
        ),
    ),
    DeclaredMessage(
        id="metastore-upgrade-failed",
        area=Area.CONTROL_NODE,
        meaning="The schema upgrade of a metastore failed and is incomplete.",
        fix=(
            "Restore the database from the dump in the message. Correct the cause that the tool reports. "
            "Then run the playbook again."
        ),
    ),
    DeclaredMessage(
        id="inventory-check-failed",
        area=Area.CONTROL_NODE,
        meaning="The inventory has errors, so no host was contacted.",
        fix="Correct each finding in the list. Each finding has its own identifier.",
    ),
    DeclaredMessage(
        id="path-unsafe",
        area=Area.CONTROL_NODE,
        meaning=(
            "A path on a host contains a link, or a folder that a user other than root can change, or the "
            "file at the path is too large."
        ),
        fix=(
            "Check on the host which user created the link or changed the owner. Then restore the path as "
            "the message describes."
        ),
    ),
    DeclaredMessage(
        id="host-user-missing",
        area=Area.CONTROL_NODE,
        meaning="The owner or the group of a file or folder does not exist on the host.",
        fix="Run `playbooks/hosts.yml` for the host. The playbook creates users and groups.",
    ),
    DeclaredMessage(
        id="host-folder-missing",
        area=Area.CONTROL_NODE,
        meaning="The folder of a new file does not exist on the host.",
        fix="Run `playbooks/hosts.yml` for the host. The playbook creates the folders.",
    ),
    DeclaredMessage(
        id="host-file-missing",
        area=Area.CONTROL_NODE,
        meaning="A file that a playbook reads does not exist on the host.",
        fix="Run the playbook that creates the file, or check the path.",
    ),
    DeclaredMessage(
        id="host-file-unwritable",
        area=Area.CONTROL_NODE,
        meaning="A playbook cannot write a file on a host.",
        fix=(
            "Correct the cause in the message, for example a missing home folder, and run the playbook again."
        ),
    ),
    DeclaredMessage(
        id="ssh-key-invalid",
        area=Area.CONTROL_NODE,
        meaning="The text that the playbook would authorize for SSH is not an OpenSSH public key.",
        fix=(
            "Check the backup host, which sent the text. The backup host may be compromised. Then run "
            "`playbooks/file_backups.yml` again."
        ),
    ),
    DeclaredMessage(
        id="host-command-failed",
        area=Area.CONTROL_NODE,
        meaning="A command that a playbook ran on a host failed.",
        fix="Correct the cause that the command reports, and run the playbook again.",
    ),
    DeclaredMessage(
        id="host-module-failed",
        area=Area.CONTROL_NODE,
        meaning="An Ansible module failed on a host, or could not run on the host.",
        fix="Correct the cause that the module reports, and run the playbook again.",
    ),
    DeclaredMessage(
        id="host-answer-wrong",
        area=Area.CONTROL_NODE,
        meaning=("The answer of a host is not a result of Aqueduct's Ansible module. Nothing was signed."),
        fix="The host may be compromised. Check the host before you run the playbook again.",
    ),
    DeclaredMessage(
        id="host-software-incomplete",
        area=Area.CONTROL_NODE,
        meaning="A host lacks software, although the playbook installed the software several times.",
        fix="Check whether another program removes the software. Then run `playbooks/hosts.yml` again.",
    ),
    DeclaredMessage(
        id="host-package-outdated",
        area=Area.CONTROL_NODE,
        meaning="The Python package of Aqueduct on the host is older than the playbook.",
        fix="Run `playbooks/hosts.yml` for the host first.",
    ),
    DeclaredMessage(
        id="file-system-without-acls",
        area=Area.CONTROL_NODE,
        meaning=(
            "A folder that a group of users shares needs a default ACL, but its file system does not "
            "support ACLs."
        ),
        fix="Use a file system that supports ACLs for the folder, for example ext4 or XFS.",
    ),
    DeclaredMessage(
        id="java-package-missing",
        area=Area.CONTROL_NODE,
        meaning=(
            "The distribution of a host has no Java 17, which HDFS, the metastore and the SQL server need."
        ),
        fix="Assign these roles to a host with Debian 12.",
    ),
    DeclaredMessage(
        id="artifact-name-unknown",
        area=Area.CONTROL_NODE,
        meaning="A host asked for software that its roles do not declare.",
        fix="Report this as a fault of Aqueduct, with the name in the message.",
    ),
    DeclaredMessage(
        id="artifact-archive-refused",
        area=Area.CONTROL_NODE,
        meaning=(
            "A software archive contains an entry that must not be unpacked, such as a path outside the "
            "target folder. The archive was not installed."
        ),
        fix="Check the origin of the archive, and use an unchanged archive.",
    ),
    DeclaredMessage(
        id="role-declaration-invalid",
        area=Area.CONTROL_NODE,
        meaning="A role declares its required software or its status in a wrong form.",
        fix="Correct `_ROLE_needs` or `_ROLE_status` in `vars/main.yml` of the role.",
    ),
    DeclaredMessage(
        id="unit-not-working",
        area=Area.CONTROL_NODE,
        meaning=(
            "A systemd unit could not be started or stopped, was not ready within the time limit, or "
            "stopped again."
        ),
        fix="Read the journal lines in the message. Correct the cause, and run the playbook again.",
    ),
    DeclaredMessage(
        id="unit-waiting",
        area=Area.CONTROL_NODE,
        meaning=(
            "A service ends and is restarted repeatedly, because it waits for an object that another "
            "service creates."
        ),
        fix="Run the playbook of the other service, or wait until the other service has created the object.",
    ),
    DeclaredMessage(
        id="unit-already-running",
        area=Area.CONTROL_NODE,
        meaning="A command still runs on the host, and only one process of this command may run at a time.",
        fix="Wait until the command has ended, or stop the command as the message shows.",
    ),
    DeclaredMessage(
        id="unit-ended-otherwise",
        area=Area.CONTROL_NODE,
        meaning="A signal or a time limit ended a command on a host.",
        fix="Read the journal of the command on the host, and run the playbook again.",
    ),
    DeclaredMessage(
        id="service-key-unusable",
        area=Area.CONTROL_NODE,
        meaning=(
            "The certificate of a service, or the certificate of the authority, cannot be read or used on "
            "the host."
        ),
        fix=(
            "Run the playbook of the service, which writes both certificates, or restore the permissions "
            "of the files."
        ),
    ),
    DeclaredMessage(
        id="hdfs-not-ready",
        area=Area.CONTROL_NODE,
        meaning="The NameNode does not answer, is in safe mode, or does not list the DataNode of the host.",
        fix=(
            "Start the NameNode and all DataNodes. Check that they can reach each other under the names in "
            "the message."
        ),
    ),
    DeclaredMessage(
        id="hdfs-folder-unavailable",
        area=Area.CONTROL_NODE,
        meaning="A folder of HDFS cannot be created, or its owner and mode cannot be set.",
        fix="Correct the cause that the NameNode reports.",
    ),
    DeclaredMessage(
        id="spark-not-ready",
        area=Area.CONTROL_NODE,
        meaning="A Spark process does not answer, or a worker is not registered with a master.",
        fix=(
            "Start the masters. Check that workers and masters have the same secret, and that workers can "
            "reach the masters under the names in the message."
        ),
    ),
    DeclaredMessage(
        id="spark-host-loopback",
        area=Area.CONTROL_NODE,
        meaning="The name of a Spark host resolves to a loopback address, which other hosts cannot reach.",
        fix=(
            "Set `spark_host` to a name or address that all hosts of the cluster reach, or correct "
            "`/etc/hosts`."
        ),
    ),
    DeclaredMessage(
        id="migration-step-unfinished",
        area=Area.CONTROL_NODE,
        meaning="A step of the migration to KRaft did not end within the time limit.",
        fix="Check the nodes in the message, and read their journals. Then run the same command again.",
    ),
)
