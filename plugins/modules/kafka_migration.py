#!/usr/bin/python
"""Ansible module: tell how far a cluster is led from ZooKeeper to KRaft, and wait for the next state."""

DOCUMENTATION = r"""
module: kafka_migration
short_description: Tell how far a cluster is led from ZooKeeper to KRaft (KIP-866)
description:
  - Runs on a host of the cluster. Controllers, brokers and the ensemble are asked, each for itself.
  - It changes nothing but with V(forgotten) for O(state).
author: The Aqueduct project (!UNKNOWN)
options:
  controllers: {description: "Their addresses, as C(host:port).", type: list, elements: str, required: true}
  brokers: {description: "Theirs, as C(host:port).", type: list, elements: str, required: true}
  zookeeper: {description: "The ensemble, as C(zookeeper.connect) had it; not asked without.", type: str}
  client_config: {description: File of Kafka client properties., type: path, required: true}
  state:
    description:
      - V(asked) tells what there is, also of controllers that are not there yet.
      - V(ready) waits until controllers that migrate are a quorum whose members all follow.
      - V(copied) waits until it has all that is in ZooKeeper, and writes to both.
      - V(followed) waits until each broker runs without ZooKeeper, too.
      - V(finished) waits until controllers that don't migrate are a quorum, beside such brokers.
      - V(forgotten) removes from ZooKeeper what a quorum left there, for brokers to go on by themselves. No
        controller may run.
    type: str
    choices: [asked, ready, copied, followed, finished, forgotten]
    default: asked
  timeout_seconds: {description: How long to wait., type: int, default: 120}
"""

EXAMPLES = r"""
- name: Wait until the quorum has all metadata of ZooKeeper
  aqueduct.estate.kafka_migration:
    controllers: [kafka-1.example.com:9093]
    brokers: [kafka-1.example.com:9092]
    zookeeper: zookeeper-1.example.com:2182
    client_config: /etc/aqueduct/kafka/tls/client.properties
    state: copied
"""

RETURN = r"""
running: {description: Addresses of controllers that answer., type: list, returned: success}
migrating: {description: Those of them that are set to migrate., type: list, returned: success}
leader: {description: Node id of the quorum's leader or null., type: int, returned: success}
without_zookeeper: {description: Addresses of brokers that run so., type: list, returned: success}
begun: {description: Whether a quorum has had the brokers' control., type: bool, returned: success}
copied: {description: Whether the quorum writes to ZooKeeper what it has., type: bool, returned: success}
of_quorum: {description: Whether the quorum has the brokers' control., type: bool, returned: success}
znodes: {description: Those that were removed., type: list, returned: success}
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

PAUSE_SECONDS = 1.0


def waits(given: dict[str, Any], controllers: Any, migration: Any, led: list[str]) -> list[str]:
    """Say what is still to come before a state is reached."""
    pending = [
        f"Controller {address} does not answer ({reason})." for address, reason in controllers.silent.items()
    ]
    state, many = given["state"], len(given["controllers"])
    migrates = state != "finished"
    pending += [
        f"Controller {address} {'does not migrate' if migrates else 'still migrates'}."
        for address, does in controllers.migrating.items()
        if does != migrates
    ]
    following = len(controllers.quorum.caught_up())
    if controllers.quorum.leader is None:
        pending.append("The controllers have no leader.")
    elif following < many:
        pending.append(f"{following} of {many} controllers follow the leader.")
    if state in ("followed", "finished"):
        others = [address for address in given["brokers"] if address not in led]
        pending += [f"Broker {address} does not run without ZooKeeper." for address in others]
    if state in ("copied", "followed") and not (migration.copied and migration.of_quorum):
        pending.append(
            "The controllers have not all metadata of ZooKeeper yet: each broker must be known to them."
        )
    return pending


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "controllers": {"type": "list", "elements": "str", "required": True},
            "brokers": {"type": "list", "elements": "str", "required": True},
            "zookeeper": {"type": "str"},
            "client_config": {"type": "path", "required": True},
            "state": {
                "type": "str",
                "choices": ["asked", "ready", "copied", "followed", "finished", "forgotten"],
                "default": "asked",
            },
            "timeout_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError
    from aqueduct.kafka import client_config
    from aqueduct.kafka.admin.controllers import look, without_zookeeper
    from aqueduct.recovery.zookeeper import migration as zookeeper
    from aqueduct.recovery.zookeeper.client import Ensemble, ZooKeeperSession

    given, gone = module.params, []
    state, deadline = given["state"], time.monotonic() + given["timeout_seconds"]

    def ask() -> zookeeper.Migration:
        if not given["zookeeper"]:
            return zookeeper.Migration(begun=False, copied=False, controller=None, of_quorum=False)
        session = ZooKeeperSession(Ensemble(given["zookeeper"], config))
        try:
            if state == "forgotten" and not module.check_mode:
                gone.extend(zookeeper.forget(session))
            return zookeeper.read(session)
        finally:
            session.close()

    try:
        config = client_config.load(given["client_config"])
        controllers = look(given["controllers"], config)
        if state == "forgotten" and controllers.migrating:
            module.fail_json(
                msg="[migration-step-refused] "
                f"Controllers still run ({', '.join(controllers.migrating)}): stop them first."
            )
        migration, led = ask(), without_zookeeper(given["brokers"], config)
        while state not in ("asked", "forgotten") and (left := waits(given, controllers, migration, led)):
            if time.monotonic() > deadline:
                waited = f"Waited {given['timeout_seconds']} s: {' '.join(left)}"
                module.fail_json(msg=f"[migration-step-unfinished] {waited}")
            time.sleep(PAUSE_SECONDS)
            controllers, migration = look(given["controllers"], config), ask()
            led = without_zookeeper(given["brokers"], config)
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(
        changed=bool(gone),
        running=sorted(controllers.migrating),
        migrating=sorted(address for address, does in controllers.migrating.items() if does),
        leader=controllers.quorum.leader,
        without_zookeeper=led,
        begun=migration.begun,
        copied=migration.copied,
        of_quorum=migration.of_quorum,
        znodes=gone,
    )


if __name__ == "__main__":
    main()
