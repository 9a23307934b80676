"""Messages about the inventory as a whole."""

from aqueduct.messages.message import Area, DeclaredMessage

INVENTORY = (
    DeclaredMessage(
        id="host-site-ambiguous",
        area=Area.INVENTORY,
        meaning="A host is in no group `site_*`, or in several.",
        fix="Put the host into exactly one group `site_NAME`.",
    ),
    DeclaredMessage(
        id="site-unknown",
        area=Area.INVENTORY,
        meaning="The inventory has no group of a site.",
        fix="Correct the name of the site, or add the group `site_NAME`.",
    ),
    DeclaredMessage(
        id="node-id-missing",
        area=Area.INVENTORY,
        meaning="A host of the group `kafka` has no `kafka_node_id`.",
        fix="Set a number that no other Kafka node of the site has.",
    ),
    DeclaredMessage(
        id="variable-required",
        area=Area.INVENTORY,
        meaning="Hosts need a variable that is not set: it has no default, or another setting requires it.",
        fix="Set it for the hosts in the message.",
    ),
    DeclaredMessage(
        id="variable-removed",
        area=Area.INVENTORY,
        meaning="A variable was removed in a release.",
        fix="Follow the message.",
    ),
    DeclaredMessage(
        id="variable-unknown",
        area=Area.INVENTORY,
        meaning="No role has the variable.",
        fix="Correct its name, or rename it so that it does not begin with the name of a role.",
    ),
    DeclaredMessage(
        id="value-not-decryptable",
        area=Area.INVENTORY,
        meaning="A value cannot be decrypted.",
        fix="Pass the password of the vault with `--vault-password-file` or `--ask-vault-pass`.",
    ),
    DeclaredMessage(
        id="variable-undefined",
        area=Area.INVENTORY,
        meaning="A value uses a variable that is not set.",
        fix="Set it. If it is a secret, set it in a vault.",
    ),
    DeclaredMessage(
        id="value-empty",
        area=Area.INVENTORY,
        meaning="A variable or a key has no value.",
        fix="Give it a value, or remove the line.",
    ),
    DeclaredMessage(
        id="value-type-wrong",
        area=Area.INVENTORY,
        meaning="A value has the wrong type.",
        fix="Write a value of the type in the message.",
    ),
    DeclaredMessage(
        id="value-not-allowed",
        area=Area.INVENTORY,
        meaning="A value is not one of the allowed ones.",
        fix="Use one of the values in the message.",
    ),
    DeclaredMessage(
        id="key-unknown",
        area=Area.INVENTORY,
        meaning="A declaration has a key that does not exist.",
        fix="Correct the key.",
    ),
    DeclaredMessage(
        id="key-missing",
        area=Area.INVENTORY,
        meaning="A declaration lacks a key that is required.",
        fix="Add the key.",
    ),
    DeclaredMessage(
        id="number-out-of-range",
        area=Area.INVENTORY,
        meaning="A number is too small or too large.",
        fix="Use a number of the range in the message.",
    ),
    DeclaredMessage(
        id="site-name-illegal",
        area=Area.INVENTORY,
        meaning="The name of a site has characters that names in Kafka cannot have.",
        fix="Use letters, digits, hyphens and underscores.",
    ),
    DeclaredMessage(
        id="inventory-group-unknown",
        area=Area.INVENTORY,
        meaning="No role has the name of a group, so nothing is deployed for it.",
        fix="Correct the name of the group.",
    ),
    DeclaredMessage(
        id="group-file-unused",
        area=Area.INVENTORY,
        meaning="A file of variables is read by no group.",
        fix="Rename it after a group, or remove it.",
    ),
    DeclaredMessage(
        id="variables-file-ignored",
        area=Area.INVENTORY,
        meaning="Ansible ignores a file of variables because a folder or another file has the same name.",
        fix="Put all variables of the group or host into one of them, and delete the other.",
    ),
    DeclaredMessage(
        id="site-value-differs",
        area=Area.INVENTORY,
        meaning=(
            "Hosts of a site have different values of a variable that must be the same in the whole site."
        ),
        fix="Set it once, in the variables of the site's group.",
    ),
    DeclaredMessage(
        id="node-id-repeated",
        area=Area.INVENTORY,
        meaning="Two nodes of a site have the same number.",
        fix="Give one of them another number.",
    ),
    DeclaredMessage(
        id="site-role-missing",
        area=Area.INVENTORY,
        meaning="A site has no broker, or no controller.",
        fix="Add the role to `kafka_roles` of at least one host.",
    ),
    DeclaredMessage(
        id="node-count-even",
        area=Area.INVENTORY,
        meaning="A quorum has an even number of members, which tolerates no more failures than one less.",
        fix="Use an odd number of members.",
    ),
    DeclaredMessage(
        id="ensemble-unused",
        area=Area.INVENTORY,
        meaning="A site has a ZooKeeper ensemble, but no broker uses it.",
        fix="Set `kafka_metadata` to `zookeeper`, or remove the hosts from the group `zookeeper`.",
    ),
    DeclaredMessage(
        id="ensemble-missing",
        area=Area.INVENTORY,
        meaning="The brokers of a site use ZooKeeper, but the site has no ensemble.",
        fix="Put hosts into the group `zookeeper`, or set `kafka_zookeeper_connect`.",
    ),
    DeclaredMessage(
        id="zookeeper-mode-conflict",
        area=Area.INVENTORY,
        meaning="A setting of a broker is not possible with ZooKeeper.",
        fix="Remove the line.",
    ),
    DeclaredMessage(
        id="principal-not-revocable",
        area=Area.INVENTORY,
        meaning="A super user cannot be revoked by its name.",
        fix="Replace the authority with `playbooks/authority.yml`.",
    ),
    DeclaredMessage(
        id="topic-name-illegal",
        area=Area.INVENTORY,
        meaning="Kafka accepts no topic of this name.",
        fix="Use up to 249 letters, digits, dots, hyphens and underscores.",
    ),
    DeclaredMessage(
        id="topic-name-collides",
        area=Area.INVENTORY,
        meaning="Two topics differ only in dots and underscores, which Kafka treats as equal.",
        fix="Rename one of them.",
    ),
    DeclaredMessage(
        id="declaration-repeated",
        area=Area.INVENTORY,
        meaning="A name is declared twice.",
        fix="Remove one of the declarations, or give it another name.",
    ),
    DeclaredMessage(
        id="replicas-exceed-brokers",
        area=Area.INVENTORY,
        meaning="A topic would have more replicas than the site has brokers.",
        fix="Reduce the number of replicas, or add brokers.",
    ),
    DeclaredMessage(
        id="insync-replicas-exceed-replicas",
        area=Area.INVENTORY,
        meaning=(
            "A topic requires more in-sync replicas than it has replicas, so no write with `acks=all` "
            "succeeds."
        ),
        fix="Reduce `min.insync.replicas`.",
    ),
    DeclaredMessage(
        id="acl-principal-wrong",
        area=Area.INVENTORY,
        meaning="The principal of an ACL begins with `User:`.",
        fix="Write the CN of the certificate only.",
    ),
    DeclaredMessage(
        id="acl-name-wrong",
        area=Area.INVENTORY,
        meaning="An ACL of the cluster has another name than `kafka-cluster`.",
        fix="Set the name to `kafka-cluster`.",
    ),
    DeclaredMessage(
        id="kafka-version-unsupported",
        area=Area.INVENTORY,
        meaning="A version of Kafka is not supported here.",
        fix="Use one of the versions in the message.",
    ),
    DeclaredMessage(
        id="setting-value-wrong",
        area=Area.INVENTORY,
        meaning="A setting of Kafka has a value that Kafka refuses.",
        fix="Use a value as in the message.",
    ),
    DeclaredMessage(
        id="setting-unknown",
        area=Area.INVENTORY,
        meaning="Kafka has no setting of this name.",
        fix="Correct its name, or remove it.",
    ),
    DeclaredMessage(
        id="setting-dynamic-only",
        area=Area.INVENTORY,
        meaning="A setting can only be changed while a broker runs.",
        fix="Remove it, and use `kafka-configs.sh`.",
    ),
)
