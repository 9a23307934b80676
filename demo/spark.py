"""What Spark's clusters of the lab did for the estate's applications, by what Spark itself logged."""

import base64
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zstandard

from aqueduct.estate.model import members, site_names
from demo.lab import Lab

EVENTS = "/var/lib/aqueduct-spark-events"
COMPARISON = "Compare what workers have"  # of a job that does nothing else
Event = dict[str, Any]


@dataclass(frozen=True)
class SparkCluster:
    """The workers of a site, and its history server, which shows the event logs of its own host."""

    site: str
    workers: tuple[str, ...]
    history: str

    def page(self, lab: Lab) -> str:
        """Return what asks the history server from this machine."""
        port = lab.variables[self.history]["lab_published_port"]
        return (
            f"curl --resolve {self.history}:{port}:127.0.0.1 --cacert {lab.pki / 'ca/ca.pem'}"
            f" --cert {lab.pki / 'clients/admin.pem'} https://{self.history}:{port}/api/v1/applications"
        )


def clusters(lab: Lab) -> list[SparkCluster]:
    return [
        SparkCluster(site, tuple(members(lab.groups, site, "spark_worker")), history)
        for site in site_names(lab.groups)
        for history in members(lab.groups, site, "spark_history")[:1]
    ]


def tasks_by_host(lab: Lab, host: str, application: str, since: float = 0) -> Counter[str]:
    """Count tasks of an application that ended well, by worker; not those that only compare workers."""
    counted: Counter[str] = Counter()
    for log in logs(lab, host, application, since):
        idle = {
            stage
            for each in log
            if each["Event"] == "SparkListenerJobStart"
            and each["Properties"].get("spark.job.description") == COMPARISON
            for stage in each["Stage IDs"]
        }
        ended = (
            each for each in log if each["Event"] == "SparkListenerTaskEnd" and each["Stage ID"] not in idle
        )
        counted.update(each["Task Info"]["Host"] for each in ended if not each["Task Info"]["Failed"])
    return counted


def logs(lab: Lab, host: str, application: str, since: float = 0) -> Iterator[list[Event]]:
    """Yield the events of each time that an application ran, from the files as they are, not through Spark.

    `host` keeps the event logs; `since` (seconds since the epoch) leaves out what started before.
    """
    files = lab.run(
        host, "find", EVENTS, "-ignore_readdir_race", "-name", "events_*", "-type", "f"
    ).stdout.split()
    for file in files:
        packed = io.BytesIO(base64.b64decode(lab.run(host, "base64", file).stdout))
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as lines:
            # The last line of an application that runs may not be whole yet.
            whole = [line for line in lines.read().splitlines(keepends=True) if line.endswith(b"\n")]
        found = [json.loads(line) for line in whole]
        if any(
            each["Event"] == "SparkListenerApplicationStart"
            and each["App Name"] == application
            and each["Timestamp"] >= since * 1000
            for each in found
        ):
            yield found
