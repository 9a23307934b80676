"""What a partition holds, as librdkafka's clients say it."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

# Errors that end when the broker or the client knows the topic and its leader. For a partition without a
# leader, librdkafka returns _UNKNOWN_PARTITION until its metadata is renewed.
NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know its high watermark yet (KIP-207)
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)


def watermarks(consumer: Consumer, place: TopicPartition, seconds: float = 30) -> tuple[int, int]:
    """Return a partition's first offset and its end offset, when a leader is known."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(place, timeout=seconds)
            return found
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            consumer.list_topics(place.topic, timeout=seconds)
