"""Messages about software and certificates on the control node."""

from aqueduct.messages.message import Area, DeclaredMessage

CONTROL_NODE = (
    DeclaredMessage(
        id="distribution-unsupported",
        area=Area.CONTROL_NODE,
        meaning="A host of the inventory has no `apt`, from which Aqueduct installs packages. The RPM family "
        "is not supported.",
        fix="Use a host with Debian 12 or 13.",
    ),
    DeclaredMessage(
        id="artifact-digest-unknown",
        area=Area.CONTROL_NODE,
        meaning="No lock file has the SHA-256 of a software to install.",
        fix="Use a version that `artifacts/` lists, or add the digest.",
    ),
    DeclaredMessage(
        id="artifact-digest-mismatch",
        area=Area.CONTROL_NODE,
        meaning="Downloaded or cached software does not have the expected SHA-256. Nothing was installed.",
        fix=(
            "Check which user or program changed the file or the digest. Move a wrong file out of "
            "the cache, and run the command again."
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
        fix="Correct the variable in the message.",
    ),
    DeclaredMessage(
        id="maven-missing",
        area=Area.CONTROL_NODE,
        meaning="Maven is not installed on the control node.",
        fix="Run `apt-get install maven`, or declare a URL.",
    ),
    DeclaredMessage(
        id="maven-coordinates-invalid",
        area=Area.CONTROL_NODE,
        meaning="The Maven coordinates of a software have a wrong form.",
        fix="Write `group:artifact:version[:type[:classifier]]`.",
    ),
    DeclaredMessage(
        id="authority-missing",
        area=Area.CONTROL_NODE,
        meaning="The control node does not have the estate's certificate authority.",
        fix=(
            "Run `playbooks/hosts.yml` without `--tags`. If the authority is on another control node, run it "
            "there."
        ),
    ),
    DeclaredMessage(
        id="authority-step-early",
        area=Area.CONTROL_NODE,
        meaning=(
            "A step of replacing the certificate authority was run too early, or again after the end. "
            "Nothing was changed."
        ),
        fix="Run the step that the message identifies.",
    ),
    DeclaredMessage(
        id="private-key-unsupported",
        area=Area.CONTROL_NODE,
        meaning="A private key on the control node is not an elliptic-curve key.",
        fix="Move the file away. The next run creates another key.",
    ),
    DeclaredMessage(
        id="public-key-invalid",
        area=Area.CONTROL_NODE,
        meaning="A host sent something other than a public key on the curve P-256, so nothing was signed.",
        fix="Check the host: its software may be old, or another program changed the file.",
    ),
    DeclaredMessage(
        id="authority-step-incomplete",
        area=Area.CONTROL_NODE,
        meaning="A step of a replacement of the authority did not reach all hosts.",
        fix="Remove the cause on the hosts in the message, and run the step again before the next one.",
    ),
    DeclaredMessage(
        id="authority-step-missing",
        area=Area.CONTROL_NODE,
        meaning="The replacement of the authority was started without a valid step, or with `--limit`.",
        fix=(
            "Run it three times without `--limit`, with `-e step=introduce`, `-e step=switch` and `-e "
            "step=retire`."
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
        meaning="A node keeps its metadata in another mode than the inventory declares.",
        fix=(
            "Set `kafka_metadata` to the mode of the node, or continue the migration with "
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
        meaning="Topics or brokers of a cluster differ from the inventory. All other changes are applied.",
        fix="Correct the inventory or the cluster, as the message describes.",
    ),
    DeclaredMessage(
        id="first-controller-missing",
        area=Area.CONTROL_NODE,
        meaning="A new site would be deployed without its first controller.",
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
        fix="Correct the inventory, as the message describes.",
    ),
    DeclaredMessage(
        id="migration-step-refused",
        area=Area.CONTROL_NODE,
        meaning="A step of the migration to KRaft is not possible now.",
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
        meaning="A service of a host was started, and did not become ready in time.",
        fix=(
            "Read the reason and the lines of the journal in the message, remove the cause, and run the "
            "playbook again."
        ),
    ),
    DeclaredMessage(
        id="role-called-directly",
        area=Area.CONTROL_NODE,
        meaning="A role was included without the entry point that does its work.",
        fix="Run the playbook in the message, or include one of the entry points.",
    ),
    DeclaredMessage(
        id="plan-not-confirmed",
        area=Area.CONTROL_NODE,
        meaning=(
            "A playbook that changes a damaged cluster has shown its plan, and needs a "
            "confirmation to run it."
        ),
        fix="Read the plan, then run the playbook again with the variable in the message.",
    ),
    DeclaredMessage(
        id="metastore-schema-newer",
        area=Area.CONTROL_NODE,
        meaning=(
            "The database of a metastore has a newer schema than this version of Hive, and no tool converts "
            "it back."
        ),
        fix=(
            "Set the version that the database had, another database, or restore the dump from before the "
            "upgrade."
        ),
    ),
    DeclaredMessage(
        id="metastore-schema-undumped",
        area=Area.CONTROL_NODE,
        meaning=(
            "The schema of an external database would be upgraded, without a confirmation that a "
            "dump of the database exists."
        ),
        fix="Stop all metastores that use the database, dump it, and pass the variable in the message.",
    ),
    DeclaredMessage(
        id="metastore-upgrade-failed",
        area=Area.CONTROL_NODE,
        meaning="The schema upgrade of a metastore failed before it was complete.",
        fix=(
            "Restore the database from the dump in the message, remove the cause that the tool reports, and "
            "run the playbook again."
        ),
    ),
    DeclaredMessage(
        id="inventory-check-failed",
        area=Area.CONTROL_NODE,
        meaning="The inventory has errors, so no host was contacted.",
        fix="Correct each finding in the list. Each has its own identifier.",
    ),
    DeclaredMessage(
        id="path-unsafe",
        area=Area.CONTROL_NODE,
        meaning=(
            "A path on a host contains a link or a folder that a user other than root can change, "
            "or its file is too large."
        ),
        fix=(
            "Check which user created the link or changed the owner on the host, and restore the "
            "path as the message describes."
        ),
    ),
    DeclaredMessage(
        id="host-user-missing",
        area=Area.CONTROL_NODE,
        meaning="The owner or the group of a file or folder does not exist on the host.",
        fix="Run `playbooks/hosts.yml` for the host. It creates users and groups.",
    ),
    DeclaredMessage(
        id="host-folder-missing",
        area=Area.CONTROL_NODE,
        meaning="The folder of a new file does not exist on the host.",
        fix="Run `playbooks/hosts.yml` for the host. It creates the folders.",
    ),
    DeclaredMessage(
        id="host-file-missing",
        area=Area.CONTROL_NODE,
        meaning="A file that a playbook reads does not exist on the host.",
        fix="Run the playbook that creates it, or check the path.",
    ),
    DeclaredMessage(
        id="host-file-unwritable",
        area=Area.CONTROL_NODE,
        meaning="A file that a playbook writes on a host cannot be written.",
        fix=(
            "Correct the cause in the message, for example a missing home folder, and run the playbook again."
        ),
    ),
    DeclaredMessage(
        id="ssh-key-invalid",
        area=Area.CONTROL_NODE,
        meaning="The text to authorize for SSH is not an OpenSSH public key.",
        fix=(
            "Check the backup host, which answers with the key: it may be compromised. Then run "
            "`playbooks/file_backups.yml` again."
        ),
    ),
    DeclaredMessage(
        id="host-command-failed",
        area=Area.CONTROL_NODE,
        meaning="A command that a playbook ran on a host failed.",
        fix="Correct the cause in the message of the command, and run the playbook again.",
    ),
    DeclaredMessage(
        id="host-module-failed",
        area=Area.CONTROL_NODE,
        meaning="A module of Ansible failed on a host, or could not run there.",
        fix="Correct the cause in the message of the module, and run the playbook again.",
    ),
    DeclaredMessage(
        id="host-answer-wrong",
        area=Area.CONTROL_NODE,
        meaning=("The answer of a host does not come from the module of Aqueduct. Nothing was signed."),
        fix="Check which user controls the host before you run the playbook again.",
    ),
    DeclaredMessage(
        id="host-software-incomplete",
        area=Area.CONTROL_NODE,
        meaning="A host still lacks software after it was installed several times.",
        fix="Check whether another program removes it, and run `playbooks/hosts.yml` again.",
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
        meaning="A folder that a group shares needs a default ACL, and its file system has none.",
        fix="Use a file system with ACLs for the folder, for example ext4 or XFS.",
    ),
    DeclaredMessage(
        id="java-package-missing",
        area=Area.CONTROL_NODE,
        meaning=(
            "The distribution of a host has no Java 17, which HDFS, the metastore and the SQL server need."
        ),
        fix="Put these roles on a host with Debian 12.",
    ),
    DeclaredMessage(
        id="artifact-name-unknown",
        area=Area.CONTROL_NODE,
        meaning="A host asked for software that its roles do not declare.",
        fix="Report it as a fault of Aqueduct, with the name in the message.",
    ),
    DeclaredMessage(
        id="artifact-archive-refused",
        area=Area.CONTROL_NODE,
        meaning=(
            "An archive of software contains an entry that must not be unpacked, such as a path outside of "
            "it. It was not installed."
        ),
        fix="Check where the archive comes from, and use an unchanged one.",
    ),
    DeclaredMessage(
        id="role-declaration-invalid",
        area=Area.CONTROL_NODE,
        meaning="A role declares its needs or its state in a wrong form.",
        fix="Correct `_ROLE_needs` or `_ROLE_status` in `vars/main.yml` of the role.",
    ),
    DeclaredMessage(
        id="unit-not-working",
        area=Area.CONTROL_NODE,
        meaning=(
            "A unit of systemd could not be started or stopped, is not ready in time, or does not keep "
            "running."
        ),
        fix="Read the lines of the journal in the message, remove the cause, and run the playbook again.",
    ),
    DeclaredMessage(
        id="unit-waiting",
        area=Area.CONTROL_NODE,
        meaning=(
            "A service ends and is restarted, because it waits for something that another service creates."
        ),
        fix="Run the playbook of the other service, or wait until it has created it.",
    ),
    DeclaredMessage(
        id="unit-already-running",
        area=Area.CONTROL_NODE,
        meaning="A command that may run only once at a time still runs on the host.",
        fix="Wait until it has ended, or stop it, with the command in the message.",
    ),
    DeclaredMessage(
        id="unit-ended-otherwise",
        area=Area.CONTROL_NODE,
        meaning="A signal or a time limit ended a command on a host.",
        fix="Read its journal on the host, and run the playbook again.",
    ),
    DeclaredMessage(
        id="service-key-unusable",
        area=Area.CONTROL_NODE,
        meaning=(
            "The certificate of a service, or the one of the authority, cannot be read or used on the host."
        ),
        fix="Run the service's playbook, which writes both, or restore the permissions of the files.",
    ),
    DeclaredMessage(
        id="hdfs-not-ready",
        area=Area.CONTROL_NODE,
        meaning="The NameNode does not answer, is in safe mode, or does not have the DataNode of the host.",
        fix=(
            "Start the NameNode and all DataNodes, and check that they reach each other under the "
            "names in the message."
        ),
    ),
    DeclaredMessage(
        id="hdfs-folder-unavailable",
        area=Area.CONTROL_NODE,
        meaning="A folder of HDFS cannot be created, or cannot get its owner and mode.",
        fix="Correct the cause in the message of the NameNode.",
    ),
    DeclaredMessage(
        id="spark-not-ready",
        area=Area.CONTROL_NODE,
        meaning="A process of Spark does not answer, or a worker is not registered with a master.",
        fix=(
            "Start the masters, and check that workers have the same secret and reach the masters "
            "under the names in the message."
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
        meaning="A step of the migration to KRaft did not end in time.",
        fix="Check the nodes in the message and their journals, and run the same command again.",
    ),
)
