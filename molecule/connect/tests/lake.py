"""The site as the tests see it: its workers' REST, where its connectors write to, and what they are given."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab import Lab, Record, wait_until

BROKER, DATABASE = "lake-kafka-1", "lake-database-1"
WORKERS = ("lake-connect-1", "lake-connect-2")
TO_DATABASE, TO_FILES, FROM_FILES = "flights-to-warehouse", "notes-to-files", "lines-from-files"
CONFIG = "/etc/aqueduct/connect"
POISON = b"this is not JSON"
REBALANCE = 409  # Connect's answer while workers share out their tasks
GOOD = 500  # records before the poison, and after it
PORT = 8083

# Runs in a host: REST with the service's certificate, or without any. No library of ours.
REQUEST = """
import json, ssl, sys, urllib.error, urllib.request
url, method, body, certificate = sys.argv[1:]
context = ssl.create_default_context(cafile="/etc/aqueduct/connect/tls/ca.pem")
if certificate:
    context.load_cert_chain(certificate)
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(url, body.encode() or None, headers, method=method)
https = urllib.request.HTTPSHandler(context=context)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
try:
    with opener.open(request, timeout=120) as answer:
        print(json.dumps([answer.status, answer.read().decode()]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, error.read().decode()]))
"""


def flight(number: int, *, text: str = "on time") -> bytes:
    """A row for the database: JSON with its schema, as Connect's JsonConverter reads it."""
    fields = [
        {"field": "id", "type": "int32", "optional": False},
        {"field": "text", "type": "string", "optional": False},
    ]
    schema = {"type": "struct", "optional": False, "fields": fields}
    return json.dumps({"schema": schema, "payload": {"id": number, "text": text}}).encode()


@dataclass(frozen=True)
class Site:
    lab: Lab

    def rest(self, path: str, method: str = "GET", body: object = None, worker: str = WORKERS[0]) -> Any:
        status, answer = self.ask(path, method, json.dumps(body) if body is not None else "", worker)
        assert status < 300, (status, answer)
        return json.loads(answer or "null")

    def ask(
        self, path: str, method: str = "GET", body: str = "", worker: str = WORKERS[0]
    ) -> tuple[int, str]:
        """Return the status and the answer, after a rebalance."""

        def answered() -> "subprocess.CompletedProcess[str] | None":
            done = self.request(path, method, body, worker)
            rebalances = done.returncode == 0 and json.loads(done.stdout)[0] == REBALANCE
            return None if rebalances else done

        done = wait_until(f"the end of a rebalance, for {method} {path}", answered)
        assert done.returncode == 0, done.stderr
        status, answer = json.loads(done.stdout)
        return status, answer

    def request(
        self,
        path: str,
        method: str = "GET",
        body: str = "",
        worker: str = WORKERS[0],
        certificate: str = f"{CONFIG}/tls/connect-lake.pem",
        *,
        host: str = "",
        port: int = PORT,
    ) -> "subprocess.CompletedProcess[str]":
        """Ask from the worker's own host, or from another one."""
        url = f"https://{worker}:{port}{path}"
        return self.lab.run(
            host or worker, "python3", "-c", REQUEST, url, method, body, certificate, check=False
        )

    def doctor(self, worker_file: str, host: str = WORKERS[0]) -> "subprocess.CompletedProcess[str]":
        """What the preflight says of a worker's configuration, as the service's user."""
        doctor = ("/opt/aqueduct/connect/bin/aqueduct", "doctor", "connect", "--strict", "--worker-config")
        return self.lab.run(host, "runuser", "-u", "connect", "--", *doctor, worker_file, check=False)

    def serial(self, host: str) -> str:
        """The serial number of the certificate that REST shows."""
        show = f"echo | openssl s_client -connect {host}:{PORT} 2>/dev/null | openssl x509 -noout -serial"
        return self.lab.run(host, "sh", "-c", show).stdout

    def states(self, connector: str, worker: str = WORKERS[0]) -> set[tuple[str, str]]:
        """Of a connector and each of its tasks: state, and host."""
        status = self.rest(f"/connectors/{connector}/status", worker=worker)
        return {
            (each["state"], each["worker_id"].removesuffix(f":{PORT}"))
            for each in (status["connector"], *status["tasks"])
        }

    def wait_until_states(self, connector: str, *states: str) -> None:
        """Wait until a connector with its tasks is in these states, and no other."""
        wait_until(
            f"{connector} {' or '.join(states)}",
            lambda: {state for state, _ in self.states(connector)} == {*states},
        )

    def wait_until_all_run(
        self,
        *hosts: str,
        worker: str = WORKERS[0],
        connectors: Iterable[str] = (TO_DATABASE, TO_FILES, FROM_FILES),
    ) -> None:
        """Every connector with every task, on these hosts."""

        def run() -> bool:
            found = set().union(*(self.states(name, worker) for name in connectors))
            return {state for state, _ in found} == {"RUNNING"} and {host for _, host in found} <= {*hosts}

        wait_until(f"every task running on {' or '.join(hosts)}", run)

    def write(self, topic: str, values: Iterable[bytes]) -> None:
        producer = self.lab.producer(BROKER, "writer")
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(300) == 0

    def rows(self) -> dict[int, str]:
        """What is in the database: id and text."""
        select = "SELECT id, text FROM flights"
        done = self.lab.run(
            DATABASE, "runuser", "-u", "postgres", "--", "psql", "-At", "-F", ":", "warehouse", "-c", select
        )
        return {int(row.split(":", 1)[0]): row.split(":", 1)[1] for row in done.stdout.splitlines()}

    def notes(self) -> list[str]:
        """The lines of the files that the file sink wrote, on whichever host it did."""
        return [line for host in WORKERS for line in self.file(host, "/srv/connect/notes").splitlines()]

    def file(self, host: str, path: str) -> str:
        return self.lab.run(host, "sh", "-c", f"cat {path} || true").stdout

    def letters(self, connector: str) -> list[Record]:
        return [
            record for records in self.lab.read(BROKER, f"{connector}-dlq").values() for record in records
        ]

    def journal(self, host: str) -> str:
        """What the worker said since it was last started."""
        start = self.show(host, "InvocationID")["InvocationID"]
        return self.lab.journal(host, f"_SYSTEMD_INVOCATION_ID={start}")

    def figures(self, host: str) -> dict[str, float]:
        """What the host tells Prometheus: name with labels, and value."""
        lines = self.lab.metrics(host, 9404).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def show(self, host: str, *names: str) -> dict[str, str]:
        """Properties of the unit."""
        done = self.lab.run(host, "systemctl", "show", f"--property={','.join(names)}", "connect")
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def declared(
        self, changed: Mapping[str, Mapping[str, object]] | None = None, *, paused: str = "", absent: str = ""
    ) -> list[dict[str, Any]]:
        """The connectors as the inventory has them, but for some settings and states."""
        states = {paused: "paused", absent: "absent"}
        return [
            {
                **each,
                "config": {**each["config"], **(changed or {}).get(each["name"], {})},
                "state": states.get(each["name"], "running"),
            }
            for each in self.lab.variables[WORKERS[0]]["connect_connectors"]
        ]

    def play(self, connectors: list[dict[str, Any]], *arguments: str) -> str:
        done = self.lab.play("connectors", *arguments, connect_connectors=connectors)
        assert done.returncode == 0, done.stdout
        return done.stdout
