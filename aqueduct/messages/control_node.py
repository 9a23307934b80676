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
        meaning="No lock file has the SHA-256 of software that is to be installed.",
        fix="Use a version that `artifacts/` lists, or add the digest.",
    ),
    DeclaredMessage(
        id="artifact-digest-mismatch",
        area=Area.CONTROL_NODE,
        meaning="Downloaded or cached software does not have the expected SHA-256. Nothing was installed.",
        fix=(
            "Find out who changed the file or the digest. Move a wrong file out of the cache, and run the "
            "command again."
        ),
    ),
    DeclaredMessage(
        id="artifact-unavailable",
        area=Area.CONTROL_NODE,
        meaning="Software could not be downloaded or built.",
        fix="Correct the reason in the message, and check that the control node reaches the source.",
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
        meaning="Software is declared by Maven coordinates of a wrong form.",
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
        meaning="A private key on the control node is not a key of an elliptic curve.",
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
        meaning="A broker cannot take part in a migration to KRaft with its present settings.",
        fix="Correct the settings in the message, run `playbooks/kafka.yml`, and run the migration again.",
    ),
    DeclaredMessage(
        id="migration-site-unfit",
        area=Area.CONTROL_NODE,
        meaning="A site cannot be migrated to KRaft as it is declared.",
        fix="Correct the inventory, as the message describes.",
    ),
    DeclaredMessage(
        id="migration-step-refused",
        area=Area.CONTROL_NODE,
        meaning="A step of the migration to KRaft is not possible now.",
        fix="Run the step in the message first, or pass the option that it has.",
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
            "A playbook that changes a damaged cluster has shown its plan, and was not told to carry it out."
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
            "The schema of an external database would be upgraded, and nobody has confirmed that a dump of it"
            " exists."
        ),
        fix="Stop all metastores that use the database, dump it, and pass the variable in the message.",
    ),
    DeclaredMessage(
        id="metastore-upgrade-failed",
        area=Area.CONTROL_NODE,
        meaning="The upgrade of a metastore's schema failed in the middle.",
        fix=(
            "Restore the database from the dump in the message, remove the cause that the tool reports, and "
            "run the playbook again."
        ),
    ),
)
