"""Kafka's settings in the repository agree with Kafka itself."""

import os
import subprocess
from pathlib import Path

from aqueduct.estate.check.settings import Definitions

ROOT = Path(__file__).resolve().parents[2]


def test_the_definitions_are_kafkas_own() -> None:
    jars = os.environ.get("AQUEDUCT_KAFKA_JARS")
    assert jars, "set AQUEDUCT_KAFKA_JARS to a directory with Kafka's jars: this test asks Kafka"
    command = ["java", "-cp", f"{jars}/*", ROOT / "artifacts/KafkaConfigs.java"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = ROOT / f"artifacts/kafka-{Definitions.parse(said).version}.configs.json"
    assert kept.read_text() == said, "run script/kafka-configs and commit what it writes"


def test_each_supported_version_has_its_definitions() -> None:
    supported = {path.stem for path in ROOT.glob("artifacts/kafka-*.sha256")}
    assert supported == {path.name.removesuffix(".configs.json") for path in ROOT.glob("artifacts/*.json")}
