"""The two steps of script/demo that are not playbooks: `python -m demo stream` and `python -m demo table`."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from demo.flights import flights

INVENTORY = Path("inventories/lab")
PKI = INVENTORY / "pki"
REPORTS = INVENTORY / "reports"
STREAMED = REPORTS / "streamed.json"
AIRPORTS = {"pro1": "EWR", "pro2": "JFK"}
CATCH_UP = "5m"


@dataclass(frozen=True)
class Lab:
    """The lab as its inventory says: `ports` of localhost and the flows that arrive, by site."""

    ports: dict[str, int]
    flows: list[tuple[str, str]]  # source, target

    def address(self, site: str) -> str:
        return f"localhost:{self.ports[site]}"


def read_lab() -> Lab:
    listing = subprocess.run(
        ["ansible-inventory", "--inventory", INVENTORY, "--list"], check=True, capture_output=True, text=True
    )
    inventory: dict[str, Any] = json.loads(listing.stdout)
    variables = inventory["_meta"]["hostvars"]
    sites = {
        group.removeprefix("site_"): members["hosts"]
        for group, members in inventory.items()
        if group.startswith("site_")
    }
    return Lab(
        ports={site: variables[hosts[0]]["lab_published_port"] for site, hosts in sites.items()},
        flows=[
            (flow["source"], site)
            for site, hosts in sites.items()
            for flow in variables[hosts[0]].get("mirror_maker_flows", [])
        ],
    )


def produce(bootstrap_servers: str, origin: str) -> int:
    """Write all flights of one airport; the number of records, every one acknowledged by the broker."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(PKI / "ca/ca.pem"),
            "ssl.certificate.location": str(PKI / "clients/flights.pem"),
            "ssl.key.location": str(PKI / "clients/flights.pem"),
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 50,
            "log_level": 3,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    failed: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error:
            failed.append(str(error))

    records = 0
    for flight in flights(origin):
        producer.produce(
            "flights", flight.value, flight.key, timestamp=flight.timestamp, headers=list(flight.headers),
            on_delivery=delivered,
        )  # fmt: skip
        producer.poll(0)
        records += 1
    producer.flush()
    if failed:
        sys.exit(f"demo: {len(failed)} flights were not written to {bootstrap_servers}: {failed[0]}")
    return records


def caught_up(lab: Lab, source: str, target: str) -> dict[str, Any]:
    """Wait until a lake has all that its source has; what `aqueduct mirror` reports, and how long it took."""
    report = REPORTS / f"mirror-{source}-{target}.json"
    admin = str(PKI / "clients/admin.properties")
    command = ["aqueduct", "mirror", "--source", source, "--source-bootstrap-servers", lab.address(source)]
    command += [
        "--target-bootstrap-servers",
        lab.address(target),
        "--source-config",
        admin,
        "--target-config",
        admin,
    ]
    started = time.monotonic()
    done = subprocess.run(
        [*command, "--wait", CATCH_UP, "--until-caught-up", "--report", report],
        capture_output=True,
        text=True,
    )
    if not report.exists():
        sys.exit(f"demo: the flow from {source} to {target} tells nothing: {done.stderr.strip()}")
    seen = json.loads(report.read_text())
    return {
        "seconds": time.monotonic() - started,
        "behind": sum(partition["behind"] for partition in seen["partitions"]),
        "findings": seen["findings"],
    }


def stream() -> None:
    """Write the flights at their sources, and wait until every flow has carried them."""
    lab = read_lab()
    REPORTS.mkdir(exist_ok=True)
    started = time.monotonic()
    with ThreadPoolExecutor() as pool:
        produced = dict(
            zip(
                AIRPORTS,
                pool.map(produce, (lab.address(site) for site in AIRPORTS), AIRPORTS.values()),
                strict=True,
            )
        )
        producing = time.monotonic() - started
        for site, records in produced.items():
            print(f"    {site}: {records:,} flights from {AIRPORTS[site]} written and acknowledged")
        waits = {flow: pool.submit(caught_up, lab, *flow) for flow in lab.flows}
        flows = [
            {
                "source": source,
                "target": target,
                "streamed": produced[source],
                "producing": producing,
                **wait.result(),
            }
            for (source, target), wait in waits.items()
        ]
    STREAMED.write_text(json.dumps(flows, indent=2))


def table() -> None:
    """Print what came of every flow, from the reports of `stream` and of playbooks/reconcile.yml."""
    lab = read_lab()
    columns = "{:<17} {:>11} {:>11}  {:<9} {:>13} {:>8}"
    print("\n" + columns.format("flow", "records in", "records out", "equal", "records/s", "lag"))
    every_one_equal = True
    for flow in json.loads(STREAMED.read_text()):
        source, target = flow["source"], flow["target"]
        compared = json.loads((REPORTS / f"{source}-{target}.json").read_text())
        equal = compared["exit_code"] == 0
        every_one_equal &= equal and not flow["findings"]
        print(
            columns.format(
                f"{source} -> {target}",
                f"{sum(partition['source_records'] for partition in compared['partitions']):,}",
                f"{sum(partition['target_records'] for partition in compared['partitions']):,}",
                "yes" if equal else "NO",
                f"{flow['streamed'] / (flow['producing'] + flow['seconds']):,.0f}",
                f"{flow['behind']:,}",
            )
        )
        for finding in flow["findings"]:
            print(f"    {finding}")
    admin = PKI / "clients/admin.properties"
    print(
        f"\nEqual: {REPORTS}/*.json compare every record's key, value, headers and timestamp, in order.\n"
        "Records/s: from the first flight written to the last one mirrored, all flows at once.\n"
        "Look further:\n"
        f"  any client    {', '.join(f'{site} is localhost:{port}' for site, port in lab.ports.items())};"
        f" certificate: {admin}\n"
        f"  health        .venv/bin/aqueduct health --bootstrap-servers localhost:{lab.ports['pro1']}"
        f" --client-config {admin}\n"
        "  a service     docker exec aqueduct-lab-dwdev1-kafka-1 systemctl status mirror_maker@pro1\n"
        "  change it     edit inventories/lab, then .venv/bin/ansible-playbook playbooks/site.yml\n"
        "  take it down  script/lab-down"
    )
    if not every_one_equal:
        sys.exit("demo: not every flow is equal at both ends; the table and the reports say which.")


if __name__ == "__main__":
    {"stream": stream, "table": table}[sys.argv[1]]()
