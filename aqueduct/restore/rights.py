"""ACLs and quotas of a snapshot, added to those that the target has."""

from kafka.errors import SecurityDisabledError

from aqueduct.errors import LeftOut
from aqueduct.kafka import acls
from aqueduct.kafka.admin.acls import apply_acls, list_acls
from aqueduct.kafka.admin.quotas import apply_quotas
from aqueduct.kafka.client import Client
from aqueduct.restore.outcome import Rights
from aqueduct.store.snapshots import Snapshot
from aqueduct.wording import count


def restore(client: Client, snapshot: Snapshot) -> tuple[Rights, LeftOut]:
    """Add what is missing; a target without an authorizer gets no ACLs."""
    wanted, quotas = frozenset(snapshot.manifest.acls), snapshot.manifest.quotas
    left_out: LeftOut = ()
    missing: frozenset[acls.Acl] = frozenset()
    try:
        missing = wanted - list_acls(client) if wanted else wanted
        apply_acls(client, acls.AclChanges(add=tuple(sorted(missing)), remove=()))
    except SecurityDisabledError:
        left_out = ((count(len(wanted), "ACL"), "the target has no authorizer"),)
        wanted = missing
    apply_quotas(client, quotas)
    return Rights(len(missing), len(wanted) - len(missing), len(quotas)), left_out
