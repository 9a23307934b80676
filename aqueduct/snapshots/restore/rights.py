"""Adds the ACLs and quotas of a snapshot to those of the target."""

from collections import Counter

from kafka.errors import SecurityDisabledError

from aqueduct.common.wording import count, some
from aqueduct.errors import LeftOut, Skipped
from aqueduct.kafka import acls
from aqueduct.kafka.admin.acls import grant_known, list_acls
from aqueduct.kafka.admin.quotas import set_known_quotas
from aqueduct.kafka.client import Client
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.outcome import Rights, Warned
from aqueduct.store.snapshots import Snapshot


def restore(client: Client, order: RestoreOrder, snapshot: Snapshot) -> tuple[Rights, LeftOut]:
    """Add those that are missing and may be granted. A target without an authorizer gets no ACLs."""
    permitted, left_out = allowed(order, frozenset(snapshot.manifest.acls))
    missing: frozenset[acls.Acl] = frozenset()
    refused: dict[acls.Acl, str] = {}
    try:
        missing = permitted - list_acls(client) if permitted else permitted
        refused = grant_known(client, sorted(missing))
    except SecurityDisabledError:
        acls_of_snapshot = count(len(snapshot.manifest.acls), "ACL")
        left_out = (Skipped(acls_of_snapshot, "the target has no authorizer", "authorizer-missing"),)
        permitted = missing
    left_out += tuple(
        Skipped(f"ACL {acl}", f"the target refuses it: {reason.rstrip('.')}", "acl-unsupported")
        for acl, reason in refused.items()
    )
    quotas = snapshot.manifest.quotas
    not_set = set_known_quotas(client, quotas)
    for quota, reason in not_set:
        entity = ", ".join(f"{kind} {name or '<default>'}" for kind, name in quota.entity.items())
        left_out += (
            Skipped(
                f"quota {', '.join(quota.values)} of {entity}",
                f"the target refuses it: {reason.rstrip('.')}",
                "quota-unsupported",
            ),
        )
    whole = sum(all(quota.entity != other.entity for other, _ in not_set) for quota in quotas)
    denied = tuple(str(acl) for acl in sorted(missing - refused.keys()) if acl.denies)
    return Rights(
        acls=len(missing) - len(refused), known=len(permitted) - len(missing), quotas=whole, denied=denied
    ), left_out


def warnings(rights: Rights | None) -> tuple[Warned, ...]:
    """Return a warning for DENY ACLs: anyone who can write to the store can stop clients with them."""
    if not (rights and rights.denied):
        return ()
    return (
        Warned(
            "acl-denies",
            f"DENY ACLs of the backup were set: {some(rights.denied)}. If these clients are to have "
            "access, remove them with kafka-acls.sh.",
        ),
    )


def allowed(order: RestoreOrder, stored: frozenset[acls.Acl]) -> tuple[frozenset[acls.Acl], LeftOut]:
    """Return the ACLs of a snapshot that may be granted, and the skipped ones by principal.

    ACLs of a restore's tasks are neither: a restore was running during the backup.
    """
    of_tasks = order.task_principal and f"{acls.USER}{order.task_principal}"
    others = frozenset(acl for acl in stored if acl.principal != of_tasks)
    declared, named = order.acls_within, {f"{acls.USER}{name}" for name in order.acls_of}
    if declared is None:
        return others, ()
    may = frozenset(acl for acl in others if acl.principal in named or acls.within(acl, declared))
    skipped = Counter(acl.principal for acl in others - may)
    reason = "--acls-within does not allow them, and --acls-of does not list this principal"
    left_out = [
        Skipped(f"{count(number, 'ACL')} of {principal}", reason, "acl-not-allowed")
        for principal, number in sorted(skipped.items())
    ]
    left_out += [
        Skipped(
            f"ACLs of {principal}",
            "the snapshot has no ACLs of this principal; check --acls-of",
            "principal-unknown",
        )
        for principal in sorted(named - {acl.principal for acl in stored})
    ]
    return may, tuple(left_out)
