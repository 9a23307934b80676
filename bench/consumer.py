"""The limit: one plain consumer that reads a topic and does nothing with it.

python -m bench.consumer SERVERS TOPIC
"""

import sys

from confluent_kafka import Consumer, TopicPartition

MESSAGES = 10_000
# By default librdkafka pauses for a second whenever 100,000 messages wait, which small ones soon are.
FULL_QUEUES = {"queued.min.messages": 10_000_000, "fetch.queue.backoff.ms": 5}


def main(servers: str, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False, **FULL_QUEUES}
    )
    partitions = consumer.list_topics(topic).topics[topic].partitions
    ends = {each: consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in partitions}
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    rest = sum(ends.values())
    while rest > 0:
        for message in consumer.consume(min(MESSAGES, rest), timeout=10):
            if message.error():
                raise SystemExit(str(message.error()))
            message.value()
            rest -= 1
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
