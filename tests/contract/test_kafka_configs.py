"""Kafka's settings in the repository agree with Kafka itself, each supported version."""

import subprocess
from pathlib import Path

import pytest

from aqueduct.estate.check.settings import Definitions
from servers.process import binary

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "jars", ["AQUEDUCT_KAFKA_JARS", "AQUEDUCT_OLDER_KAFKA_JARS", "AQUEDUCT_NEWEST_KAFKA_JARS"]
)
def test_the_definitions_are_kafkas_own(jars: str) -> None:
    command = ["java", "-cp", f"{binary(jars)}/*", str(ROOT / "artifacts/KafkaConfigs.java")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = ROOT / f"artifacts/kafka-{Definitions.parse(said).version}.configs.json"
    assert kept.read_text() == said, "run script/kafka-configs and commit what it writes"


def test_each_supported_version_has_its_definitions() -> None:
    supported = {path.stem for path in ROOT.glob("artifacts/kafka-*.sha256")}
    assert supported == {path.name.removesuffix(".configs.json") for path in ROOT.glob("artifacts/*.json")}
