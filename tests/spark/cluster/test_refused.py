"""Applications that a cluster does not take, or does not serve: each ends with a sentence."""

import drivers
import pytest
from drivers import Run, aqueduct

from servers.broker import Broker
from servers.process import free_ports
from servers.spark import SECRET, Cluster

ABSENT = f"spark://127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def wrong(
    cluster: Cluster, brokers: list[Broker], topic: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    """Return how backups ended that can't begin, by what is wrong."""
    defaults = (cluster.directory / "conf/spark-defaults.conf").read_text()
    changes = {
        "another secret": defaults.replace(SECRET, "another"),
        "no secret": "",
        "driver": f"{defaults}spark.driver.host 203.0.113.7\nspark.driver.bindAddress 127.0.0.1\n",
    }
    options = {
        "master": ("--wait", "5s"),
        "driver": ("--wait", "150s"),
        "cores": ("--conf", "spark.executor.memory=90g", "--wait", "30s"),
    }
    commands = {}
    for name in (*changes, *options):
        folder = tmp_path_factory.mktemp("wrong")
        (folder / "spark-defaults.conf").write_text(changes.get(name, defaults))
        reached = ("--bootstrap-server", brokers[0].plaintext, "--topics", topic)
        url = ABSENT if name == "master" else cluster.url
        store = ("--store", f"file://{folder}/store", "--master", url)
        command = aqueduct("backup", *reached, *store, *options.get(name, ()))
        commands[name] = command, {"SPARK_CONF_DIR": str(folder)}
    return drivers.ended_all(cluster, commands)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("another secret", "rejects this host. Use the same spark.authenticate.secret"),
        ("no secret", "rejects this host. Use the same spark.authenticate.secret"),
        (
            "driver",
            "started executors, but they ended immediately. Check that they can reach this driver at "
            "203.0.113.7:",
        ),
        ("cores", "started no executor within 30 s. Check that its workers have free cores"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    cluster: Cluster, wrong: dict[str, Run], what: str, sentence: str
) -> None:
    assert wrong[what].code == 1
    assert wrong[what].last.startswith(f"aqueduct: [spark-executors-missing] {cluster.url} {sentence}"), (
        wrong[what].page
    )
    assert "Traceback" not in wrong[what].page


def test_a_master_that_does_not_answer(wrong: dict[str, Run]) -> None:
    assert wrong["master"].code == 1
    assert wrong["master"].last == (
        f"aqueduct: [spark-executors-missing] {ABSENT} does not answer. Check that it runs, and that this "
        "host can connect to its port."
    )


def test_waiting_for_resources_is_told(cluster: Cluster, wrong: dict[str, Run]) -> None:
    assert f"Waiting for resources of {cluster.url}, for 10 s" in wrong["cores"].page
