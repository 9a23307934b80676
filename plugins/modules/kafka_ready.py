#!/usr/bin/python
"""Ansible module: wait until a Kafka node serves, or until it may be stopped."""

DOCUMENTATION = r"""
module: kafka_ready
short_description: Wait until a Kafka node is ready, or until it can be stopped safely
description:
  - Runs on a host of the cluster and changes nothing. If the time limit expires, the module fails and lists
    the remaining problems.
  - Without O(node_id), O(no_under_replicated) and O(stopping), the module only reports the state of the
    cluster.
author: The Aqueduct project (!UNKNOWN)
options:
  bootstrap_servers: {description: "Kafka brokers, as C(host:port,...).", type: str, required: true}
  client_config:
    description: "File of Kafka client properties; default: PLAINTEXT."
    type: path
  timeout_seconds: {description: Time limit in seconds., type: int, default: 120}
  node_id:
    description: Wait until this node is ready in each of O(roles).
    type: int
  roles:
    description:
      - A V(broker) is ready when it is registered, unfenced and answers at its advertised address. A
        V(controller) is ready when it leads the quorum or has caught up with it.
    type: list
    elements: str
    choices: [broker, controller]
    default: [broker]
  no_under_replicated: {description: Wait until no partition is under-replicated., type: bool, default: false}
  stopping:
    description:
      - Wait until the node with this id can be stopped safely. After the stop, each partition must still have
        as many in-sync replicas as its C(min.insync.replicas), and most controllers must be caught up.
    type: int
  allow_unavailable:
    description:
      - Accept with O(stopping) that partitions or the quorum are unavailable while the node is stopped. This
        cannot be avoided if topics have no more replicas than C(min.insync.replicas), or if the cluster has
        fewer than three controllers. If false, the module fails at once in these cases.
    type: bool
    default: false
  expected:
    description:
      - Node ids of all declared brokers of the cluster. The module does not wait for replicas on other
        brokers that are down, because they never become in sync again. By default, it waits for all replicas.
    type: list
    elements: int
"""

EXAMPLES = r"""
- name: Wait until broker 1 can be stopped safely
  aqueduct.estate.kafka_ready:
    bootstrap_servers: kafka-1.example.com:9092,kafka-2.example.com:9092
    client_config: /etc/aqueduct/kafka/tls/client.properties
    stopping: 1
    no_under_replicated: true
"""

RETURN = r"""
cluster_id: {description: Id of the cluster., type: str, returned: success}
brokers: {description: Node ids of the brokers that are ready., type: list, returned: success}
active_controller: {description: Node id of the active controller or null., type: int, returned: success}
restart_order: {description: All node ids; the active controller is the last., type: list, returned: success}
under_replicated: {description: Number of under-replicated partitions., type: int, returned: success}
unexpected: {description: Findings about brokers that are not expected., type: list, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "bootstrap_servers": {"type": "str", "required": True},
            "client_config": {"type": "path"},
            "timeout_seconds": {"type": "int", "default": 120},
            "node_id": {"type": "int"},
            "roles": {
                "type": "list",
                "elements": "str",
                "choices": ["broker", "controller"],
                "default": ["broker"],
            },
            "no_under_replicated": {"type": "bool", "default": False},
            "stopping": {"type": "int"},
            "allow_unavailable": {"type": "bool", "default": False},
            "expected": {"type": "list", "elements": "int"},
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError, Refused
    from aqueduct.kafka import client_config, rolling
    from aqueduct.kafka import cluster as state
    from aqueduct.kafka.admin.cluster import await_cluster, silence
    from aqueduct.kafka.admin.settings import min_in_sync
    from aqueduct.kafka.client import connect

    given = module.params
    expected = given["expected"]
    node, stopping, seconds = given["node_id"], given["stopping"], given["timeout_seconds"]

    def problems(cluster: state.Cluster) -> list[str]:
        obstacles = []
        if given["no_under_replicated"] or stopping is not None:
            obstacles += [hidden.sentence for hidden in state.hidden_topics(cluster)]
        if expected is not None:
            cluster = state.without_brokers(cluster, state.absent_brokers(cluster, expected))
        if node is not None and "broker" in given["roles"]:
            obstacles += state.registration_problems(cluster, node) or silence(client, node)
        if node is not None and "controller" in given["roles"]:
            obstacles += state.controller_problems(cluster, node)
        if given["no_under_replicated"]:
            obstacles += state.replication_problems(cluster)
        if stopping is not None:
            topics = {partition.topic for partition in rolling.hosted_partitions(cluster, stopping)}
            least = min_in_sync(client, topics)
            lost = rolling.unavailable_by_design(cluster, least, stopping)
            if lost and not given["allow_unavailable"]:
                raise Refused(f"Node {stopping} may not be stopped. {' '.join(lost)}")
            obstacles += rolling.obstacles(cluster, least, stopping)
        return obstacles

    try:
        end = client_config.end("cluster", given["bootstrap_servers"], given["client_config"])
        with connect(end, "aqueduct-ready", timeout_seconds=seconds) as client:
            cluster = await_cluster(client, problems, seconds)
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(
        changed=False,
        cluster_id=cluster.cluster_id,
        brokers=sorted(cluster.brokers),
        active_controller=cluster.quorum.leader,
        restart_order=rolling.restart_order(cluster),
        under_replicated=len(cluster.under_replicated()),
        unexpected=[] if expected is None else state.unexpected_brokers(cluster, expected),
    )


if __name__ == "__main__":
    main()
