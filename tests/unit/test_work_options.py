"""Settings of Spark that are ours, and those of the user that can't be right."""

from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.work import jvm, options

IN_A_CONTAINER = {"spark.submit.deployMode": "cluster"}


@pytest.mark.parametrize(
    ("master", "ratio"), [("local[2]", None), ("spark://one:7077", "1.0"), ("yarn", "1.0")]
)
def test_all_requested_executors_are_waited_for(master: str, ratio: str | None) -> None:
    setting = "spark.scheduler.minRegisteredResourcesRatio"
    assert options.missing(master, {}).get(setting) == ratio
    assert setting not in options.missing(master, {setting: "0.5"})


@pytest.mark.parametrize("attempts", [{}, {"spark.yarn.maxAppAttempts": "2"}])
def test_driver_restarts_by_yarn_are_refused(attempts: dict[str, str]) -> None:
    with raises(Refused, "spark-setting-unsupported", "--conf spark.yarn.maxAppAttempts=1"):
        options.missing("yarn", IN_A_CONTAINER | attempts)


@pytest.mark.parametrize(
    ("master", "has"),
    [
        ("yarn", IN_A_CONTAINER | {"spark.yarn.maxAppAttempts": "1"}),
        ("yarn", {"spark.submit.deployMode": "client", "spark.yarn.maxAppAttempts": "2"}),
        ("k8s://https://k8s.example.com", IN_A_CONTAINER),
    ],
)
def test_driver_without_restarts_needs_no_setting(master: str, has: dict[str, str]) -> None:
    assert options.missing(master, has)["spark.python.daemon.module"] == options.DAEMON


def test_executor_jvm_options_default_to_light_start() -> None:
    java = "spark.executor.extraJavaOptions"
    assert options.missing("yarn", {})[java] == jvm.LIGHT
    assert java not in options.missing("spark://host:7077", {java: "-Xss1m"})
    assert java not in options.missing("local[2]", {})


def test_classes_are_shared_if_archived_without_user_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jvm, "home", lambda: tmp_path)
    java, path = "spark.executor.extraJavaOptions", "spark.executor.extraClassPath"
    cluster = "spark://host:7077"
    assert options.missing(cluster, {})[java] == jvm.LIGHT
    (tmp_path / "classes.jsa").touch()
    shared = options.missing(cluster, {})
    assert shared[path] == f"{tmp_path}/jars/*"
    assert f"-XX:SharedArchiveFile={tmp_path}/classes.jsa" in shared[java]
    # Java would not take it if other jars came first; hosts of other clusters have their own Spark.
    assert options.missing(cluster, {path: "/mine.jar"})[java] == jvm.LIGHT
    assert path not in options.missing("yarn", {})


def test_what_stands_in_spark_defaults_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    where = {"SPARK_CONF_DIR": str(tmp_path)}
    file.write_text("spark.master yarn\n")
    assert options.defaults(where) == {"spark.master": "yarn"}
    file.unlink()
    assert options.defaults(where) == {"spark.master": "yarn"}


def test_speculation_is_refused() -> None:
    with raises(Refused, "spark-setting-unsupported", "spark.speculation=true"):
        options.missing("spark://host:7077", {"spark.speculation": "TRUE"})
