"""The request for a landing."""

from dataclasses import dataclass

from aqueduct.kafka.client_config import End
from aqueduct.land.declaration import LandTable


@dataclass(frozen=True, kw_only=True)
class LandOrder:
    """The request for a landing."""

    end: End
    location: str
    tables: tuple[LandTable, ...]
    metastores: tuple[tuple[str, int], ...] = ()  # of one catalogue; none: there is none
