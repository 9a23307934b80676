#!/usr/bin/python
"""Ansible module: raise a cluster's features to what all of its brokers can."""

DOCUMENTATION = r"""
module: kafka_features
short_description: Raise the feature levels of a cluster to the highest levels that all brokers support
description:
  - Runs on a host of the cluster. Features are C(metadata.version) and others, as in C(kafka-features.sh). In
    check mode, the module only reports the levels that it would raise.
  - A level cannot be lowered again if this would lose metadata. Brokers of an older Kafka version then no
    longer start.
author: The Aqueduct project (!UNKNOWN)
options:
  bootstrap_servers: {description: "Kafka brokers, as C(host:port,...).", type: str, required: true}
  client_config: {description: File of Kafka client properties., type: path, required: true}
  read_plan:
    description: >-
      File with the levels of the plan that was shown, as C({"raised": {"metadata.version": 25}}). Other
      levels are refused. If the file does not exist, the module warns and continues.
    type: path
"""

EXAMPLES = r"""
- name: Show the features that would be raised
  aqueduct.estate.kafka_features:
    bootstrap_servers: kafka-1.example.com:9092
    client_config: /etc/aqueduct/kafka/tls/client.properties
  check_mode: true
"""

RETURN = r"""
levels: {description: Level of each feature before the change., type: dict, returned: success}
raised: {description: New level of each feature that was raised., type: dict, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "bootstrap_servers": {"type": "str", "required": True},
            "client_config": {"type": "path", "required": True},
            "read_plan": {"type": "path"},
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError
    from aqueduct.kafka import client_config
    from aqueduct.kafka.admin import features as of_features
    from aqueduct.kafka.admin.features import features, higher, raise_to
    from aqueduct.kafka.client import connect
    from aqueduct.recovery import read_plan

    given = module.params
    try:
        end = client_config.end("cluster", given["bootstrap_servers"], given["client_config"])
        with connect(end, "aqueduct-features") as client:
            feature_by_name = features(client)
            raised = higher(feature_by_name)
            if given["read_plan"]:
                path = Path(given["read_plan"])
                if path.exists():
                    unreadable = of_features.FeaturesPlanUnreadable
                    if read := read_plan.load(of_features.ReadFeatures, path, unreadable=unreadable):
                        differences = of_features.plan_changes(read, raised)
                        read_plan.refuse(differences, changed=of_features.FeaturesPlanChanged)
                else:
                    module.warn(
                        f"{path} does not exist: no plan was shown before, so the levels are not compared "
                        "with a plan."
                    )
            if raised and not module.check_mode:
                raise_to(client, raised)
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(
        changed=bool(raised),
        levels={name: feature.level for name, feature in feature_by_name.items()},
        raised=raised,
    )


if __name__ == "__main__":
    main()
