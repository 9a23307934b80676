"""The messages of share groups (KIP-932) that kafka-python has no schemas of.

Requests and responses of a share group's offsets, and the values of `__share_group_state`, where brokers keep
what became of each record that a share group received. All in version 0, in the words of Kafka's own files.
"""

from collections.abc import Mapping
from typing import Any

from kafka.protocol.api_message import ApiMessage, ApiMessageData
from kafka.protocol.schemas import StructField

MessageSchema = Mapping[str, Any]


def message(schema: MessageSchema) -> Any:
    """Return the class of a message, as kafka-python makes it of a file with this schema."""
    attributes = {"_json": schema, "_struct": StructField(schema), "_class_version": None, "_VERSIONS": {}}
    made = ApiMessageData(schema["name"], (ApiMessage,), attributes, init=False)
    made._struct.set_data_class(made)
    return made


def _field(name: str, kind: str, *fields: MessageSchema, **more: Any) -> MessageSchema:
    return {"name": name, "type": kind, "versions": "0+", **more, **({"fields": fields} if fields else {})}


def _message(name: str, kind: str, key: int, *fields: MessageSchema) -> Any:
    versions = {"validVersions": "0", "flexibleVersions": "0+"}
    return message({"apiKey": key, "type": kind, "name": name, **versions, "fields": list(fields)})


_THROTTLE = _field("ThrottleTimeMs", "int32")
_ERROR = _field("ErrorCode", "int16"), _field("ErrorMessage", "string", nullableVersions="0+", default="null")
_GROUP = _field("GroupId", "string")
_TOPIC = _field("TopicName", "string")
_TOPIC_ID = _field("TopicId", "uuid")
_PARTITION = _field("PartitionIndex", "int32")
_START = _field("StartOffset", "int64")
_EPOCH = _field("LeaderEpoch", "int32")

DescribeShareGroupOffsetsRequest = _message(
    "DescribeShareGroupOffsetsRequest",
    "request",
    90,
    _field(
        "Groups",
        "[]Group",
        _GROUP,
        _field("Topics", "[]Topic", _TOPIC, _field("Partitions", "[]int32"), nullableVersions="0+"),
    ),
)
DescribeShareGroupOffsetsResponse = _message(
    "DescribeShareGroupOffsetsResponse",
    "response",
    90,
    _THROTTLE,
    _field(
        "Groups",
        "[]Group",
        _GROUP,
        _field(
            "Topics",
            "[]Topic",
            *(_TOPIC, _TOPIC_ID),
            _field("Partitions", "[]Partition", _PARTITION, _START, _EPOCH, *_ERROR),
        ),
        *_ERROR,
    ),
)
AlterShareGroupOffsetsRequest = _message(
    "AlterShareGroupOffsetsRequest",
    "request",
    91,
    _GROUP,
    _field("Topics", "[]Topic", _TOPIC, _field("Partitions", "[]Partition", _PARTITION, _START)),
)
AlterShareGroupOffsetsResponse = _message(
    "AlterShareGroupOffsetsResponse",
    "response",
    91,
    *(_THROTTLE, *_ERROR),
    _field(
        "Responses", "[]Topic", _TOPIC, _TOPIC_ID, _field("Partitions", "[]Partition", _PARTITION, *_ERROR)
    ),
)

# Values of records. Their type is "request", because kafka-python registers each response by its API key.
_COMPLETE = _field("DeliveryCompleteCount", "int32", taggedVersions="0+", tag=0, default="-1")  # KIP-1226
_BATCHES = _field(
    "StateBatches",
    "[]StateBatch",
    *(_field("FirstOffset", "int64"), _field("LastOffset", "int64")),
    *(_field("DeliveryState", "int8"), _field("DeliveryCount", "int16")),
)
ShareSnapshotValue = _message(
    "ShareSnapshotValue",
    "request",
    0,
    *(_field("SnapshotEpoch", "int32"), _field("StateEpoch", "int32"), _EPOCH, _START, _COMPLETE),
    *(_field("CreateTimestamp", "int64"), _field("WriteTimestamp", "int64"), _BATCHES),
)
ShareUpdateValue = _message(
    *("ShareUpdateValue", "request", 1),
    *(_field("SnapshotEpoch", "int32"), _EPOCH, _START, _COMPLETE, _BATCHES),
)
