"""A signed, encrypted backup and its restore on a cluster of one executor, whose JVMs then look for keys.

`python sandboxed.py FOLDER KEYS SOURCE TARGET TOPIC`: the store is in FOLDER, keys are in KEYS. It prints, as
JSON, the results of the commands and which files the JVM of the driver could read.
"""

import io
import json
import os
import shutil
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from aqueduct import cli
from aqueduct.common import job_files

MASTER = "local-cluster[1,1,1024]"


def read(path: str) -> bool:
    """Return whether the JVM can open a file."""
    java: Any = SparkContext._jvm
    try:
        java.java.io.FileInputStream(path).close()
    except Py4JJavaError:
        return False
    return True


def main(folder: str, keys: str, source: str, target: str, topic: str) -> None:
    own = {
        name: f"{keys}/{name}" for name in ("signing.pem", "recipient.key", "signing.pub", "recipient.pub")
    }
    store = ["--store", f"file://{folder}/store"]
    options = ["--master", MASTER, "--conf", "spark.executor.memory=512m", "--wait", "200s"]
    found: dict[str, Any] = {}

    def run(name: str, *argv: str) -> None:
        with redirect_stderr(io.StringIO()) as said:
            found[name] = {"code": cli.main([*argv, *store, *options]), "said": ""}
        found[name]["said"] = said.getvalue()

    sealed = ["--signing-key", own["signing.pem"], "--private-key", own["recipient.key"]]
    sealed += ["--recipient", own["recipient.pub"]]
    run("backup", "backup", "--bootstrap-server", source, "--topics", topic, *sealed)
    # A key in a folder that Spark needs can't be hidden.
    near = f"{folder}/recipient.key"
    shutil.copy(own["recipient.key"], near)
    opened = ["--trusted-key", own["signing.pub"], "--private-key", near, "--report", f"{folder}/report.json"]
    run("restore", "restore", "--bootstrap-server", target, *opened)
    found["restore"]["report"] = json.loads(Path(folder, "report.json").read_text())
    found["read"] = {name: read(path) for name, path in own.items()}
    memory = os.open(job_files.in_memory(b"a key"), os.O_RDONLY)
    others = {
        "its own log": f"{folder}/store/store.json",
        "a key in a folder that Spark needs": near,
        "the memory of the driver": f"/proc/{os.getpid()}/mem",
        "a file in memory of the driver": f"/proc/{os.getpid()}/fd/{memory}",
    }
    found["read"] |= {name: read(path) for name, path in others.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    shutil.rmtree(Path(sys.argv[1]) / "store", ignore_errors=True)
    main(*sys.argv[1:])
