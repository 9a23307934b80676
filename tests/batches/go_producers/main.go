// Writes the same records with franz-go and with sarama, with each codec, to a broker in this process (kfake). Keeps the
// record batch of each Produce request as it is sent: DIRECTORY/LIBRARY-CODEC-TIMES.bin.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topic   = "t"
	records = 40
	millis  = 1_700_000_000_000
)

type record struct {
	key, value []byte
	time       time.Time
}

// A record's text is n * times words long. The larger number makes data of several blocks: 32 KB are one of snappy, 64 KB one
// of lz4 as sarama writes it, and 128 KB one of zstd.
func all(times int) []record {
	list := make([]record, records)
	for n := range list {
		list[n] = record{
			[]byte(fmt.Sprintf("key %d", n)),
			[]byte(fmt.Sprintf(`{"n": %d, "text": "%s"}`, n, strings.Repeat("text ", n*times))),
			time.UnixMilli(millis + int64(n)),
		}
	}
	list[1].key = nil
	list[2].value = nil
	list[3].value = []byte{}
	return list
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func byFranz(servers []string, codec kgo.CompressionCodec, times int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(500*time.Millisecond))
	check(err)
	defer client.Close()
	var list []*kgo.Record
	for _, r := range all(times) {
		headers := []kgo.RecordHeader{{Key: "source", Value: []byte("test")}}
		list = append(list, &kgo.Record{Topic: topic, Key: r.key, Value: r.value, Timestamp: r.time, Headers: headers})
	}
	check(client.ProduceSync(context.Background(), list...).FirstErr())
}

func encoder(content []byte) sarama.Encoder {
	if content == nil {
		return nil
	}
	return sarama.ByteEncoder(content)
}

func bySarama(servers []string, codec sarama.CompressionCodec, times int) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Compression = codec
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Flush.Messages = records
	config.Producer.Flush.Frequency = 5 * time.Second
	producer, err := sarama.NewSyncProducer(servers, config)
	check(err)
	var list []*sarama.ProducerMessage
	for _, r := range all(times) {
		headers := []sarama.RecordHeader{{Key: []byte("source"), Value: []byte("test")}}
		list = append(list, &sarama.ProducerMessage{Topic: topic, Key: encoder(r.key), Value: encoder(r.value),
			Timestamp: r.time, Headers: headers})
	}
	check(producer.SendMessages(list))
	check(producer.Close())
}

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	check(err)
	defer cluster.Close()
	var batches [][]byte
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, of := range request.(*kmsg.ProduceRequest).Topics {
			for _, partition := range of.Partitions {
				batches = append(batches, append([]byte(nil), partition.Records...))
			}
		}
		return nil, nil, false
	})
	keep := func(name string) {
		if len(batches) != 1 {
			log.Fatalf("%s: %d batches", name, len(batches))
		}
		check(os.WriteFile(filepath.Join(os.Args[1], name+".bin"), batches[0], 0o644))
		batches = nil
	}
	servers := cluster.ListenAddrs()
	franz := map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	ibm := map[string]sarama.CompressionCodec{"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}
	long := map[string]int{"gzip": 100, "snappy": 15, "lz4": 150, "zstd": 150} // each file has less than 4 KB
	for codec := range franz {
		for _, times := range []int{1, long[codec]} {
			byFranz(servers, franz[codec], times)
			keep(fmt.Sprintf("franz-go-%s-%d", codec, times))
			bySarama(servers, ibm[codec], times)
			keep(fmt.Sprintf("sarama-%s-%d", codec, times))
		}
	}
}
