"""Client quotas: list and set them."""

from collections.abc import Iterable, Iterator
from typing import Any

from kafka.errors import NotControllerError, for_code
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from aqueduct.common.wording import count, some
from aqueduct.errors import Failed
from aqueduct.kafka.admin.asking import RESOURCES_PER_REQUEST, Said, answer, change
from aqueduct.kafka.client import Client
from aqueduct.kafka.quotas import Quota
from aqueduct.kafka.requests import in_lists


def list_quotas(client: Client) -> tuple[Quota, ...]:
    """Return every quota of users, clients and addresses."""
    response = answer(client, DescribeClientQuotasRequest(components=[], strict=False))
    return tuple(
        Quota(
            entity={component.entity_type: component.entity_name for component in entry.entity},
            values={limit.key: limit.value for limit in entry.values},
        )
        for entry in response.entries
    )


def apply_quotas(client: Client, quotas: Iterable[Quota]) -> None:
    """Set these values; others of the same entities stay."""
    if refused := _set(client, quotas):
        refusals = [f"{dict(quota.entity)} ({reason})" for quota, reason in refused]
        raise Failed(
            "quota-rejected", f"The controller rejected {count(len(refused), 'quota')}: {some(refusals)}."
        )


def set_known_quotas(client: Client, quotas: Iterable[Quota]) -> list[tuple[Quota, str]]:
    """Set the values that the cluster knows, and return the others, each with the reason for its refusal.

    A cluster of another version may not know a key, and then refuses all values of an entity.
    """
    refused = []
    for quota, reason in _set(client, quotas):
        if len(quota.values) == 1:
            refused.append((quota, reason))
            continue
        for key, value in quota.values.items():  # a request takes an entity once
            refused += _set(client, [Quota(quota.entity, {key: value})])
    return refused


def _set(client: Client, quotas: Iterable[Quota]) -> list[tuple[Quota, str]]:
    refused: list[tuple[Quota, str]] = []
    kind = AlterClientQuotasRequest.EntryData
    for several in in_lists(quotas, RESOURCES_PER_REQUEST):

        def noted(response: Any, several: list[Quota] = several) -> Iterator[Said]:
            by_entity = {frozenset(quota.entity.items()): quota for quota in several}
            for result in response.entries:  # in another order than they were asked for
                quota = by_entity[
                    frozenset((component.entity_type, component.entity_name) for component in result.entity)
                ]
                if result.error_code and for_code(result.error_code) is not NotControllerError:
                    refused.append((quota, result.error_message or for_code(result.error_code).__name__))
                yield f"{dict(quota.entity)}", result.error_code, result.error_message

        entries = [
            kind(
                entity=[kind.EntityData(*part) for part in quota.entity.items()],
                ops=[kind.OpData(key=key, value=value, remove=False) for key, value in quota.values.items()],
            )
            for quota in several
        ]
        change(client, AlterClientQuotasRequest(entries=entries, validate_only=False), noted)
    return refused
