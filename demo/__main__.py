"""The steps of script/demo that are not playbooks: `python -m demo stream`, `fill`, `compare` and so on."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from aqueduct.common.wording import count
from demo import hive
from demo.flights import flights
from demo.lab import Lab
from demo.link import Crossing, Moments
from demo.sink import sinks
from demo.spark import clusters, tasks_by_host
from demo.table import Row, link_summary, table

LAB = Lab(Path("inventories/lab"))
STREAMED = LAB.reports / "streamed.json"
COMPARED = LAB.reports / "links.json"
LANDED = LAB.reports / "landed.json"
STATUS = LAB.reports / "status.json"
SHOWN = 10  # findings
AIRPORTS = {"pro1": "EWR", "pro2": "JFK"}
CATCH_UP = "10m"  # many times what it takes on a slow machine


def produce(site: str, origin: str, at: Moments) -> int:
    """Write all flights of one airport; the number of records, every one acknowledged by the broker.

    `at`: what is done when all before it are acknowledged.
    """
    producer = Producer(
        {
            **LAB.client(LAB.brokers[site], "flights"),
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    failed: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error:
            failed.append(str(error))

    records = 0
    for flight in flights(origin):
        if act := at.get(records):
            producer.flush()
            act()
        producer.produce(
            "flights", flight.value, flight.key, timestamp=flight.timestamp, headers=list(flight.headers),
            on_delivery=delivered,
        )  # fmt: skip
        producer.poll(0)
        records += 1
    producer.flush()
    if failed:
        sys.exit(f"demo: {len(failed)} flights were not written to {site}: {failed[0]}")
    return records


def caught_up(source: str, target: str) -> dict[str, Any]:
    """Wait until a lake has all that its source has; what `aqueduct mirror` reports, and how long it took."""
    report = LAB.reports / f"mirror-{source}-{target}.json"
    at_source, at_target = (LAB.address(LAB.brokers[site]) for site in (source, target))
    config = str(LAB.admin_config)
    command = ["aqueduct", "mirror", "--flow", source, "--source-bootstrap-server", at_source]
    command += [
        *("--target-bootstrap-server", at_target),
        *("--source-command-config", config),
        *("--target-command-config", config),
    ]
    started = time.monotonic()
    done = subprocess.run(
        [*command, "--wait", CATCH_UP, "--until-caught-up", "--report", report],
        capture_output=True,
        text=True,
    )
    seen = json.loads(report.read_text()) if report.exists() else {}
    if "partitions" not in seen:
        sys.exit(f"demo: the flow from {source} to {target} tells nothing: {done.stderr.strip()}")
    return {
        "seconds": time.monotonic() - started,
        "behind": sum(partition["behind"] for partition in seen["partitions"]),
        "findings": seen["findings"],
    }


def crossed(crossing: Crossing) -> dict[str, Any]:
    """Wait until all that was sent has arrived or is listed as missing, and how long it took."""
    started = time.monotonic()
    crossing.wait(lambda: crossing.untold() == 0, "all that was sent to arrive or to be listed")
    return {"seconds": time.monotonic() - started, "missing": crossing.missing()}


def stream() -> None:
    """Write the flights at their sources, and wait until every flow has carried them.

    Links lose some meanwhile, and one moment's all.
    """
    LAB.reports.mkdir(exist_ok=True)
    crossings = [Crossing(LAB, link) for link in LAB.links]
    before = [crossing.figures() for crossing in crossings]
    started = time.monotonic()
    with ThreadPoolExecutor() as pool:
        with ExitStack() as losses:
            moments = {crossing.link.source: losses.enter_context(crossing.bad()) for crossing in crossings}
            producers = [
                pool.submit(produce, site, airport, moments.get(site, {}))
                for site, airport in AIRPORTS.items()
            ]
            produced = {site: writing.result() for site, writing in zip(AIRPORTS, producers, strict=True)}
            producing = time.monotonic() - started
            for site, records in produced.items():
                print(f"    {site}: {records:,} flights from {AIRPORTS[site]} written and acknowledged")
        waits = [pool.submit(caught_up, flow.source, flow.target) for flow in LAB.mirrors]
        arrivals = [pool.submit(crossed, crossing) for crossing in crossings]

        def told(source: str, target: str, found: dict[str, Any]) -> dict[str, Any]:
            records = produced[source] - found.get("missing", 0)
            speed = records / (producing + found["seconds"])
            return {"source": source, "target": target, "per_second": speed, **found}

        mirrors = [
            told(flow.source, flow.target, wait.result())
            for flow, wait in zip(LAB.mirrors, waits, strict=True)
        ]
        links = [
            told(crossing.link.source, crossing.link.target, arrival.result())
            | asdict(crossing.figures().since(was))
            for crossing, was, arrival in zip(crossings, before, arrivals, strict=True)
        ]
    written = [sink.arrived() for sink in sinks(LAB)]
    for told_of in written:
        told_of["per_second"] = told_of["records_out"] / (producing + told_of["seconds"])
    for link in links:
        print(f"    {link['source']} -> {link['target']}: {link['missing']:,} records are listed as missing")
    STREAMED.write_text(json.dumps({"mirrors": mirrors, "links": links, "sinks": written}, indent=2))


def fill() -> None:
    """Wait until what was sent again has filled the gaps."""
    streamed = json.loads(STREAMED.read_text())
    for crossing, told in zip((Crossing(LAB, link) for link in LAB.links), streamed["links"], strict=True):
        crossing.wait(lambda: crossing.missing() == 0, "the gaps to be filled")  # noqa: B023
        told["missing"] = crossing.listed()
        told["resent"] = crossing.resent()
        told["behind"] = crossing.untold()
    STREAMED.write_text(json.dumps(streamed, indent=2))


def compare() -> None:
    """Compare both ends of every link."""
    found = [Crossing(LAB, link).compare() for link in LAB.links]
    COMPARED.write_text(json.dumps(found, indent=2))


def land() -> None:
    """Wait until the flights have landed, compare the tables with their topics, and ask them by SQL."""
    LANDED.write_text(json.dumps([hive.told(landing) for landing in hive.landings(LAB)], indent=2))


def status() -> None:
    """Ask all hosts for their state, and print what is not well.

    No drill has run yet, so the estate is not all well: only a state that nobody could report ends the demo.
    """
    STATUS.unlink(missing_ok=True)
    started = time.monotonic()
    done = subprocess.run(["ansible-playbook", "playbooks/status.yml"], capture_output=True, text=True)
    seconds = time.monotonic() - started
    try:
        told = json.loads(STATUS.read_text())
    except (OSError, ValueError):
        sys.exit(f"demo: the estate tells no state: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    counts = ", ".join(f"{number} {state}" for state, number in told["summary"].items() if number)
    print(f"    {count(sum(told['summary'].values()), 'object')}: {counts}")
    print(f"    {count(told['hosts']['answered'], 'host')} answered within {seconds:.1f} s")
    found = [(each, finding) for each in told["objects"] for finding in each["findings"]]
    for each, finding in found[:SHOWN]:
        print(f"    {each['kind']} {each['name']}: [{finding['id']}] {finding['sentence']}")
    if len(found) > SHOWN:
        print(f"    and {count(len(found) - SHOWN, 'finding')} more, in {STATUS.with_suffix('.html')}")


def worked() -> list[str]:
    """Return sentences on what each Spark cluster did since the flights have crossed.

    They are of the event logs; one of a worker that did nothing ends the demo.
    """
    sentences = []
    for cluster in clusters(LAB):
        tasks = tasks_by_host(LAB, cluster.history, "aqueduct reconcile", STREAMED.stat().st_mtime)
        if idle := {*cluster.workers} - {*tasks}:
            sys.exit(f"demo: no task of {cluster.site}'s reconciles ran on {', '.join(sorted(idle))}.")
        ran = " and ".join(f"{count(number, 'task')} on {host}" for host, number in sorted(tasks.items()))
        sentences.append(
            f"  Spark         {cluster.site}'s reconciles ran {ran}. The history server shows them:\n"
            f"                {cluster.page(LAB)}"
        )
    return sentences


def show() -> None:
    """Print what came of every flow."""
    streamed = json.loads(STREAMED.read_text())
    places = ", ".join(f"{site} is {LAB.address(broker)}" for site, broker in LAB.brokers.items())
    rows = []
    for told in streamed["mirrors"]:
        compared = json.loads((LAB.reports / f"{told['source']}-{told['target']}.json").read_text())
        rows.append(Row.of_mirror(told, compared))
    links = zip(streamed["links"], json.loads(COMPARED.read_text()), strict=True)
    rows += [Row.of_link(told, compared) for told, compared in links]
    rows += [Row.of_sink(told) for told in streamed["sinks"]]
    print("\n" + table(rows))
    for told in streamed["links"]:
        print("\n" + link_summary(told))
    landed = json.loads(LANDED.read_text())
    for each in landed:
        print("\n" + hive.answer(each))
    spark = "\n".join(worked())
    asked = "".join(f"  SQL           {each['shell']}\n" for each in landed)
    findings = [finding for told in streamed["mirrors"] for finding in told["findings"]]
    for finding in findings:
        print(f"    {finding}")
    print(
        "\nequal      Both ends have the same records. Mirrors: key, value, headers, timestamp and the\n"
        "           order within each partition were compared. Links: the same except the order, because\n"
        "           resent records follow later ones. Connectors: the values were compared.\n"
        "records/s  from the first flight written to the last one that arrived; all flows ran at once\n"
        "lag        records that the target did not have yet\n"
        f"\nReports: {LAB.reports}/*.json. Look further:\n"
        f"  any client    {places}; certificate: {LAB.admin_config}\n"
        f"  health        .venv/bin/aqueduct health --bootstrap-server {LAB.address(LAB.brokers['pro1'])}"
        f" --command-config {LAB.admin_config}\n"
        f"  the estate    open {STATUS.with_suffix('.html')}; again: .venv/bin/ansible-playbook"
        " playbooks/status.yml\n"
        "  a service     docker exec aqueduct-lab-dwdev1-kafka-1 systemctl status mirror_maker@pro1\n"
        f"{spark}\n"
        f"{asked}"
        "  change it     edit inventories/lab, then .venv/bin/ansible-playbook playbooks/site.yml\n"
        "  take it down  script/lab-down"
    )
    if findings or not all(row.equal and row.lag == 0 for row in rows):
        sys.exit(
            "demo: a flow is unequal, lags behind or has a finding. See the table, the findings above and"
            f" {LAB.reports}/*.json."
        )


if __name__ == "__main__":
    try:
        {
            "stream": stream,
            "fill": fill,
            "compare": compare,
            "land": land,
            "status": status,
            "table": show,
        }[sys.argv[1]]()
    except subprocess.CalledProcessError as error:
        told = error.stderr or error.stdout or ""
        said = (told.decode(errors="replace") if isinstance(told, bytes) else told).strip()
        sys.exit(f"demo: {' '.join(map(str, error.cmd))} failed: {said}")
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        sys.exit(f"demo: {error}.")
