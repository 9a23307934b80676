"""Kafka's client quotas (KIP-546)."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Quota:
    """The quota of an entity: `{"user": "a", "client-id": None}`, where None is the default one."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]
