"""Messages about services, flows, links and connectors that an inventory declares."""

from aqueduct.messages.message import Area, DeclaredMessage

DECLARED_SERVICES = (
    DeclaredMessage(
        id="name-illegal",
        area=Area.INVENTORY,
        meaning=(
            "A name has characters that names made of it cannot have: names in Kafka, of buckets or of "
            "folders."
        ),
        fix="Use the characters in the message.",
    ),
    DeclaredMessage(
        id="name-reserved",
        area=Area.INVENTORY,
        meaning="A name of a flow or a link means something else: a folder of keys, or another site.",
        fix="Choose another name.",
    ),
    DeclaredMessage(
        id="value-form-wrong",
        area=Area.INVENTORY,
        meaning="A value does not have the form that its variable or key requires.",
        fix="Write it in the form of the message.",
    ),
    DeclaredMessage(
        id="address-form-wrong",
        area=Area.INVENTORY,
        meaning="An address is not of the kind that its variable or key requires, or has no port.",
        fix="Write it in the form of the message.",
    ),
    DeclaredMessage(
        id="values-conflict",
        area=Area.INVENTORY,
        meaning=(
            "Two variables or keys exclude each other, or one is set without the other one that it belongs "
            "to."
        ),
        fix="Keep the one that you need, and remove the other one.",
    ),
    DeclaredMessage(
        id="key-misplaced",
        area=Area.INVENTORY,
        meaning="A key is set in a place where it has no effect.",
        fix="Move it to the place in the message.",
    ),
    DeclaredMessage(
        id="path-not-absolute",
        area=Area.INVENTORY,
        meaning=(
            "The path of a folder does not begin with `/`, or has `..` or characters that SSH cannot pass on."
        ),
        fix="Write the whole path, without `..`.",
    ),
    DeclaredMessage(
        id="host-unknown",
        area=Area.INVENTORY,
        meaning="The inventory has no host of this name.",
        fix="Correct the name, or add the host.",
    ),
    DeclaredMessage(
        id="host-not-in-group",
        area=Area.INVENTORY,
        meaning="A variable or key names a host that does not run the service that it is to use.",
        fix="Name a host of the group in the message, or add the host to the group.",
    ),
    DeclaredMessage(
        id="host-name-unusable",
        area=Area.INVENTORY,
        meaning=(
            "Clients cannot reach a service under this name: Java refuses TLS to it, or it does not fit into "
            "`host:port`."
        ),
        fix="Use a host name of letters, digits, hyphens and dots, or set the variable in the message.",
    ),
    DeclaredMessage(
        id="service-without-kafka",
        area=Area.INVENTORY,
        meaning="A service of a site works with the site's Kafka cluster, and the site has none.",
        fix=(
            "Put brokers of the site into the group `kafka`, or take the host out of the group of the "
            "service."
        ),
    ),
    DeclaredMessage(
        id="service-without-host",
        area=Area.INVENTORY,
        meaning="Something is declared at a site that no host of the site runs.",
        fix="Put a host of the site into the group in the message.",
    ),
    DeclaredMessage(
        id="service-without-work",
        area=Area.INVENTORY,
        meaning="A host runs a service for which nothing is declared, so it does nothing.",
        fix="Declare what it works on, or take the host out of the group.",
    ),
    DeclaredMessage(
        id="service-host-repeated",
        area=Area.INVENTORY,
        meaning=(
            "Several hosts of a site run a service that only one may run, or that needs a common state for "
            "several."
        ),
        fix="Leave one of the hosts in the group, or set the variable in the message.",
    ),
    DeclaredMessage(
        id="source-without-kafka",
        area=Area.INVENTORY,
        meaning="The source of a flow or a link is a site without Kafka.",
        fix="Put brokers of the source into the group `kafka`, or correct the source.",
    ),
    DeclaredMessage(
        id="source-is-target",
        area=Area.INVENTORY,
        meaning="The source of a flow or a link is its own site.",
        fix="Name another site.",
    ),
    DeclaredMessage(
        id="topics-missing",
        area=Area.INVENTORY,
        meaning="A flow or a link has no topics.",
        fix="Name topics, or remove it.",
    ),
    DeclaredMessage(
        id="store-missing",
        area=Area.INVENTORY,
        meaning="A service has no place to write to: the inventory has no object store, and no URL is set.",
        fix="Set the variable in the message, or put a host into the group in the message.",
    ),
    DeclaredMessage(
        id="bucket-right-missing",
        area=Area.INVENTORY,
        meaning="A service lacks a right in the bucket that it uses.",
        fix=(
            "Add its user to the bucket's right in the message. If the bucket is elsewhere, set the variable "
            "in the message to an empty text."
        ),
    ),
    DeclaredMessage(
        id="bucket-right-excessive",
        area=Area.INVENTORY,
        meaning="A service that only writes or reads may also delete in a bucket.",
        fix="Remove its user from `delete` of the bucket.",
    ),
    DeclaredMessage(
        id="backup-store-shared",
        area=Area.INVENTORY,
        meaning=(
            "Two sites keep their backups in one place. Each would take the other's topics for its own, re-"
            "created."
        ),
        fix="Give one of the sites another prefix.",
    ),
    DeclaredMessage(
        id="drill-without-backup",
        area=Area.INVENTORY,
        meaning="A drill is declared for a site that has no backup.",
        fix="Put a host of that site into the group `backup`, or set `drill_site` to another site.",
    ),
    DeclaredMessage(
        id="drill-store-differs",
        area=Area.INVENTORY,
        meaning="A drill would restore another store than the one that the site backs up to.",
        fix="Set `drill_store_url` to the store of the backup.",
    ),
    DeclaredMessage(
        id="file-backup-of-kafka-data",
        area=Area.INVENTORY,
        meaning=(
            "A file backup contains the data of a Kafka node. Files that change while they are copied cannot "
            "be restored."
        ),
        fix="Exclude the folder, or back up another one. The role `backup` backs up topics and groups.",
    ),
    DeclaredMessage(
        id="hdfs-role-missing",
        area=Area.INVENTORY,
        meaning="The HDFS of a site has no NameNode, or no DataNode.",
        fix="Add the role to `hdfs_roles` of at least one host.",
    ),
    DeclaredMessage(
        id="replicas-exceed-datanodes",
        area=Area.INVENTORY,
        meaning="A block of HDFS would have more replicas than the site has DataNodes.",
        fix="Reduce the number of replicas, or add DataNodes.",
    ),
    DeclaredMessage(
        id="metastore-missing",
        area=Area.INVENTORY,
        meaning="An SQL server or a table needs a metastore, and the site has none.",
        fix="Put a host into the group `hive_metastore`, or set the variable in the message.",
    ),
    DeclaredMessage(
        id="schema-registry-missing",
        area=Area.INVENTORY,
        meaning="The schemas of a table are in a registry, and the site has none.",
        fix="Put a host into the group `schema_registry`, or set `land_registry`.",
    ),
    DeclaredMessage(
        id="schema-is-file-name",
        area=Area.INVENTORY,
        meaning="The schema of a table is the name of a file, which the hosts do not have.",
        fix="Write the content of the file, for example with the lookup `ansible.builtin.file`.",
    ),
    DeclaredMessage(
        id="table-location-shared",
        area=Area.INVENTORY,
        meaning="Two sites land a table of one name in one place.",
        fix="Set `land_location` of one of them to another place.",
    ),
    DeclaredMessage(
        id="spark-cluster-incomplete",
        area=Area.INVENTORY,
        meaning="A Spark cluster has workers without a master, or a master without workers.",
        fix="Put a host into the group in the message.",
    ),
    DeclaredMessage(
        id="spark-cores-unlimited",
        area=Area.INVENTORY,
        meaning=(
            "A service that runs all the time would keep all cores of a Spark cluster, and other applications"
            " would wait."
        ),
        fix="Set `spark.cores.max` in `spark_settings`.",
    ),
    DeclaredMessage(
        id="spark-setting-refused",
        area=Area.INVENTORY,
        meaning=(
            "A setting in `spark_settings` is not one of Spark, is set by a variable, or would break what "
            "Aqueduct guarantees."
        ),
        fix="Remove it, or use the variable in the message.",
    ),
    DeclaredMessage(
        id="pattern-has-comma",
        area=Area.INVENTORY,
        meaning="MirrorMaker splits lists of patterns at commas, so a pattern cannot contain one.",
        fix="Write the pattern without a comma.",
    ),
    DeclaredMessage(
        id="pattern-not-analysable",
        area=Area.INVENTORY,
        meaning=(
            "A pattern uses syntax that the check cannot evaluate, so loops and collisions through it are not"
            " detected."
        ),
        fix="Write the pattern without look-around, flags, back-references and possessive quantifiers.",
    ),
    DeclaredMessage(
        id="engine-option-wrong",
        area=Area.INVENTORY,
        meaning="A flow has an option that its engine does not have.",
        fix="Remove the option, or set `engine` to one that has it.",
    ),
    DeclaredMessage(
        id="source-version-unsupported",
        area=Area.INVENTORY,
        meaning="The engine of a flow cannot read brokers of this version.",
        fix="Set `engine` or `mirror_maker_version` as in the message, or upgrade the source.",
    ),
    DeclaredMessage(
        id="target-topic-missing",
        area=Area.INVENTORY,
        meaning="A classic mirror creates no topics, and its target does not declare one that it writes.",
        fix="Add the topic to `kafka_topics` of the target, with as many partitions as the source's.",
    ),
    DeclaredMessage(
        id="topic-name-reserved",
        area=Area.INVENTORY,
        meaning="MirrorMaker treats a topic of this name as one of its own.",
        fix="Set `naming` to `prefix`, or rename the topic.",
    ),
    DeclaredMessage(
        id="flow-topic-collides",
        area=Area.INVENTORY,
        meaning="A flow would write a topic that another flow or the target itself writes.",
        fix="Exclude the topic from one of the flows, or rename it.",
    ),
    DeclaredMessage(
        id="flow-groups-misplaced",
        area=Area.INVENTORY,
        meaning=(
            "Several sources write into one topic, so offsets of groups at one of them do not apply to it."
        ),
        fix="Set `naming` to `prefix`, or remove `groups`.",
    ),
    DeclaredMessage(
        id="flow-loop-endless",
        area=Area.INVENTORY,
        meaning="Records of a topic would return to a flow that has carried them, again and again.",
        fix="Exclude the topic from one of the flows, or set `naming` of all of them to `prefix`.",
    ),
    DeclaredMessage(
        id="link-end-ambiguous",
        area=Area.INVENTORY,
        meaning="Several hosts could be an end of a link.",
        fix="Name one of them with the key in the message.",
    ),
    DeclaredMessage(
        id="link-sender-unknown",
        area=Area.INVENTORY,
        meaning="`sent_by` of a link names no link of the same source that has a sending service.",
        fix="Correct the name, or remove `sent_by`.",
    ),
    DeclaredMessage(
        id="link-sender-differs",
        area=Area.INVENTORY,
        meaning="A link that another one's service sends has settings that differ from that one.",
        fix="Set the same value for both links, or set it for the sending link only.",
    ),
    DeclaredMessage(
        id="link-number-repeated",
        area=Area.INVENTORY,
        meaning="Two links to a site have the same number.",
        fix="Give one of them another number.",
    ),
    DeclaredMessage(
        id="link-port-repeated",
        area=Area.INVENTORY,
        meaning="Two links arrive at one port of a host.",
        fix="Give one of them another port.",
    ),
    DeclaredMessage(
        id="link-topic-unknown",
        area=Area.INVENTORY,
        meaning="No topic of the source has this name, or matches this pattern.",
        fix="Correct it, or declare the topic in `kafka_topics` of the source.",
    ),
    DeclaredMessage(
        id="link-topic-collides",
        area=Area.INVENTORY,
        meaning="Two links write records into one topic.",
        fix="Let one link bring the topic, or rename it with `clean_topics`.",
    ),
    DeclaredMessage(
        id="link-partitions-fewer",
        area=Area.INVENTORY,
        meaning="A topic of the target has fewer partitions than the link needs for the source's.",
        fix="Set the number of partitions in the message in `kafka_topics` of the target.",
    ),
    DeclaredMessage(
        id="connector-without-topics",
        area=Area.INVENTORY,
        meaning="A connector has no topics that it may read or write.",
        fix="Set `topics` in the config of a sink, or `writes` of a source.",
    ),
    DeclaredMessage(
        id="connector-reads-dead-letters",
        area=Area.INVENTORY,
        meaning=(
            "A connector reads its own dead-letter topic, so a dead-letter record would be read again and "
            "again."
        ),
        fix="Exclude that topic.",
    ),
    DeclaredMessage(
        id="connector-secret-plain",
        area=Area.INVENTORY,
        meaning=(
            "The config of a connector contains a secret, which Connect's REST API shows to every client."
        ),
        fix="Put it into `connect_secrets`, and refer to it as in the message.",
    ),
    DeclaredMessage(
        id="connector-secret-unknown",
        area=Area.INVENTORY,
        meaning="A connector refers to a secret that `connect_secrets` does not have.",
        fix="Correct the name, or add the secret.",
    ),
)
