"""Prepare what every Kafka JVM of the tests starts from: an archive of its classes, and formatted storage.

    python -m servers.kafka_classes JARS

JARS is the folder of Kafka's jars, as JVMs have it in their class path. A broker is formatted and started
once. Its JVM writes its classes to JARS.jsa when it ends (JEP 350). The first records of its metadata log are
kept as JARS.bootstrap, so that further brokers need no StorageTool. Usable files are kept.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers.process import QUICK, free_ports, listens

SECONDS = 120
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{plaintext},CONTROLLER://127.0.0.1:{controller}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={folder}/data
"""


def taken(jars: str, archive: Path) -> bool:
    must = ("-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-XX:ErrorFile=/dev/null")
    asked = ["java", *QUICK, *must, "-cp", f"{jars}/*", "-version"]
    return archive.exists() and not subprocess.run(asked, capture_output=True).returncode


def make(jars: str, archive: Path, bootstrap: Path) -> None:
    """Write both files; raise RuntimeError with the end of Java's output."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        made, properties, log = (Path(scratch, each) for each in ("classes.jsa", "properties", "log"))
        port, controller = free_ports(2)
        properties.write_text(PROPERTIES.format(folder=scratch, plaintext=port, controller=controller))
        with log.open("w") as out:
            run = ["java", *QUICK, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
            run += ["--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--config", str(properties)]
            formatted = subprocess.run(run, stdout=out, stderr=out).returncode == 0
            run = ["java", *QUICK, f"-XX:ArchiveClassesAtExit={made}", "-cp", f"{jars}/*"]
            broker = subprocess.Popen([*run, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
            deadline = time.monotonic() + SECONDS
            while formatted and broker.poll() is None and not listens(port) and time.monotonic() < deadline:
                time.sleep(0.2)
            broker.terminate()
            broker.wait(SECONDS)
        if not taken(jars, made):
            raise RuntimeError(f"Kafka's classes were not archived: {log.read_text()[-2000:]}")
        shutil.copy(Path(scratch, "data/bootstrap.checkpoint"), bootstrap)
        made.replace(archive)


if __name__ == "__main__":
    jars = sys.argv[1]
    archive, bootstrap = Path(f"{jars}.jsa"), Path(f"{jars}.bootstrap")
    if not (bootstrap.exists() and taken(jars, archive)):
        make(jars, archive, bootstrap)
