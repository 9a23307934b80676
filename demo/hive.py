"""The tables of Hive that a lake's flights land in, as their own service and as a client of SQL see them."""

import json
import shlex
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import yaml

from aqueduct.estate.model import members, site_names
from demo.lab import Lab

WAIT_SECONDS = 600
VERIFY_SECONDS = 1800
ENVIRONMENT, HOME, USER = "/etc/aqueduct/land/environment", "/var/lib/aqueduct-land", "aqueduct-land"
REPORT = f"{HOME}/demo.json"
# Properties of a unit that runs as the service does.
AS_SERVICE = (f"User={USER}", f"WorkingDirectory={HOME}", f"EnvironmentFile={ENVIRONMENT}", "UMask=0077")
BIN, SERVER = "/opt/aqueduct/spark/bin", "/etc/aqueduct/hive_server"
PROGRAM = f"{BIN}/aqueduct"
SQL_PORT = 10000
QUERY = (
    "SELECT carrier, count(*) AS flights, round(avg(dep_delay), 2) AS average_delay"
    " FROM {table} GROUP BY carrier ORDER BY flights DESC, carrier"
)


@dataclass(frozen=True)
class Delays:
    """The flights of a carrier, and how much later than planned they left, in minutes on average."""

    carrier: str
    flights: int
    average: float


@dataclass(frozen=True)
class Landing:
    """A host that lands topics in tables, and answers SQL over them."""

    lab: Lab
    host: str
    table: str  # database.name

    def caught_up(self) -> float:
        """Wait until all that the topics have has landed, and Hive knows it; how many seconds it took."""
        started = time.monotonic()
        while (behind := self._behind()) and time.monotonic() - started < WAIT_SECONDS:
            time.sleep(1)
        if behind:
            raise TimeoutError(f"{self.table} was waited for {WAIT_SECONDS} s in vain: {behind}")
        return time.monotonic() - started

    def verified(self) -> str:
        """Compare the table with its topics, and return what `aqueduct land verify` says."""
        return self._land("verify").strip().splitlines()[-1]

    def query(self) -> str:
        return QUERY.format(table=self.table)

    def shell(self) -> str:
        """Return what asks by SQL from this machine."""
        return shlex.join(["docker", "exec", "-it", self.lab.container(self.host), "env", *self.beeline()])

    def delays(self) -> list[Delays]:
        """Ask for delays by carrier, by JDBC and TLS."""
        how = ("--silent=true", "--outputformat=tsv2", "--showHeader=false", "-e", self.query())
        said = self.lab.run(self.host, "env", *self.beeline(), *how)
        rows = (line.split("\t") for line in said.stdout.splitlines() if line.count("\t") == 2)
        # It writes its prompt before the first row.
        return [
            Delays(first.rpartition("> ")[2], int(number), float(average)) for first, number, average in rows
        ]

    def beeline(self) -> list[str]:
        """Return Hive's own client of SQL, with the certificate of the server's host, as arguments of env."""
        settings = [f"JDK_JAVA_OPTIONS=@{SERVER}/client.args", f"PYSPARK_DRIVER_PYTHON={BIN}/python"]
        return [*settings, f"{BIN}/beeline", "-u", f"jdbc:hive2://{self.host}:{SQL_PORT}/default;ssl=true"]

    def _behind(self) -> str:
        """Return what has not landed yet, is not in Hive's catalogue, or did not answer."""
        try:
            self._land("status", f"--report={REPORT}")
        except subprocess.CalledProcessError as error:
            return str(error.stderr or error.stdout).strip() or str(error)
        told = json.loads(self.lab.run(self.host, "cat", REPORT).stdout)["tables"]
        [found] = [each for each in told if each["table"] == self.table]
        lags = [
            f"{each['topic']}-{each['partition']}"
            for each in found["partitions"]
            if each["landed"] != each["end"]
        ]
        if not found["commits"] or found["catalogue"] is None:
            return "nothing has landed"
        return f"{', '.join(lags)} have not landed" if lags else str(found["catalogue"])

    def options(self) -> list[str]:
        """Return the service's options of cluster, tables and catalogue, and of Spark."""
        options = yaml.safe_load(self.lab.run(self.host, "cat", "/etc/aqueduct/land/land.yml").stdout)
        return [
            f"--{name}={value}" for name, value in options.items() if name not in ("every", "metrics-port")
        ]

    def _land(self, what: str, *options: str) -> str:
        """Run `aqueduct land status` or such as the service, with the service's own options."""
        run = ["systemd-run", "--quiet", "--wait", "--pipe", *(f"--property={each}" for each in AS_SERVICE)]
        return self.lab.run(
            self.host, *run, PROGRAM, "land", what, *self.options(), *options, seconds=VERIFY_SECONDS
        ).stdout


def landings(lab: Lab) -> list[Landing]:
    """Return the tables that hosts of the lab land and answer SQL over."""
    return [
        Landing(lab, host, table["table"])
        for site in site_names(lab.groups)
        for host in members(lab.groups, site, "land")
        if host in members(lab.groups, site, "hive_server")
        for table in lab.variables[host].get("land_tables", ())
    ]


def told(landing: Landing) -> dict[str, Any]:
    """Wait for a table, compare it with its topics, and ask for delays; all of it, with the seconds."""
    landed = landing.caught_up()
    started = time.monotonic()
    verified = landing.verified()
    compared = time.monotonic() - started
    delays = landing.delays()
    return {
        "table": landing.table,
        "host": landing.host,
        "verified": verified,
        "query": landing.query(),
        "shell": landing.shell(),
        "delays": [vars(each) for each in delays],
        "seconds": {
            "landed": landed,
            "verified": compared,
            "queried": time.monotonic() - started - compared,
        },
    }


def answer(found: dict[str, Any]) -> str:
    """Return the answer as people read it."""
    line = "{:<8} {:>9} {:>14}"
    rows = (
        line.format(each["carrier"], f"{each['flights']:,}", f"{each['average']:.2f} min")
        for each in found["delays"]
    )
    return "\n".join(
        [
            f"{found['verified']}",
            f"{found['query']}",
            "",
            line.format("carrier", "flights", "average delay"),
            *rows,
        ]
    )
