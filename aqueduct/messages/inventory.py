"""Messages about the inventory as a whole."""

from aqueduct.messages.message import Area, DeclaredMessage

INVENTORY = (
    DeclaredMessage(
        id="host-site-ambiguous",
        area=Area.INVENTORY,
        meaning="A host is in no group `site_*` or in several of these groups.",
        fix="Put the host into exactly one group `site_NAME`.",
    ),
    DeclaredMessage(
        id="site-unknown",
        area=Area.INVENTORY,
        meaning="The inventory has no group with the name of the site.",
        fix="Correct the name of the site, or add the group `site_NAME`.",
    ),
    DeclaredMessage(
        id="node-id-missing",
        area=Area.INVENTORY,
        meaning="A host of the group `kafka` has no `kafka_node_id`.",
        fix="Set `kafka_node_id` to a number that no other Kafka node of the site has.",
    ),
    DeclaredMessage(
        id="variable-required",
        area=Area.INVENTORY,
        meaning=(
            "Hosts need a variable that is not set. The variable has no default, or another setting "
            "requires the variable."
        ),
        fix="Set the variable for the hosts in the message.",
    ),
    DeclaredMessage(
        id="variable-removed",
        area=Area.INVENTORY,
        meaning="A variable was removed in an earlier release.",
        fix="Remove the variable, or use the replacement in the message.",
    ),
    DeclaredMessage(
        id="variable-unknown",
        area=Area.INVENTORY,
        meaning="No role has the variable.",
        fix=(
            "Correct the name of the variable. If the variable is your own, choose a name that does not "
            "begin with the name of a role."
        ),
    ),
    DeclaredMessage(
        id="value-not-decryptable",
        area=Area.INVENTORY,
        meaning="A value is encrypted with Ansible Vault and cannot be decrypted.",
        fix="Pass the password of the vault with `--vault-password-file` or `--ask-vault-pass`.",
    ),
    DeclaredMessage(
        id="variable-undefined",
        area=Area.INVENTORY,
        meaning="A value uses a variable that is not set.",
        fix="Set the variable. If its value is a secret, set it in a vault.",
    ),
    DeclaredMessage(
        id="value-empty",
        area=Area.INVENTORY,
        meaning="A variable or a key has no value.",
        fix="Set a value, or remove the line.",
    ),
    DeclaredMessage(
        id="value-type-wrong",
        area=Area.INVENTORY,
        meaning="A value has the wrong type.",
        fix="Write a value of the type that the message shows.",
    ),
    DeclaredMessage(
        id="value-not-allowed",
        area=Area.INVENTORY,
        meaning="A value is not one of the allowed values.",
        fix="Use one of the values in the message.",
    ),
    DeclaredMessage(
        id="key-unknown",
        area=Area.INVENTORY,
        meaning="A declaration has a key that does not exist.",
        fix="Correct the name of the key.",
    ),
    DeclaredMessage(
        id="key-missing",
        area=Area.INVENTORY,
        meaning="A declaration lacks a required key.",
        fix="Add the key.",
    ),
    DeclaredMessage(
        id="number-out-of-range",
        area=Area.INVENTORY,
        meaning="A number is too small or too large.",
        fix="Use a number in the range that the message shows.",
    ),
    DeclaredMessage(
        id="site-name-illegal",
        area=Area.INVENTORY,
        meaning="The name of a site contains characters that Kafka does not allow in names.",
        fix="Use letters, digits, hyphens and underscores.",
    ),
    DeclaredMessage(
        id="inventory-group-unknown",
        area=Area.INVENTORY,
        meaning="No role has the name of a group, so nothing is deployed for the group.",
        fix="Correct the name of the group.",
    ),
    DeclaredMessage(
        id="group-file-unused",
        area=Area.INVENTORY,
        meaning="A file of variables has the name of no group, so Ansible does not read it.",
        fix="Rename the file to the name of a group, or remove the file.",
    ),
    DeclaredMessage(
        id="variables-file-ignored",
        area=Area.INVENTORY,
        meaning="Ansible ignores a file of variables because a folder or another file has the same name.",
        fix="Move all variables of the group or host to one file or folder, and delete the other one.",
    ),
    DeclaredMessage(
        id="site-value-differs",
        area=Area.INVENTORY,
        meaning=(
            "Hosts of a site have different values of a variable. The value must be the same on all hosts "
            "of the site."
        ),
        fix="Set the variable only once, in the variables of the site's group.",
    ),
    DeclaredMessage(
        id="node-id-repeated",
        area=Area.INVENTORY,
        meaning="Two nodes of a site have the same number.",
        fix="Set another number for one of the nodes.",
    ),
    DeclaredMessage(
        id="site-role-missing",
        area=Area.INVENTORY,
        meaning="A site has no broker, or no controller.",
        fix="Add `broker` or `controller` to `kafka_roles` of at least one host.",
    ),
    DeclaredMessage(
        id="node-count-even",
        area=Area.INVENTORY,
        meaning=(
            "A quorum has an even number of members. A quorum with one member less tolerates the same "
            "number of failures."
        ),
        fix="Use an odd number of members.",
    ),
    DeclaredMessage(
        id="ensemble-unused",
        area=Area.INVENTORY,
        meaning="A site has a ZooKeeper ensemble, but no broker uses the ensemble.",
        fix="Set `kafka_metadata` to `zookeeper`, or remove the hosts from the group `zookeeper`.",
    ),
    DeclaredMessage(
        id="ensemble-missing",
        area=Area.INVENTORY,
        meaning="The brokers of a site use ZooKeeper, but the site has no ZooKeeper ensemble.",
        fix="Add hosts to the group `zookeeper`, or set `kafka_zookeeper_connect`.",
    ),
    DeclaredMessage(
        id="zookeeper-mode-conflict",
        area=Area.INVENTORY,
        meaning="A setting of a broker cannot be used with ZooKeeper.",
        fix="Remove the setting.",
    ),
    DeclaredMessage(
        id="principal-not-revocable",
        area=Area.INVENTORY,
        meaning=("ACLs cannot revoke the rights of a super user, because a super user needs no ACL."),
        fix="Replace the certificate authority with `playbooks/authority.yml`.",
    ),
    DeclaredMessage(
        id="topic-name-illegal",
        area=Area.INVENTORY,
        meaning="Kafka does not accept the name of a topic.",
        fix="Use up to 249 letters, digits, dots, hyphens and underscores.",
    ),
    DeclaredMessage(
        id="topic-name-collides",
        area=Area.INVENTORY,
        meaning="Two topics differ only in dots and underscores, which Kafka treats as equal.",
        fix="Rename one of the topics.",
    ),
    DeclaredMessage(
        id="declaration-repeated",
        area=Area.INVENTORY,
        meaning="A name is declared twice.",
        fix="Remove one of the declarations, or change its name.",
    ),
    DeclaredMessage(
        id="replicas-exceed-brokers",
        area=Area.INVENTORY,
        meaning="The replication factor of a topic is larger than the number of brokers of the site.",
        fix="Reduce the number of replicas, or add brokers.",
    ),
    DeclaredMessage(
        id="insync-replicas-exceed-replicas",
        area=Area.INVENTORY,
        meaning=(
            "`min.insync.replicas` of a topic is larger than its replication factor, so every write with "
            "`acks=all` fails."
        ),
        fix="Reduce `min.insync.replicas`, or increase the replication factor.",
    ),
    DeclaredMessage(
        id="acl-principal-wrong",
        area=Area.INVENTORY,
        meaning="The principal of an ACL begins with `User:`.",
        fix="Write only the CN of the certificate, without `User:`.",
    ),
    DeclaredMessage(
        id="acl-name-wrong",
        area=Area.INVENTORY,
        meaning="An ACL for the resource type `cluster` has another resource name than `kafka-cluster`.",
        fix="Set the resource name to `kafka-cluster`.",
    ),
    DeclaredMessage(
        id="kafka-version-unsupported",
        area=Area.INVENTORY,
        meaning="The version of Kafka is not supported, or lacks a function that the site uses.",
        fix="Use one of the versions in the message.",
    ),
    DeclaredMessage(
        id="setting-value-wrong",
        area=Area.INVENTORY,
        meaning="A Kafka setting has a value that Kafka does not accept.",
        fix="Use a value that the message shows.",
    ),
    DeclaredMessage(
        id="setting-unknown",
        area=Area.INVENTORY,
        meaning="Kafka has no setting with this name.",
        fix="Correct the name of the setting, or remove the setting.",
    ),
    DeclaredMessage(
        id="setting-dynamic-only",
        area=Area.INVENTORY,
        meaning=(
            "A setting is dynamic: it can be changed only while the broker runs, and not in the inventory."
        ),
        fix="Remove the setting, and change it with `kafka-configs.sh`.",
    ),
)
