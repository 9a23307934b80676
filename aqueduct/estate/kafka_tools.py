"""Scripts that run Kafka's command-line tools. Maven Central has the classes, but no scripts."""

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
# Tools with another class in Kafka 3.9.
TOOLS_OF_KAFKA_3 = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
}
SCRIPT = """\
#!/bin/sh
# Ansible managed
# shellcheck disable=SC2086 # several options of the JVM
exec /usr/bin/java ${{KAFKA_HEAP_OPTS:--Xmx256m}} -cp '{home}/libs/*' {tool} "$@"
"""


def tool_scripts(version: str, home: str) -> dict[str, str]:
    """Return the script of each tool by file name. `home`: the installation folder of this version."""
    tools = TOOLS | (TOOLS_OF_KAFKA_3 if version.startswith("3.") else {})
    return {f"{name}.sh": SCRIPT.format(home=home, tool=tool) for name, tool in tools.items()}
