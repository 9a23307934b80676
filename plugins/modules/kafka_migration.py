#!/usr/bin/python
"""Ansible module: tell how far a cluster is led from ZooKeeper to KRaft, and wait for the next state."""

DOCUMENTATION = r"""
module: kafka_migration
short_description: Report the progress of a migration from ZooKeeper to KRaft (KIP-866)
description:
  - Runs on a host of the cluster. Queries each controller, each broker and the ensemble.
  - Changes nothing, except with O(state=forgotten).
author: The Aqueduct project (!UNKNOWN)
options:
  controllers:
    description: "Addresses of the controllers, as C(host:port)."
    type: list
    elements: str
    required: true
  brokers:
    description: "Addresses of the brokers, as C(host:port)."
    type: list
    elements: str
    required: true
  zookeeper: {description: "The ensemble, as in C(zookeeper.connect); empty: not queried.", type: str}
  client_config: {description: File of Kafka client properties., type: path, required: true}
  state:
    description:
      - V(asked) only reports the state. Controllers do not need to exist.
      - V(ready) waits until the migrating controllers form a quorum, and all of them follow its leader.
      - V(copied) waits until the quorum has copied all metadata from ZooKeeper, and writes to both.
      - V(followed) waits until each broker also runs without ZooKeeper.
      - V(finished) waits until the controllers form a quorum without migration settings, and each broker runs
        without ZooKeeper.
      - V(forgotten) removes the znodes that a quorum left in ZooKeeper, so that the brokers can elect a
        controller again. No KRaft controller may run.
    type: str
    choices: [asked, ready, copied, followed, finished, forgotten]
    default: asked
  timeout_seconds: {description: Time limit in seconds., type: int, default: 120}
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
migrating:
  description: Addresses of running controllers that have the migration enabled.
  type: list
  returned: success
leader: {description: Node id of the quorum's leader or null., type: int, returned: success}
without_zookeeper:
  description: Addresses of brokers that run without ZooKeeper.
  type: list
  returned: success
begun: {description: Whether a quorum has ever controlled the brokers., type: bool, returned: success}
copied:
  description: Whether the quorum also writes its metadata to ZooKeeper.
  type: bool
  returned: success
of_quorum: {description: Whether the quorum controls the brokers., type: bool, returned: success}
znodes: {description: Znodes that were removed., type: list, returned: success}
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

PAUSE_SECONDS = 1.0


def waits(given: dict[str, Any], controllers: Any, migration: Any, led: list[str]) -> list[str]:
    """List what is missing until a state is reached."""
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
            "The controllers have not copied all metadata of ZooKeeper yet. Each broker must "
            "register with them first."
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
                f"Controllers still run: {', '.join(controllers.migrating)}. Nothing was changed. "
                "Stop these controllers first."
            )
        migration, led = ask(), without_zookeeper(given["brokers"], config)
        while state not in ("asked", "forgotten") and (left := waits(given, controllers, migration, led)):
            if time.monotonic() > deadline:
                waited = f"{' '.join(left)} The time limit of {given['timeout_seconds']} s has expired."
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
