#!/usr/bin/python
"""Ansible module: raise a cluster's features to what all of its brokers can."""

DOCUMENTATION = r"""
module: kafka_features
short_description: Raise a cluster's features, its metadata version among them, to what all of its brokers can
description:
  - Runs on a host of the cluster. With check mode it tells what it would raise.
  - No level goes down again where that would lose metadata; brokers of an older Kafka then start no more.
author: The Aqueduct project (!UNKNOWN)
options:
  bootstrap_servers: {description: "Brokers to ask, as C(host:port,...).", type: str, required: true}
  client_config: {description: File of Kafka client properties., type: path, required: true}
  read_plan:
    description: >-
      File with the levels that were shown, as C({"raised": {"metadata.version": 25}}). Other levels are
      refused. A file that does not exist is reported alone.
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
levels: {description: The cluster's level of each feature before., type: dict, returned: success}
raised: {description: The new level of those that are higher now., type: dict, returned: success}
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
                    module.warn("No plan was read before, so this one is compared with none.")
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
