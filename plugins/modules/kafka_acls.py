#!/usr/bin/python
"""Ansible module: make a Kafka cluster have the declared ACLs."""

DOCUMENTATION = r"""
module: kafka_acls
short_description: Grant and revoke ACLs so that managed principals have exactly the declared ones
description:
  - Runs on a host of the cluster. Pass all ACLs in one call. Each ACL allows access from any host.
  - The managed principals are those in O(acls) and those that match O(managed_principals). Their ACLs that
    are not declared are revoked. ACLs of other principals are not changed.
author: The Aqueduct project (!UNKNOWN)
options:
  bootstrap_servers: {description: "Kafka brokers, as C(host:port,...).", type: str, required: true}
  client_config:
    description: "File of Kafka client properties; default: PLAINTEXT."
    type: path
  managed_principals:
    description: Regular expression for names of principals without C(User:); it can match a part.
    type: str
    required: true
  acls:
    description: The ACLs.
    type: list
    elements: dict
    required: true
    suboptions:
      principal: {description: Name of the principal without C(User:)., type: str, required: true}
      resource:
        description: V(topic), V(group), V(cluster) or V(transactional_id).
        type: str
        required: true
      name: {description: Name of the resource; V(kafka-cluster) for the cluster., type: str, required: true}
      pattern:
        description: Whether O(acls[].name) is a whole name (V(literal)) or a prefix (V(prefixed)).
        type: str
        default: literal
      operations: {description: Allowed operations., type: list, elements: str, required: true}
"""

EXAMPLES = r"""
- name: Permit an application to read a topic in its group
  aqueduct.estate.kafka_acls:
    bootstrap_servers: kafka-1.example.com:9092
    client_config: /etc/aqueduct/kafka/tls/client.properties
    managed_principals: ^app-
    acls:
      - {principal: app-orders, resource: topic, name: orders, operations: [read, describe]}
      - {principal: app-orders, resource: group, name: orders., pattern: prefixed, operations: [read]}
"""

RETURN = r"""
granted: {description: ACLs that were granted., type: list, returned: success}
revoked: {description: ACLs that were revoked., type: list, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "bootstrap_servers": {"type": "str", "required": True},
            "client_config": {"type": "path"},
            "managed_principals": {"type": "str", "required": True},
            "acls": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "principal": {"type": "str", "required": True},
                    "resource": {"type": "str", "required": True},
                    "name": {"type": "str", "required": True},
                    "pattern": {"type": "str", "default": "literal"},
                    "operations": {"type": "list", "elements": "str", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError
    from aqueduct.kafka import acls, client_config
    from aqueduct.kafka.admin.acls import apply_acls, list_acls
    from aqueduct.kafka.client import connect

    given = module.params
    try:
        declared = acls.parse(given["acls"])
        end = client_config.end("cluster", given["bootstrap_servers"], given["client_config"])
        with connect(end, "aqueduct-acls") as client:
            changes = acls.plan(declared, list_acls(client), given["managed_principals"])
            if not module.check_mode:
                apply_acls(client, changes)
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(
        changed=bool(changes.add or changes.remove),
        granted=[str(acl) for acl in changes.add],
        revoked=[str(acl) for acl in changes.remove],
        diff=acls.diff(changes),
    )


if __name__ == "__main__":
    main()
