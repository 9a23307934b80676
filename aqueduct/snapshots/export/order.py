"""The request for an export."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from aqueduct.land.declaration import LandTable
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.signing import EVERYBODY, Trust

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey


class FileFormat(StrEnum):
    """A format of the files; also the ending of their names."""

    PARQUET = "parquet"
    AVRO = "avro"


@dataclass(frozen=True, kw_only=True)
class ExportOrder:
    """A store, and what of it goes where."""

    store: str  # URL
    to: str  # URL
    format: FileFormat
    request: Request  # its names are the same at both ends
    tables: tuple[LandTable, ...] = ()  # topics that one of them takes have its columns
    snapshot: int | None = None  # None: the newest, or that of the export that resumes
    at_least: int | None = None  # an older snapshot is not to be exported
    trust: Trust = EVERYBODY  # whose snapshots may be
    private_keys: "tuple[ReceiverKey, ...]" = ()  # that open what is encrypted
    skip_verify: bool = False
