"""Messages about services, flows, links and connectors that an inventory declares."""

from aqueduct.messages.message import Area, DeclaredMessage

DECLARED_SERVICES = (
    DeclaredMessage(
        id="name-illegal",
        area=Area.INVENTORY,
        meaning=(
            "A name contains characters that the names of Kafka objects, buckets or folders cannot contain. "
            "Aqueduct builds such names from this name."
        ),
        fix="Use only the characters in the message.",
    ),
    DeclaredMessage(
        id="name-reserved",
        area=Area.INVENTORY,
        meaning=(
            "The name of a flow or a link already has another meaning: a folder of keys or another site "
            "has this name."
        ),
        fix="Choose another name.",
    ),
    DeclaredMessage(
        id="value-form-wrong",
        area=Area.INVENTORY,
        meaning="A value does not have the form that its variable or key requires.",
        fix="Write the value in the form that the message shows.",
    ),
    DeclaredMessage(
        id="address-form-wrong",
        area=Area.INVENTORY,
        meaning="An address is not of the kind that its variable or key requires, or lacks a port.",
        fix="Write the value in the form that the message shows.",
    ),
    DeclaredMessage(
        id="values-conflict",
        area=Area.INVENTORY,
        meaning=(
            "Two variables or keys exclude each other, or one variable or key is set without another one "
            "that it requires."
        ),
        fix="If the two exclude each other, remove one. If one is missing, set it.",
    ),
    DeclaredMessage(
        id="key-misplaced",
        area=Area.INVENTORY,
        meaning="A key is set where it has no effect.",
        fix="Move the key to the variable or entry in the message.",
    ),
    DeclaredMessage(
        id="path-not-absolute",
        area=Area.INVENTORY,
        meaning=(
            "The path of a folder does not begin with `/`, or has `..` or characters that SSH cannot pass on."
        ),
        fix="Write an absolute path without `..`.",
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
        meaning="A variable or key contains a host that does not run the required service.",
        fix="Set a host of the group in the message, or add the host to the group.",
    ),
    DeclaredMessage(
        id="host-name-unusable",
        area=Area.INVENTORY,
        meaning=(
            "Clients cannot reach a service under this host name: Java rejects the name for TLS, or the "
            "name cannot be part of `host:port`."
        ),
        fix="Use a host name of letters, digits, hyphens and dots, or set the variable in the message.",
    ),
    DeclaredMessage(
        id="service-without-kafka",
        area=Area.INVENTORY,
        meaning="A service of a site needs the site's Kafka cluster, but the site has no Kafka cluster.",
        fix=(
            "Add brokers of the site to the group `kafka`, or remove the host from the group of the service."
        ),
    ),
    DeclaredMessage(
        id="service-without-host",
        area=Area.INVENTORY,
        meaning="A site declares objects of a service, but no host of the site runs this service.",
        fix="Add a host of the site to the group in the message.",
    ),
    DeclaredMessage(
        id="service-without-work",
        area=Area.INVENTORY,
        meaning="A host runs a service, but the site declares no objects for this service.",
        fix="Declare the objects of the service, or remove the host from the group.",
    ),
    DeclaredMessage(
        id="service-host-repeated",
        area=Area.INVENTORY,
        meaning=(
            "Several hosts of a site run a service, but only one host may run it, or the hosts need a "
            "shared state."
        ),
        fix="Keep only one of the hosts in the group, or set the variable in the message.",
    ),
    DeclaredMessage(
        id="source-without-kafka",
        area=Area.INVENTORY,
        meaning="The source of a flow or a link is a site without a Kafka cluster.",
        fix="Add brokers of the source site to the group `kafka`, or correct the source.",
    ),
    DeclaredMessage(
        id="source-is-target",
        area=Area.INVENTORY,
        meaning="The source of a flow or a link is the same site as the target.",
        fix="Set another site as the source.",
    ),
    DeclaredMessage(
        id="topics-missing",
        area=Area.INVENTORY,
        meaning="A flow or a link has no topics.",
        fix="Add topics, or remove the flow or the link.",
    ),
    DeclaredMessage(
        id="store-missing",
        area=Area.INVENTORY,
        meaning="A service has no target for its data: the inventory has no object store, and no URL is set.",
        fix="Set the variable in the message, or add a host to the group in the message.",
    ),
    DeclaredMessage(
        id="bucket-right-missing",
        area=Area.INVENTORY,
        meaning="The user of a service lacks a right in the bucket that the service uses.",
        fix=(
            "Add this user to the right of the bucket that the message shows. If the bucket is outside the "
            "estate's object store, set the variable in the message to an empty text."
        ),
    ),
    DeclaredMessage(
        id="bucket-right-excessive",
        area=Area.INVENTORY,
        meaning=(
            "A service that only reads or writes objects also has the right to delete objects of a bucket."
        ),
        fix="Remove the user of the service from `delete` of the bucket.",
    ),
    DeclaredMessage(
        id="backup-store-shared",
        area=Area.INVENTORY,
        meaning=(
            "Two sites use the same store for their backups. The backup of one site would treat topics of "
            "the other site as re-created topics of its own."
        ),
        fix="Set another prefix for one of the sites.",
    ),
    DeclaredMessage(
        id="drill-without-backup",
        area=Area.INVENTORY,
        meaning="A drill is declared for a site that has no backup.",
        fix="Add a host of that site to the group `backup`, or set `drill_site` to another site.",
    ),
    DeclaredMessage(
        id="drill-store-differs",
        area=Area.INVENTORY,
        meaning="A drill would restore from another store than the backup store of the site.",
        fix="Set `drill_store_url` to the store of the site's backup.",
    ),
    DeclaredMessage(
        id="file-backup-of-kafka-data",
        area=Area.INVENTORY,
        meaning=(
            "A file backup contains the data of a Kafka node. Files that change while they are copied cannot "
            "be restored."
        ),
        fix="Exclude the folder, or back up another folder. The role `backup` backs up topics and groups.",
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
        meaning="The number of replicas of an HDFS block is larger than the number of DataNodes of the site.",
        fix="Reduce the number of replicas, or add DataNodes.",
    ),
    DeclaredMessage(
        id="metastore-missing",
        area=Area.INVENTORY,
        meaning="An SQL server or a table needs a metastore, but the site has no metastore.",
        fix="Add a host to the group `hive_metastore`, or set the variable in the message.",
    ),
    DeclaredMessage(
        id="schema-registry-missing",
        area=Area.INVENTORY,
        meaning="A table needs a schema registry, but the site has no schema registry.",
        fix="Add a host to the group `schema_registry`, or set `land_registry`.",
    ),
    DeclaredMessage(
        id="schema-is-file-name",
        area=Area.INVENTORY,
        meaning="The schema of a table is a file name, but this file does not exist on the hosts.",
        fix=(
            "Write the content of the file as the schema, for example with the lookup `ansible.builtin.file`."
        ),
    ),
    DeclaredMessage(
        id="table-location-shared",
        area=Area.INVENTORY,
        meaning="Two sites land a table with the same name at the same location.",
        fix="Set `land_location` of one site to another location.",
    ),
    DeclaredMessage(
        id="spark-cluster-incomplete",
        area=Area.INVENTORY,
        meaning="A Spark cluster has workers without a master, or a master without workers.",
        fix="Add a host to the group in the message.",
    ),
    DeclaredMessage(
        id="spark-cores-unlimited",
        area=Area.INVENTORY,
        meaning=(
            "A service that runs continuously would use all cores of a Spark cluster, so other applications "
            "would wait."
        ),
        fix="Set `spark.cores.max` in `spark_settings`.",
    ),
    DeclaredMessage(
        id="spark-setting-refused",
        area=Area.INVENTORY,
        meaning=(
            "A setting in `spark_settings` is not a Spark setting, is already set by a variable, or "
            "contradicts a guarantee of Aqueduct."
        ),
        fix="Remove the setting, or use the variable in the message.",
    ),
    DeclaredMessage(
        id="pattern-has-comma",
        area=Area.INVENTORY,
        meaning="MirrorMaker splits lists of patterns at commas, so a pattern cannot contain a comma.",
        fix="Write the pattern without a comma.",
    ),
    DeclaredMessage(
        id="pattern-not-analysable",
        area=Area.INVENTORY,
        meaning=(
            "A pattern uses syntax that the inventory check cannot evaluate. The check cannot detect loops "
            "and collisions of topics that match this pattern."
        ),
        fix="Write the pattern without look-around, flags, back-references or possessive quantifiers.",
    ),
    DeclaredMessage(
        id="engine-option-wrong",
        area=Area.INVENTORY,
        meaning="A flow has an option that its engine does not have.",
        fix="Remove the option, or set `engine` to an engine that has the option.",
    ),
    DeclaredMessage(
        id="source-version-unsupported",
        area=Area.INVENTORY,
        meaning="The engine of a flow does not support the broker version of the source.",
        fix="Set `engine` or `mirror_maker_version` as in the message, or upgrade the source.",
    ),
    DeclaredMessage(
        id="target-topic-missing",
        area=Area.INVENTORY,
        meaning=(
            "A classic mirror creates no topics, and its target site does not declare a topic that the "
            "mirror writes."
        ),
        fix=(
            "Add the topic to `kafka_topics` of the target site, with the number of partitions of the "
            "source topic."
        ),
    ),
    DeclaredMessage(
        id="topic-name-reserved",
        area=Area.INVENTORY,
        meaning="MirrorMaker treats a topic with this name as one of its internal topics.",
        fix="Set `naming` to `prefix`, or rename the topic.",
    ),
    DeclaredMessage(
        id="flow-topic-collides",
        area=Area.INVENTORY,
        meaning="A flow would write to a topic that another flow or the target site itself writes.",
        fix="Exclude the topic from one of the flows, or rename the topic.",
    ),
    DeclaredMessage(
        id="flow-groups-misplaced",
        area=Area.INVENTORY,
        meaning=(
            "Several sources write to the same target topic, so offsets of consumer groups at one source do "
            "not apply to this topic."
        ),
        fix="Set `naming` of the flow to `prefix`, or remove `groups`.",
    ),
    DeclaredMessage(
        id="flow-loop-endless",
        area=Area.INVENTORY,
        meaning="Flows form a loop: each flow would mirror the same records of a topic repeatedly.",
        fix="Exclude the topic from one of the flows, or set `naming` of all these flows to `prefix`.",
    ),
    DeclaredMessage(
        id="link-end-ambiguous",
        area=Area.INVENTORY,
        meaning="Several hosts of the site could be the sending end or the receiving end of a link.",
        fix="Set one of these hosts with the key in the message.",
    ),
    DeclaredMessage(
        id="link-sender-unknown",
        area=Area.INVENTORY,
        meaning="`sent_by` of a link is not the name of a link with a sending service and the same source.",
        fix="Correct the name, or remove `sent_by`.",
    ),
    DeclaredMessage(
        id="link-sender-differs",
        area=Area.INVENTORY,
        meaning=(
            "A link uses the sending service of another link (`sent_by`), but the two links have "
            "different settings."
        ),
        fix="Set the same value for both links, or set the value for the sending link only.",
    ),
    DeclaredMessage(
        id="link-number-repeated",
        area=Area.INVENTORY,
        meaning="Two links to a site have the same number.",
        fix="Set another number for one of the links.",
    ),
    DeclaredMessage(
        id="link-port-repeated",
        area=Area.INVENTORY,
        meaning="Two links use the same receiving port of a host.",
        fix="Set another port for one of the links.",
    ),
    DeclaredMessage(
        id="link-topic-unknown",
        area=Area.INVENTORY,
        meaning="No topic of the source has this name or matches this pattern.",
        fix="Correct the name or the pattern, or declare the topic in `kafka_topics` of the source.",
    ),
    DeclaredMessage(
        id="link-topic-collides",
        area=Area.INVENTORY,
        meaning="Two links write records to the same topic.",
        fix="Remove the topic from one link, or rename the topic of one link with `clean_topics`.",
    ),
    DeclaredMessage(
        id="link-partitions-fewer",
        area=Area.INVENTORY,
        meaning="A target topic has fewer partitions than the link needs for the partitions of the source.",
        fix="Set the number of partitions in the message in `kafka_topics` of the target.",
    ),
    DeclaredMessage(
        id="connector-without-topics",
        area=Area.INVENTORY,
        meaning="A connector declares no topics that it reads or writes.",
        fix="Set `topics` in the config of a sink connector, or `writes` of a source connector.",
    ),
    DeclaredMessage(
        id="connector-reads-dead-letters",
        area=Area.INVENTORY,
        meaning=(
            "A connector reads its own dead-letter topic, so a dead-letter record would be read again and "
            "again."
        ),
        fix="Exclude the dead-letter topic from the topics of the connector.",
    ),
    DeclaredMessage(
        id="connector-secret-plain",
        area=Area.INVENTORY,
        meaning=(
            "The config of a connector contains a secret, and Connect's REST API shows the config to every "
            "client."
        ),
        fix="Move the secret to `connect_secrets`, and refer to it as the message shows.",
    ),
    DeclaredMessage(
        id="connector-secret-unknown",
        area=Area.INVENTORY,
        meaning="A connector refers to a secret that `connect_secrets` does not contain.",
        fix="Correct the name, or add the secret.",
    ),
)
