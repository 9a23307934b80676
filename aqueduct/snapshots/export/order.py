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
    """A format of export files; also the extension of their names."""

    PARQUET = "parquet"
    AVRO = "avro"


@dataclass(frozen=True, kw_only=True)
class ExportOrder:
    """The request for an export: a store, the records to export, and the target folder."""

    store: str  # URL
    to: str  # URL
    format: FileFormat
    request: Request  # without renamed topics
    tables: tuple[LandTable, ...] = ()  # the topics of these tables get their columns
    snapshot: int | None = None  # None: the newest, or the one of the export that resumes
    at_least: int | None = None  # the oldest snapshot number that is accepted
    trust: Trust = EVERYBODY  # the accepted signers of snapshots
    private_keys: "tuple[ReceiverKey, ...]" = ()  # that decrypt the backup
    skip_verify: bool = False
