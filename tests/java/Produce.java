import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes the lines of its input to partition 0, as many to a batch as told, with each of Kafka's codecs in turn. */
public class Produce {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[2]);
        List<String> lines = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
        for (int first = 0; first < lines.size(); first += records) {
            String codec = CODECS.get(first / records % CODECS.size());
            Map<String, Object> settings = Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers,
                ProducerConfig.COMPRESSION_TYPE_CONFIG, codec,
                ProducerConfig.BATCH_SIZE_CONFIG, 1 << 20,
                ProducerConfig.LINGER_MS_CONFIG, 60_000);
            var bytes = new ByteArraySerializer();
            try (var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes)) {
                for (String line : lines.subList(first, Math.min(first + records, lines.size()))) {
                    byte[] value = line.getBytes(StandardCharsets.UTF_8);
                    var headers = List.<org.apache.kafka.common.header.Header>of(
                        new RecordHeader("codec", codec.getBytes(StandardCharsets.UTF_8)), new RecordHeader("none", null));
                    producer.send(new ProducerRecord<>(topic, 0, codec.getBytes(StandardCharsets.UTF_8), value, headers));
                }
            }
        }
    }
}
