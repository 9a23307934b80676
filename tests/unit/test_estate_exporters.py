"""Targets of Prometheus follow what roles declare."""

from aqueduct.estate.exporters import Exporter, MonitoredHost, declared_exporters, targets


def test_an_exporter_without_a_port_is_none() -> None:
    assert declared_exporters("land", {"land": 0}) == []
    assert declared_exporters("land", {"land": "9880"}) == [Exporter(role="land", name="land", port=9880)]


def test_each_exporter_is_target_with_job_of_role() -> None:
    exporters = (
        Exporter(role="mirror_maker", name="mirror_maker@pro1", port=9420),
        Exporter(role="kafka", name="kafka", port=9405),
    )
    hosts = [
        MonitoredHost(name="b", site="lake", address="b:9464", exporters=exporters[1:]),
        MonitoredHost(name="a", site="lake", address="a:9464", exporters=exporters),
    ]
    found = targets(hosts)
    assert [(each["targets"], each["labels"]["__metrics_path__"]) for each in found] == [
        (["a:9464"], "/kafka"),
        (["a:9464"], "/mirror_maker@pro1"),
        (["b:9464"], "/kafka"),
    ]
    assert found[1]["labels"] == {
        "__metrics_path__": "/mirror_maker@pro1",
        "job": "aqueduct-mirror-maker",
        "instance": "a",
        "site": "lake",
        "exporter": "mirror_maker@pro1",
    }
