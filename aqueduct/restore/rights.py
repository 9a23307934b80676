"""ACLs and quotas of a snapshot, added to those that the target has."""

from kafka.errors import SecurityDisabledError

from aqueduct.kafka import acls
from aqueduct.kafka.admin import Admin
from aqueduct.restore.outcome import LeftOut, Rights
from aqueduct.store.snapshots import Snapshot
from aqueduct.wording import count


def restore(admin: Admin, snapshot: Snapshot) -> tuple[Rights, LeftOut]:
    """Add what is missing; a target without an authorizer gets no ACLs."""
    wanted, quotas = frozenset(snapshot.manifest.acls), snapshot.manifest.quotas
    left_out: LeftOut = ()
    missing: frozenset[acls.Acl] = frozenset()
    try:
        missing = wanted - admin.list_acls() if wanted else wanted
        admin.apply_acls(acls.AclChanges(add=tuple(sorted(missing)), remove=()))
    except SecurityDisabledError:
        left_out = ((count(len(wanted), "ACL"), "the target has no authorizer"),)
        wanted = missing
    admin.apply_quotas(quotas)
    return Rights(len(missing), len(wanted) - len(missing), len(quotas)), left_out
