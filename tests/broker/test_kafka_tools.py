"""The scripts that hosts get for Kafka's command-line tools."""

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from aqueduct.estate.kafka_tools import tool_scripts
from servers.broker import Broker
from servers.process import binary

JARS = {"4.3.1": "AQUEDUCT_KAFKA_JARS", "3.9.2": "AQUEDUCT_OLDER_KAFKA_JARS"}


@pytest.mark.parametrize("version", JARS)
def test_each_version_has_the_class_of_each_tool(version: str) -> None:
    jars = Path(binary(JARS[version])).glob("kafka*.jar")
    classes = {
        name.removesuffix(".class").replace("/", ".") for jar in jars for name in ZipFile(jar).namelist()
    }
    scripts = tool_scripts(version, "/opt/kafka")
    assert scripts
    for name, script in scripts.items():
        *_, tool, _ = script.split()
        assert tool in classes, name


def test_a_tool_passes_its_arguments_on(broker: Broker, tmp_path: Path) -> None:
    home = Path(binary("AQUEDUCT_KAFKA_JARS")).parent
    script = tmp_path / "kafka-topics.sh"
    script.write_text(tool_scripts("4.3.1", str(home))[script.name].replace("/usr/bin/java", "java"))
    command = ["sh", script, "--bootstrap-server", broker.plaintext]
    subprocess.run([*command, "--create", "--topic", "tools"], check=True, capture_output=True)
    listed = subprocess.run([*command, "--list"], check=True, capture_output=True, text=True)
    assert "tools" in listed.stdout.splitlines()
