#!/usr/bin/python
"""Ansible module: make a Kafka cluster have the declared topics."""

DOCUMENTATION = r"""
module: kafka_topics
short_description: Create topics, add partitions to them and change their settings
description:
  - Runs on a host of the cluster. Pass all topics in one call.
  - Nothing is ever deleted. If a topic has more partitions than declared, the task fails. The active
    controller of the cluster validates everything before anything is changed, in check mode, too.
  - A setting that is not declared stays as it is. A setting with the value null is reset to the broker's
    default.
  - A replication factor that differs from the declared one is not changed, and is returned in RV(unmet).
author: The Aqueduct project (!UNKNOWN)
options:
  bootstrap_servers: {description: "Kafka brokers, as C(host:port,...).", type: str, required: true}
  client_config:
    description: "File of Kafka client properties; default: PLAINTEXT."
    type: path
  topics:
    description: The topics.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the topic., type: str, required: true}
      partitions: {description: Number of partitions., type: int, required: true}
      replication_factor:
        description: "Replication factor; default: the broker's."
        type: int
      config: {description: Settings of the topic., type: dict, default: {}}
"""

EXAMPLES = r"""
- name: Create a topic, or add partitions to it
  aqueduct.estate.kafka_topics:
    bootstrap_servers: kafka-1.example.com:9092
    client_config: /etc/aqueduct/kafka/tls/client.properties
    topics:
      - {name: orders, partitions: 12, replication_factor: 3, config: {retention.ms: 604800000}}
"""

RETURN = r"""
created: {description: Names of the topics that were created., type: list, returned: success}
grown: {description: Names of the topics to which partitions were added., type: list, returned: success}
altered: {description: Names of the topics whose settings were changed., type: list, returned: success}
unmet: {description: Findings about declared values that were not applied., type: list, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "bootstrap_servers": {"type": "str", "required": True},
            "client_config": {"type": "path"},
            "topics": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "partitions": {"type": "int", "required": True},
                    "replication_factor": {"type": "int"},
                    "config": {"type": "dict", "default": {}},
                },
            },
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError
    from aqueduct.kafka import client_config, topics
    from aqueduct.kafka.admin.topics import apply_topics, await_topics, find_topics
    from aqueduct.kafka.client import connect

    given = module.params
    try:
        declared = topics.parse(given["topics"])
        end = client_config.end("cluster", given["bootstrap_servers"], given["client_config"])
        with connect(end, "aqueduct-topics") as client:
            actual = find_topics(client, declared)
            changes = topics.plan(declared, actual)
            apply_topics(client, changes, check_only=module.check_mode)
            if not module.check_mode:
                await_topics(client, [topic for topic in declared if topic.name in changes.touched()])
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(
        changed=bool(changes.touched()),
        created=[topic.name for topic in changes.create],
        grown=sorted(changes.grow),
        altered=sorted(changes.alter),
        unmet=list(changes.unmet),
        diff=topics.diff(changes, actual),
    )


if __name__ == "__main__":
    main()
