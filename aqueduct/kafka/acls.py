"""ACLs: what the inventory declares against what the cluster has.

The inventory only allows, to a principal, from any host. A principal is managed if the inventory names it or
its name matches a pattern (the flows' services: a flow that left the inventory loses its rights): its ACLs
become exactly the declared ones. Other principals are left alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from aqueduct.errors import Refused

# What brokers ask for on each kind of resource (org.apache.kafka.security.authorizer.AclEntry).
_CONFIGS = {"describe_configs", "alter_configs"}
OPERATIONS: Mapping[str, Set[str]] = {
    "topic": {"all", "read", "write", "create", "delete", "alter", "describe", *_CONFIGS},
    "group": {"all", "read", "delete", "describe", *_CONFIGS},
    "cluster": {"all", "create", "alter", "describe", "cluster_action", "idempotent_write", *_CONFIGS},
    "transactional_id": {"all", "write", "describe", "two_phase_commit"},
}
# What is allowed with each of others (AclAuthorizer.authorize).
_IMPLIED = {"describe": {"read", "write", "delete", "alter"}, "describe_configs": {"alter_configs"}}
ANY = "*", "literal"  # every resource of a kind; prefixed, it is only those whose name begins so
CLUSTER = "kafka-cluster"  # the name of the only resource of kind cluster
USER = "User:"


@dataclass(frozen=True, order=True, kw_only=True)
class Acl:
    """One access control entry in Kafka's words, lower case; `principal` with its type: `User:mirror-x`."""

    principal: str
    resource: str
    name: str
    pattern: str
    operation: str
    host: str = "*"
    permission: str = "allow"

    @property
    def denies(self) -> bool:
        return self.permission == "deny"

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.principal} from {self.host}: "
            f"{self.operation} on {self.resource} {self.name} ({self.pattern})"
        )


@dataclass(frozen=True)
class AclChanges:
    add: tuple[Acl, ...]
    remove: tuple[Acl, ...]


def parse(entries: Sequence[Mapping[str, Any]]) -> frozenset[Acl]:
    """Return the inventory's `kafka_acls`, an Acl for each operation; Refused with every mistake in it."""
    acls = set()
    problems = []
    for entry in entries:
        principal, resource, name = entry["principal"], entry["resource"], entry["name"]
        pattern = entry.get("pattern") or "literal"
        where = f"the ACL of {principal} on {resource} {name}"
        if not principal or principal.startswith(USER):
            problems.append(f"{where} needs a principal that does not begin with '{USER}'")
        if resource not in OPERATIONS:
            problems.append(f"{where} has an unknown resource type; use {', '.join(OPERATIONS)}")
            continue
        if resource == "cluster" and (name, pattern) != (CLUSTER, "literal"):
            problems.append(f"{where} must have the name {CLUSTER} and the pattern type literal")
        if pattern not in ("literal", "prefixed"):
            problems.append(f"{where} has the unknown pattern type {pattern}; use literal or prefixed")
        if not name:
            problems.append(f"{where} has no name")
        if not entry["operations"]:
            problems.append(f"{where} has no operations")
        if unknown := sorted(set(entry["operations"]) - OPERATIONS[resource]):
            operations = ", ".join(sorted(OPERATIONS[resource]))
            problems.append(
                f"{where} has the unknown operation {', '.join(unknown)}; the operations of a {resource} "
                f"are {operations}"
            )
        acls |= {
            Acl(principal=f"{USER}{principal}", resource=resource, name=name, pattern=pattern, operation=op)
            for op in entry["operations"]
        }
    if problems:
        raise Refused("acl-declaration-invalid", f"The declared ACLs have faults: {'; '.join(problems)}.")
    return frozenset(acls)


def plan(declared: Iterable[Acl], actual: Iterable[Acl], managed_principals: str) -> AclChanges:
    """Return the ACLs to grant and to revoke.

    `managed_principals` is a regex, searched in names without `User:`.
    """
    declared_acls = frozenset(declared)
    actual_acls = frozenset(actual)
    try:
        pattern = re.compile(managed_principals)
    except re.error as error:
        raise Refused(
            "pattern-invalid",
            f"managed_principals: {managed_principals!r} is not a valid regular expression: {error}.",
        ) from None
    named = {acl.principal for acl in declared_acls}

    def is_ours(principal: str) -> bool:
        return principal in named or (
            principal.startswith(USER) and pattern.search(principal.removeprefix(USER)) is not None
        )

    return AclChanges(
        add=tuple(sorted(declared_acls - actual_acls)),
        remove=tuple(sorted(acl for acl in actual_acls - declared_acls if is_ours(acl.principal))),
    )


def within(acl: Acl, declared: Iterable[Acl]) -> bool:
    """Tell whether one of the declared ACLs allows all that this one does; one that denies gives nothing."""
    return acl.denies or any(_covers(declared_acl, acl) for declared_acl in declared)


def _covers(declared: Acl, acl: Acl) -> bool:
    operations = {acl.operation, "all", *_IMPLIED.get(acl.operation, ())}
    if (declared.name, declared.pattern) == ANY:
        named = True
    elif declared.pattern == "prefixed":
        named = acl.name.startswith(declared.name) and (acl.name, acl.pattern) != ANY
    else:
        named = (declared.name, declared.pattern) == (acl.name, acl.pattern)
    return (
        (declared.permission, acl.permission) == ("allow", "allow")
        and (declared.principal, declared.resource) == (acl.principal, acl.resource)
        and declared.host in ("*", acl.host)
        and declared.operation in operations
        and named
    )


def diff(changes: AclChanges) -> dict[str, str]:
    """Return `{"before": text, "after": text}` for Ansible's diff mode: a line for each changed ACL."""
    return {
        "before": "".join(f"{acl}\n" for acl in changes.remove),
        "after": "".join(f"{acl}\n" for acl in changes.add),
    }
