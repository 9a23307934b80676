"""Reader of record headers into an Arrow list for each record."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aqueduct.kafka.batches.header_positions import HeaderPlaces
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.batches.varints import Mask
from aqueduct.land.records import cut_out

RAW = pa.list_(
    pa.field("item", pa.struct([pa.field("key", pa.binary(), False), ("value", pa.binary())]), False)
)


@dataclass(frozen=True)
class ReadHeaders:
    lists: pa.ListArray  # of RAW; empty for records with too many headers
    too_many: Mask


def read(places: RecordPlaces) -> ReadHeaders:
    """Read the headers of records; IndexError or ValueError if the bytes are not records."""
    found = HeaderPlaces.of(places)
    keys = cut_out(places.data, found.begins, found.ends)
    values = cut_out(places.data, found.value_begins, found.value_ends, found.null)
    items = pa.StructArray.from_arrays([keys, values], fields=list(RAW.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(found.counts)]), pa.int32())
    return ReadHeaders(pa.ListArray.from_arrays(offsets, items, type=RAW), found.too_many)
