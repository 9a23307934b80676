"""Client quotas: list and set them."""

from collections.abc import Iterable

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from aqueduct.errors import Failed
from aqueduct.kafka.admin.asking import RESOURCES_PER_REQUEST, answer, change
from aqueduct.kafka.client import Client
from aqueduct.kafka.quotas import Quota
from aqueduct.kafka.requests import in_lists
from aqueduct.wording import count, some


def list_quotas(client: Client) -> tuple[Quota, ...]:
    """Return every quota of users, clients and addresses."""
    response = answer(client, DescribeClientQuotasRequest(components=[], strict=False))
    return tuple(
        Quota(
            entity={each.entity_type: each.entity_name for each in entry.entity},
            values={each.key: each.value for each in entry.values},
        )
        for entry in response.entries
    )


def apply_quotas(client: Client, quotas: Iterable[Quota]) -> None:
    """Set these values; others of the same entities stay."""
    refused = []
    kind = AlterClientQuotasRequest.EntryData
    for several in in_lists(quotas, RESOURCES_PER_REQUEST):
        entries = [
            kind(
                entity=[kind.EntityData(*part) for part in quota.entity.items()],
                ops=[kind.OpData(key=key, value=value, remove=False) for key, value in quota.values.items()],
            )
            for quota in several
        ]
        refused += change(
            client,
            AlterClientQuotasRequest(entries=entries, validate_only=False),
            lambda response, several=several: (  # type: ignore[misc]
                (f"{dict(quota.entity)}", result.error_code, result.error_message)
                for quota, result in zip(several, response.entries, strict=True)
            ),
        )
    if refused:
        raise Failed(
            "quota-rejected", f"The controller refused {count(len(refused), 'quota')}: {some(refused)}."
        )
