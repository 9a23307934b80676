"""ZooKeeper is lost and restored while brokers run, and the cluster recovers."""

import re

from confluent_kafka import Consumer, TopicPartition
from lab import Lab, wait_until
from old_site import BROKERS, ENSEMBLE, SECOND, OldSite, read, write

STORE = "file:///srv/znodes"
TLS = "/etc/aqueduct/zookeeper/tls/client.properties"
PLACE = TopicPartition("flights", 2, 5)


def position(lab: Lab) -> int:
    consumer = Consumer({**lab.client(ENSEMBLE, "dispatch"), "group.id": "dispatch-order"})
    try:
        [committed] = consumer.committed([TopicPartition(PLACE.topic, PLACE.partition)], timeout=60)
        return int(committed.offset)
    finally:
        consumer.close()


def commit(lab: Lab) -> None:
    lab.commit({**lab.client(ENSEMBLE, "dispatch"), "group.id": "dispatch-order"}, [PLACE])


def test_znode_restore_beside_running_brokers_recovers_cluster(site: OldSite, lab: Lab) -> None:
    """What ends with its session is in no snapshot, so none stands in the way of a broker that comes back."""
    write(lab, "before the loss")
    commit(lab)
    values, cluster = sorted(filter(None, read(lab, ENSEMBLE))), site.meta(SECOND)["cluster.id"]
    lab.run(ENSEMBLE, "systemctl", "start", "--wait", "zookeeper_backup")
    said = lab.journal(ENSEMBLE, "--unit=zookeeper_backup")
    assert "/brokers/ids/11, /brokers/ids/12, /controller" in said, "ephemerals are named, and not kept"
    lab.run(ENSEMBLE, "sh", "-c", "systemctl stop zookeeper && rm -r /var/lib/zookeeper/version-2")
    lab.run(ENSEMBLE, "systemctl", "start", "zookeeper")

    lab.kill(SECOND, "kafka")
    wait_until(
        "why systemd doesn't start it beside an ensemble that knows no cluster",
        lambda: "contains no cluster. Restore its znodes first" in lab.journal(SECOND, "--unit=kafka"),
    )
    assert "Node does not exist" in site.shell("get", "/cluster/id"), "nobody has made a new cluster"
    assert site.meta(SECOND)["cluster.id"] == cluster

    restore = ("/opt/aqueduct/spark/bin/aqueduct", "zookeeper", "restore", f"--connect={ENSEMBLE}:2182")
    options = (f"--command-config={TLS}", f"--store={STORE}", "--overwrite=/")
    restored = lab.run(ENSEMBLE, *restore, *options, check=False)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    root = "1 overwritten, 0|0 overwritten, 1"
    assert re.search(rf"[1-9]\d+ znodes created, ({root}) were equal before", restored.stdout), (
        f"a broker that runs has written nothing to an ensemble that has forgotten it: {restored.stdout}"
    )
    wait_until("the broker that waited for its cluster", lambda: 12 in site.ids(SECOND))
    lab.kill(ENSEMBLE, "kafka")  # it ran all the time, and told nobody that it is there
    wait_until("both brokers", lambda: site.ids(SECOND) == {*BROKERS.values()})
    for node_id in BROKERS.values():
        owner = re.search("ephemeralOwner = (0x[0-9a-f]+)", site.shell("stat", f"/brokers/ids/{node_id}"))
        assert owner
        assert int(owner[1], 16), "it is the broker's own, of its session"
    assert site.znode("/cluster/id")["id"] == cluster
    wait_until("all records", lambda: sorted(filter(None, read(lab, SECOND))) == values)
    wait_until("the group", lambda: position(lab) == PLACE.offset)
    write(lab, "after the restore", SECOND)
    wait_until("both brokers and all replicas", site.is_whole)
    well = lab.play("doctor")
    assert well.returncode == 0, well.stdout
