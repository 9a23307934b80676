"""The ACLs of a restore's tasks at the target, while they run.

On a Spark cluster, the key of tasks is on every worker. So tasks can have another key than the driver, which
creates topics, alters their settings and grants ACLs. Tasks read and write the restored topics, and commit
their progress in the same transactions. To commit offsets of a topic, Kafka requires READ on the topic.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka.errors import KafkaError, SecurityDisabledError, TopicAuthorizationFailedError

from aqueduct.common.wording import count
from aqueduct.errors import Failed, Skipped
from aqueduct.kafka.acls import USER, Acl, AclChanges
from aqueduct.kafka.admin.acls import apply_acls, list_acls
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS
from aqueduct.kafka.client import NAMES_PER_REQUEST, Client, connect, passing
from aqueduct.kafka.client_config import ClientConfig, Login
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.restore import progress
from aqueduct.snapshots.restore.job import CLIENT, Job, connected
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.outcome import Warned

KEY_SENT = "restore-key-sent"


def needed(job: Job) -> tuple[Acl, ...]:
    """Return the ACLs that the restore grants to tasks; first those that no other restore's tasks need.

    Topics that earlier runs have completed are only read.
    """
    if job.order.task_principal is None:
        return ()
    principal, group = USER + job.order.task_principal, progress.group(job.id)
    topics = [
        Acl(principal=principal, resource="topic", name=name, pattern="literal", operation=operation)
        for name in sorted(job.plan.topics)
        for operation in (("read",) if name in job.ended else ("read", "write"))
    ]
    return (
        Acl(principal=principal, resource="group", name=group, pattern="literal", operation="read"),
        Acl(
            principal=principal,
            resource="transactional_id",
            name=f"{group}-",
            pattern="prefixed",
            operation="write",
        ),
        *topics,
    )


def key_sent(order: RestoreOrder) -> Warned | None:
    """Return the warning that workers get a key with more rights than this restore needs.

    The key of `--task-principal` is no such key: its rights end with the restore.
    """
    task_client = order.task_client
    credentials = _credentials(order.tasks_end.client_config)
    if not any(credentials):
        return None
    if task_client is None:
        key = "the key of --command-config, with all rights of its principal"
        remedy = "Pass another key with --task-command-config, and its principal with --task-principal"
    elif credentials == _credentials(order.end.client_config):
        key = "the key of --task-command-config, which is the same as that of --command-config"
        remedy = "Pass a key of another principal with --task-command-config"
    elif task_client.principal is None:
        key = "the key of --task-command-config, whose rights do not end with the restore"
        remedy = "Pass its principal with --task-principal, and revoke its own rights"
    else:
        return None
    return Warned(KEY_SENT, f"Spark sends {key}, to all workers. {remedy}.")


def _credentials(config: ClientConfig) -> tuple[bytes, Login | None]:
    """Return the credentials of a client: a private key, a user and a password."""
    return Path(config.key).read_bytes() if config.key else b"", config.login


@contextmanager
def granted(job: Job) -> Iterator[list[Skipped]]:
    """Grant tasks their ACLs while the block runs; yield a list that receives ACLs that were not revoked.

    ACLs that the principal had before stay, except those of a killed run of this restore.
    """
    left: list[Skipped] = []
    acls = needed(job)
    ours = _acls_to_revoke(job, acls) if acls else ()
    if not ours:
        yield left
        return
    try:
        with connected(job.order) as client:
            for some in (acls[:2], acls[2:]):  # in this order: brokers that have the last one have all
                apply_acls(client, AclChanges(some, ()))
        _await_brokers(job)
        yield left
    except BaseException:
        for skipped in _revoke(job, ours):
            print(skipped, file=sys.stderr, flush=True)
        raise
    left += _revoke(job, ours)


def _acls_to_revoke(job: Job, acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """Return the ACLs to revoke at the end; none if the target has no authorizer."""
    with connected(job.order) as client:
        try:
            target_acls = list_acls(client)
        except SecurityDisabledError:
            return ()
    killed = acls[0] in target_acls  # only this restore uses the group
    return acls if killed else tuple(acl for acl in acls if acl not in target_acls)


def _revoke(job: Job, ours: tuple[Acl, ...]) -> list[Skipped]:
    """Revoke the ACLs, those of the group last; return them as skipped if the target does not revoke them."""
    try:
        with connected(job.order) as client:
            apply_acls(client, AclChanges((), ours[::-1]))
    except Failed as error:
        subject = f"the revocation of {count(len(ours), 'ACL')} of {ours[0].principal}"
        reason = f"{str(error).rstrip('.')}. Remove them with kafka-acls.sh"
        return [Skipped(subject, reason, "task-rights-left")]
    return []


def _await_brokers(job: Job) -> None:
    """Wait until each broker shows the topics to the tasks; Failed if one does not."""
    deadline = time.monotonic() + SETTLE_SECONDS
    with connect(job.order.tasks_end, CLIENT) as client:
        for broker in client.brokers():
            for names in in_lists(sorted(job.plan.topics), NAMES_PER_REQUEST):
                while not _answers(client, broker, names, time.monotonic() > deadline, job):
                    client.sleep(POLL_SECONDS)


def _answers(client: Client, broker: int, names: list[str], late: bool, job: Job) -> bool:
    """Return whether a broker shows these topics to the tasks, or need not be waited for any longer."""
    try:
        client.ask_topics(names, broker)
    except TopicAuthorizationFailedError:
        if late:
            raise Failed(
                "task-principal-mismatch",
                f"The {client.end} does not show the restored topics to tasks, {SETTLE_SECONDS} s after ACLs "
                f"were granted to {job.order.task_principal}. Pass the principal of the certificate in "
                "--task-command-config as --task-principal.",
            ) from None
        return False
    except KafkaError as error:
        if not passing(error):
            raise
        return late  # the broker is down; tasks wait for its partitions themselves
    return True
