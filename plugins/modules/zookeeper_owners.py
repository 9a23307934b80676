#!/usr/bin/python
"""Ansible module: have the top of a ZooKeeper's tree to its owners alone."""

DOCUMENTATION = r"""
module: zookeeper_owners
short_description: Restrict the top-level znodes of a ZooKeeper ensemble to their owners
description:
  - In a new ensemble, every client can create znodes at the top level and below C(/zookeeper).
  - Znodes that the owners have created have their own ACLs, which are not changed. Other clients can read.
author: The Aqueduct project (!UNKNOWN)
options:
  connect: {description: "A server, as C(host:port).", type: str, required: true}
  client_config:
    description: File of Kafka client properties with a certificate that can change these ACLs.
    type: path
    required: true
  owners:
    description: Distinguished names of the certificates that have all permissions.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Restrict the top-level znodes to the brokers
  aqueduct.estate.zookeeper_owners:
    connect: zookeeper-1.example.com:2182
    client_config: /etc/aqueduct/zookeeper/tls/client.properties
    owners: [CN=kafka]
"""

RETURN = r"""
znodes: {description: Znodes whose ACL was changed., type: list, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule

# The ensemble's configuration, /zookeeper/config, nobody but a super user may change.
TOP = ("/", "/zookeeper", "/zookeeper/quota")
ANY_VERSION = -1


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "connect": {"type": "str", "required": True},
            "client_config": {"type": "path", "required": True},
            "owners": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    from kazoo.protocol.serialization import SetACL
    from kazoo.security import Permissions

    from aqueduct.errors import AqueductError
    from aqueduct.kafka import client_config
    from aqueduct.recovery.zookeeper.client import Ensemble, GetRights, acl_of, connected
    from aqueduct.recovery.zookeeper.znodes import Right

    given = module.params
    rights = tuple(Right(Permissions.ALL, "x509", owner) for owner in given["owners"])
    rights += (Right(Permissions.READ, "world", "anyone"),)
    changed = []
    try:
        ensemble = Ensemble(given["connect"], client_config.load(given["client_config"]))
        with connected(ensemble) as session:
            for path in TOP:
                live_rights, _ = session.ask(GetRights(path))
                if {*live_rights} != {*rights}:
                    changed.append(path)
                    if not module.check_mode:
                        session.ask(SetACL(path, acl_of(rights), ANY_VERSION))
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(changed=bool(changed), znodes=changed)


if __name__ == "__main__":
    main()
