"""A classic mirror as the service of a flow runs it: a process with the settings of the role."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aqueduct.estate import classic_mirror
from aqueduct.estate.model import Flow
from aqueduct.estate.schema_registry import properties_file
from servers.process import QUICK, Process, binary

HANDLER = Path(__file__).resolve().parents[2] / "roles/mirror_maker/files"
LOG = """
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ABSOLUTE} %p %m (%c{1})%n
"""


@dataclass
class Mirror:
    """A flow on one host, between brokers with plaintext listeners."""

    flow: Flow
    source: str  # bootstrap servers
    target: str
    folder: Path
    host: str = "h1"
    commit_seconds: int = 1
    tuning: Mapping[str, Any] = field(default_factory=dict)  # of the producer
    patience: int = 0  # milliseconds in place of its own, for a test that waits for its end

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def process(self) -> Process:
        """Return the process, not yet started. A process with the same folder appends to the log."""
        self.folder.mkdir(exist_ok=True)
        consumer = classic_mirror.consumer(self.flow, self.source, {}, {}, 2)
        producer = classic_mirror.producer(self.flow, self.target, {}, self.tuning, self.host)
        if self.patience:
            producer |= dict.fromkeys(("delivery.timeout.ms", "max.block.ms"), self.patience)
        for name, properties in (("consumer", consumer), ("producer", producer)):
            (self.folder / f"{name}.cfg").write_text(properties_file(properties))
        (self.folder / "log4j.properties").write_text(LOG)
        classes = f"{HANDLER}:{binary('AQUEDUCT_OLDER_KAFKA_JARS')}/*"
        java = [*QUICK, f"-Dlog4j.configuration=file:{self.folder}/log4j.properties", "-cp", classes]
        arguments = [*java, *classic_mirror.arguments(self.flow, str(self.folder), self.commit_seconds)]
        (self.folder / "java").write_text(classic_mirror.argument_file(arguments))
        return Process(["java", f"@{self.folder}/java"], self.log, lambda: True)

    def said(self) -> str:
        """Return the content of its log."""
        with suppress(FileNotFoundError):
            return self.log.read_text()
        return ""


def flow(name: str, *topics: str, **options: Any) -> Flow:
    return Flow(source=name, target="lake", topics=topics, engine="classic", **options)
