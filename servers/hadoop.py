"""How programs of Hadoop run, from the jars in AQUEDUCT_HADOOP_JARS.

There is no distribution: each server is a class. What its scripts would bring stands here: settings, a
log4j.properties (else they are silent), folders of web pages (else HDFS ends) and Java 17's open packages.
"""

import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from aqueduct.estate.hadoop import site_file
from servers.process import QUICK, binary

VERSION = "3.4.1"
LOG = """
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
NODE = "127.0.0.1"
JVM = (*QUICK, "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED")


def configure(conf: Path, files: Mapping[str, Mapping[str, str]]) -> None:
    """Make a folder of settings, by file: `core-site` and so on."""
    for folder in ("webapps/hdfs", "webapps/datanode"):
        (conf / folder).mkdir(parents=True, exist_ok=True)
    (conf / "log4j.properties").write_text(LOG)
    for file, settings in files.items():
        (conf / f"{file}.xml").write_text(site_file(settings))


def java(main: str, conf: Path, *arguments: str, jvm: tuple[str, ...] = ()) -> list[str]:
    """Return the command of a class below `org.apache.hadoop`."""
    jars = f"{conf}:{binary('AQUEDUCT_HADOOP_JARS')}/*"
    return ["java", *JVM, *jvm, "-cp", jars, f"org.apache.hadoop.{main}", *arguments]


def run(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end, and return what it says; RuntimeError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode:
        raise RuntimeError(f"{command[-3:]} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def page(url: str) -> str:
    """Return a page; nothing while there is none."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return str(answer.read(), "utf-8")
    except OSError:
        return ""
