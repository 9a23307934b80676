"""Metrics of exporters that alerts and dashboards use, with their labels.

`tests/broker/test_exporters.py` checks the metrics of Kafka on real processes. The scenario that deploys the
exporters checks all of them.
"""

KAFKA: dict[str, tuple[str, ...]] = {
    "kafka_controller_kafkacontroller_activecontrollercount": (),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (),
    "kafka_log_logmanager_offlinelogdirectorycount": (),
    "kafka_network_processor_idle_ratio": (),
    "kafka_network_request_milliseconds": ("percentile", "request"),
    "kafka_server_brokertopicmetrics_bytesin_total": (),
    "kafka_server_brokertopicmetrics_bytesout_total": (),
    "kafka_server_brokertopicmetrics_messagesin_total": (),
    "kafka_server_replicamanager_partitioncount": (),
    "kafka_server_replicamanager_partitionswithlatetransactionscount": (),
    "kafka_server_replicamanager_underminisrpartitioncount": (),
    "kafka_server_replicamanager_underreplicatedpartitions": (),
    "kafka_server_request_handler_idle_ratio": (),
    "kafka_server_version": ("node", "version"),
}
MIRROR: dict[str, tuple[str, ...]] = {
    "kafka_connect_task_status": ("connector", "status", "task"),
    "kafka_mirror_byte_rate": ("partition", "target", "topic"),
    "kafka_mirror_record_rate": ("partition", "target", "topic"),
    "kafka_mirror_replication_latency_ms_max": ("partition", "target", "topic"),
    "kafka_mirror_task_records_consumed": ("task",),
    "kafka_mirror_task_records_lag_max": ("task",),
}
CONNECT: dict[str, tuple[str, ...]] = {
    "kafka_connect_task_error_metrics_deadletterqueue_produce_requests": ("connector", "task"),
}
NODE: dict[str, tuple[str, ...]] = {
    "node_cpu_seconds_total": ("cpu", "mode"),
    "node_filesystem_avail_bytes": ("device", "fstype", "mountpoint"),
    "node_filesystem_size_bytes": ("device", "fstype", "mountpoint"),
    "node_memory_MemAvailable_bytes": (),
    "node_memory_MemTotal_bytes": (),
    "node_systemd_unit_state": ("name", "state", "type"),
    "node_time_seconds": (),
}
EVERY = {**KAFKA, **MIRROR, **CONNECT, **NODE}
