"""Applications on a real cluster, started as Spark's users do: by spark-submit, and by `aqueduct`."""

import json
from pathlib import Path

from confluent_kafka.admin import AclOperation
from drivers import RECORDS, aqueduct, done, start, submit
from kit import clients

from servers.broker import Broker
from servers.spark import Cluster

IN_TURN = """
import json, sys
from importlib import import_module
for verb, arguments in json.loads(sys.argv[1]):
    if code := import_module(f"spark_apps.{verb}").main(arguments):
        sys.exit(code)
"""


def assert_equal(broker: Broker, one: str, other: str) -> None:
    for partition in range(4):
        before, after = (clients.records(broker, name, partition) for name in (one, other))
        assert len(before) == RECORDS
        assert before == after


def test_every_verb_of_a_store_is_submitted(
    cluster: Cluster, brokers: list[Broker], topic: str, backup: list[str], tmp_path: Path
) -> None:
    """Run them one after another in one driver, the last with keys that no other host has."""
    store, again = ("--store", f"file://{tmp_path}/store"), f"{topic}.again"
    reached = ("--bootstrap-server", brokers[0].plaintext)
    for name in (topic, again):
        clients.allow(brokers[0], "reader", name, AclOperation.READ, AclOperation.DESCRIBE)
    config = str(brokers[0].authority.client_config("reader"))
    ends = (
        "--source-bootstrap-server",
        brokers[0].tls,
        "--target-bootstrap-server",
        brokers[0].tls,
        *("--command-config", config),
    )
    verbs = {
        "backup": backup[1:],
        "verify": store,
        "restore": (*reached, *store, "--topics", f"{topic}:{again}"),
        "reconcile": (*ends, "--topics", f"{topic}:{again}"),
    }
    program = tmp_path / "in_turn.py"
    program.write_text(IN_TURN)
    page = done(start(cluster, submit(cluster, program, json.dumps([*verbs.items()]))))
    assert f"Working on Spark at {cluster.url}, 2 executors on 1 host" in page
    assert sum(json.loads((tmp_path / "report.json").read_text())["tasks"].values()) == 4
    assert "80,000 records" in page
    assert "equal" in page
    assert_equal(brokers[0], topic, again)
    names = [each["name"] for each in cluster.applications()]
    assert {f"aqueduct {verb}" for verb in verbs} <= set(names)
    assert [*(tmp_path / "store/.writing").iterdir()] == []  # probes
    left = [path for path in (cluster.directory / "work").rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if b"PRIVATE KEY" in path.read_bytes()]


def test_what_the_user_sets_is_so(cluster: Cluster, backup: list[str], tmp_path: Path) -> None:
    """Set by --conf and by spark-defaults.conf, as the master saw it."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        (cluster.directory / "conf/spark-defaults.conf").read_text()
        + f"spark.executor.memory 500m\nspark.app.name of-the-file\nspark.master {cluster.url}\n"
    )
    done(start(cluster, aqueduct(*backup), SPARK_CONF_DIR=str(conf)))
    by_file = cluster.applications()[-1]
    assert (by_file["name"], by_file["memoryperexecutor"]) == ("of-the-file", 500)

    own = ["--master", cluster.url, "--conf", "spark.executor.memory=600m"]
    own += ["--conf", "spark.ui.enabled=false"]
    page = done(start(cluster, aqueduct(*backup, *own), SPARK_CONF_DIR=str(conf)))
    assert "executors on 1 host.\n" in page  # and no address of a page
    assert cluster.applications()[-1]["memoryperexecutor"] == 600
