"""A landing service in its own process, its journal and metrics, and its reports of an outage."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread

from kit import clients
from kit.identifiers import printed
from prometheus_client.parser import text_string_to_metric_families

from servers.process import Process, free_ports

SILENT, AGAIN = "land-server-silent", "answers again"


@dataclass
class LandingService:
    """A landing service: `aqueduct land --every`."""

    process: "subprocess.Popen[str]"
    port: int
    journal: list[str] = field(default_factory=list)  # lines

    def metric(self, name: str) -> float | None:
        """Return a metric by its name and label values; None if it is absent."""
        page, url = "", f"http://127.0.0.1:{self.port}/metrics"
        with suppress(OSError), urllib.request.urlopen(url, timeout=30) as answer:  # it may not listen yet
            page = answer.read().decode()
        samples = {
            " ".join((sample.name, *sample.labels.values())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }
        return samples.get(name)

    @property
    def identifiers(self) -> list[str]:
        """Return the identifiers of the journal's messages."""
        return printed("".join(self.journal))

    @property
    def outages(self) -> tuple[int, int]:
        """Return how many outages the journal reports, and how many ends of them."""
        return self.identifiers.count(SILENT), sum(AGAIN in line for line in self.journal)

    def read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.journal.append(line)


@contextmanager
def running(arguments: Sequence[str]) -> Iterator[LandingService]:
    """Yield a service with a round each second. `arguments`: the command line, from `land` on."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "aqueduct.cli", *arguments, "--every", "1s", "--metrics-port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    service = LandingService(process, port)
    reader = Thread(target=service.read)
    reader.start()
    try:
        yield service
    finally:
        process.kill()
        process.wait()
        reader.join()


def reports_an_outage(arguments: Sequence[str], lag: str, kind: str, server: Process) -> None:
    """Check that a service reports a server that accepts connections without an answer, and the outage's end.

    `lag`: the argument of `LandingService.metric` for the lag. `kind`: the label value of the server.
    """
    silence = f"aqueduct_land_silent_seconds {kind}"
    with running(arguments) as service:
        # A server's first answer may take so long that this is an outage, too.
        clients.wait_for("a first round", lambda: service.metric(lag) == service.metric(silence) == 0)
        clients.wait_for("no outage", lambda: len({*service.outages}) == 1)
        before, _ = service.outages
        with server.silent():
            clients.wait_for("the metric", lambda: service.metric(silence))
            assert service.metric(lag) is None
            clients.wait_for("the journal", lambda: service.outages == (before + 1, before))
            clients.wait_for("more of the outage", lambda: (service.metric(silence) or 0) > 12)
            assert service.metric(lag) is None
            assert service.outages == (before + 1, before)
        clients.wait_for("the answer", lambda: service.metric(silence) == 0)
        clients.wait_for("the journal", lambda: service.outages[1] > before)
        clients.wait_for("a later round", lambda: service.metric(lag) == 0)
        assert "Traceback" not in "".join(service.journal)
