import java.util.List;

import kafka.consumer.BaseConsumerRecord;
import kafka.tools.MirrorMaker;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.record.RecordBatch;

/** Sends each record to the partition that it has at the source; the tool's own handler leaves that to a hash of the key. */
public final class SamePartition implements MirrorMaker.MirrorMakerMessageHandler {
    private final String prefix;

    public SamePartition(String prefix) {
        this.prefix = prefix;
    }

    public SamePartition() {
        this("");
    }

    @Override
    public List<ProducerRecord<byte[], byte[]>> handle(BaseConsumerRecord record) {
        Long time = record.timestamp() == RecordBatch.NO_TIMESTAMP ? null : (Long) record.timestamp();
        return List.of(new ProducerRecord<>(
                prefix + record.topic(), record.partition(), time, record.key(), record.value(), record.headers()));
    }
}
