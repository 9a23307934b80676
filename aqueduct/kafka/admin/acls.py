"""ACLs: list them, grant and revoke."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from kafka.errors import KafkaConnectionError, NotControllerError, SecurityDisabledError, for_code
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from aqueduct.common.wording import count, some
from aqueduct.errors import Failed
from aqueduct.kafka.acls import Acl, AclChanges
from aqueduct.kafka.admin.asking import (
    POLL_SECONDS,
    RESOURCES_PER_REQUEST,
    SETTLE_SECONDS,
    Said,
    answer,
    change,
)
from aqueduct.kafka.client import Client
from aqueduct.kafka.requests import in_lists

# The positions are Kafka's codes (org.apache.kafka.common.acl and .resource).
_RESOURCES = ["unknown", "any", "topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
_PATTERNS = ["unknown", "any", "match", "literal", "prefixed"]
_PERMISSIONS = ["unknown", "any", "deny", "allow"]
_OPERATIONS = ["unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe"]
_OPERATIONS += ["cluster_action", "describe_configs", "alter_configs", "idempotent_write"]
_OPERATIONS += ["create_tokens", "describe_tokens", "two_phase_commit"]


def list_acls(client: Client) -> frozenset[Acl]:
    """Return every ACL of the cluster."""
    request = DescribeAclsRequest(
        resource_type_filter=_RESOURCES.index("any"),
        resource_name_filter=None,  # any; left out, it would be the empty name
        pattern_type_filter=_PATTERNS.index("any"),
        principal_filter=None,
        host_filter=None,
        operation=_OPERATIONS.index("any"),
        permission_type=_PERMISSIONS.index("any"),
        min_version=3,  # with resources of type user
    )
    return frozenset(
        Acl(
            principal=acl.principal,
            resource=_word(_RESOURCES, resource.resource_type),
            name=resource.resource_name,
            pattern=_word(_PATTERNS, resource.pattern_type),
            operation=_word(_OPERATIONS, acl.operation),
            host=acl.host,
            permission=_word(_PERMISSIONS, acl.permission_type),
        )
        for resource in answer(client, request).resources
        for acl in resource.acls
    )


def _word(words: list[str], code: int) -> str:
    """Return Kafka's word for a code; of a code that a later version added, its number."""
    return words[code] if code < len(words) else str(code)


def _code(words: list[str], word: str) -> int:
    return int(word) if word.isdecimal() else words.index(word)


def apply_acls(client: Client, changes: AclChanges) -> None:
    """Grant, then revoke, so that no right is missing between; return when the brokers know it."""
    refused = []
    for added in in_lists(changes.add, RESOURCES_PER_REQUEST):
        creations = [CreateAclsRequest.AclCreation(*_codes(acl)) for acl in added]
        refused += change(
            client,
            CreateAclsRequest(creations=creations),
            lambda response, added=added: (  # type: ignore[misc]
                (str(acl), result.error_code, result.error_message)
                for acl, result in zip(added, response.results, strict=True)
            ),
        )
    for removed in in_lists(changes.remove, RESOURCES_PER_REQUEST):
        filters = [DeleteAclsRequest.DeleteAclsFilter(*_codes(acl)) for acl in removed]
        refused += change(
            client,
            DeleteAclsRequest(filters=filters),
            lambda response, removed=removed: (  # type: ignore[misc]
                (str(acl), result.error_code, result.error_message)
                for acl, result in zip(removed, response.filter_results, strict=True)
            ),
        )
    if refused:
        raise Failed(
            "acl-rejected", f"The controller rejected {count(len(refused), 'ACL')}: {some(refused)}."
        )
    _await_acls(client, changes)


def grant_known(client: Client, acls: Iterable[Acl]) -> dict[Acl, str]:
    """Grant what the cluster knows, and return the others, each with the reason why it was refused.

    A cluster of another version may not know a kind of resource or an operation, and then refuses all ACLs of
    a request.
    """
    refused: dict[Acl, str] = {}
    sent = []
    for acl in acls:
        try:
            _codes(acl)
        except ValueError:
            refused[acl] = "this version of Aqueduct does not support the resource type or the operation"
        else:
            sent.append(acl)
    for added in in_lists(sent, RESOURCES_PER_REQUEST):
        try:
            doubtful = list(_create(client, added))
        except KafkaConnectionError:
            doubtful = added
        for acl in doubtful:
            try:
                refused |= _create(client, [acl])
            except KafkaConnectionError:  # a broker hangs up at a code that it does not know
                refused[acl] = (
                    "the broker closed the connection, because it does not support the resource type or "
                    "the operation"
                )
    granted = tuple(acl for acl in sent if acl not in refused)
    _await_acls(client, AclChanges(granted, ()))
    return refused


def _create(client: Client, added: list[Acl]) -> dict[Acl, str]:
    """Create ACLs in one request; return those that were refused, each with the reason."""
    reason_by_acl: dict[Acl, str] = {}

    def noted(response: Any) -> Iterator[Said]:
        for acl, result in zip(added, response.results, strict=True):
            if result.error_code and for_code(result.error_code) is not NotControllerError:
                if for_code(result.error_code) is SecurityDisabledError:
                    raise SecurityDisabledError(result.error_message or "")
                reason_by_acl[acl] = result.error_message or for_code(result.error_code).__name__
            yield str(acl), result.error_code, result.error_message

    creations = [CreateAclsRequest.AclCreation(*_codes(acl)) for acl in added]
    change(client, CreateAclsRequest(creations=creations), noted)
    return reason_by_acl


def _await_acls(client: Client, changes: AclChanges) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while not (set(changes.add) <= (visible := list_acls(client)) and visible.isdisjoint(changes.remove)):
        if time.monotonic() > deadline:
            raise Failed(
                "acl-not-visible",
                f"The brokers do not list the new ACLs {SETTLE_SECONDS} s after the controller accepted "
                "them.",
            )
        client.sleep(POLL_SECONDS)


def _codes(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    """Return the fields of AclCreation, and in the same order those of DeleteAclsFilter."""
    return (
        _code(_RESOURCES, acl.resource),
        acl.name,
        _code(_PATTERNS, acl.pattern),
        acl.principal,
        acl.host,
        _code(_OPERATIONS, acl.operation),
        _code(_PERMISSIONS, acl.permission),
    )
